"""The calls of the shell of a classic queue to its machine, beside commands.

All of them concern one member: the room in windows, the time, the work of a turn, what its disk has
made durable, and what is left after a fault. Members never agree on any of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.compiling import mypyc_attr
from sluicemq.queues.classic.head import Head
from sluicemq.queues.classic.memory_target import target_count
from sluicemq.queues.commands import Settle
from sluicemq.queues.effects import Confirm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluicemq.flow.credit import Outflow
    from sluicemq.flow.prefetch import Limiter
    from sluicemq.kernel.actor import Actor
    from sluicemq.queues.classic.deduplication import Deduplication
    from sluicemq.queues.classic.limits import Limits
    from sluicemq.queues.classic.unacked_runs import UnackedRun
    from sluicemq.queues.commands import Get
    from sluicemq.queues.effects import Effect, Receipt


@mypyc_attr(allow_interpreted_subclasses=True)
class LocalCalls(Head):
    """A classic queue as its shell sees it, apart from commands."""

    limits: Limits
    deduplication: Deduplication | None
    waiting: list[Get]
    settling: tuple[int, int, int] | None
    deals_max: int
    piece_max: int

    # -- time

    @property
    def needs_tick(self) -> bool:
        """Tell whether there is, or may be soon, something for `enforce` to do; else `serve` is
        enough."""
        return self.limits.needs_tick

    def enforce(self, now_ms: int, effects: list[Effect]) -> None:
        """Serve, and apply the limits. `now_ms` is in milliseconds since the epoch; the machine
        uses the time of the last call."""
        self.limits.enforce(now_ms, effects)

    @property
    def has_more_to_enforce(self) -> bool:
        """Tell whether `enforce` has ended because it had done a turn's work, and has to be called
        again."""
        return self.limits.more

    def next_expiry_ms(self) -> int:
        """Return when the message at the head will expire, in milliseconds since the epoch. Returns
        0 when it never does, when that is not known yet, or when it has expired and waits for its
        body or for room, which wakes the queue."""
        limits = self.limits
        expiry_ms = limits.next_expiry()
        return expiry_ms if expiry_ms > limits.now_ms else 0

    # -- room

    def window_opened(self, window: Outflow) -> None:
        """Serve consumers that wait for this window, because a channel has sent some of its
        deliveries."""
        self.consumers.wake(window)

    def limiter_opened(self, limiter: Limiter) -> None:
        """Serve consumers that wait for this limiter, because a channel has room again for what its
        consumers may hold together."""
        self.consumers.resume(limiter)

    # -- work

    def bound_turn(self, turn_work: int) -> None:
        """Bound the work of each step from now on to a fair part of a turn of `turn_work` units."""
        self.deals_max = self.piece_max = turn_work // 10 + 1

    def take_work(self) -> int:
        """Return the units of work that commands and calls have cost since the last
        call of this.
        """
        work, self.work = self.work, 0
        return work

    # -- RAM and disk

    def written(self, receipts: Sequence[Receipt], effects: list[Effect]) -> None:
        """Confirm the messages of these receipts, where somebody waits for that: their writes are
        durable."""
        effects.extend(
            Confirm(each.link, each.first_seq, each.count) for each in receipts if each.confirm
        )
        if self.deduplication is not None:
            self.deduplication.written(receipts, effects)

    def set_target(self, duration_s: float) -> None:
        """Keep at most as many messages in RAM as move through the queue in `duration_s` seconds;
        infinity keeps all."""
        self.backing.target = target_count(duration_s, self.rates.sum())

    # -- what is left after a fault

    def unanswered(self) -> list[Actor]:
        """Return the channels whose basic.get waits for a message from the disk, one entry for each
        basic.get."""
        return [get.channel for get in self.waiting]

    def credit_settled(self) -> None:
        """Give the consumer back the credit of the part at which the fault has come, as far as it
        is settled and was not credited."""
        part, self.settling = self.settling, None
        run = None if part is None else self.unacked_runs.get(part[0])
        if part is not None and run is not None:
            _, start, end = part
            still = [max(0, min(end, b) - max(start, a)) for a, b in run.open_parts()]
            self.credit(run, end - start - sum(still))

    def settle_rest(self, command: Settle) -> None:
        """Settle the unsettled messages of these parts after a fault. Only the credit of their
        consumers still matters."""
        parts = [
            (number, max(start, first), min(end, last))
            for number, start, end in command.parts
            if number in self.unacked_runs
            for first, last in self.unacked_runs[number].open_parts()
            if first < end and start < last
        ]
        self.settle(Settle(command.link, parts, command.outcome), [])

    def settle(self, command: Settle, effects: list[Effect]) -> None:
        """Acknowledge, requeue or reject parts of unacknowledged runs, as the command says."""
        raise NotImplementedError

    def credit(self, run: UnackedRun, count: int) -> None:
        """Let the consumer of a run, if it has one, take `count` messages more."""
        raise NotImplementedError
