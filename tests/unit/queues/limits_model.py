"""The bench of a queue that pages, with a clock, limits, and a publisher for dead letters of which
the test says when it is done. What leaves the head must be too old or too much, and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from sluicemq.queues.classic.chunk import Chunk
from sluicemq.queues.classic.limits import EXPIRED, MAX_LENGTH, REJECTED, Limits
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.commands import ACK, REJECT, Command, Configure, Publish, Settle
from sluicemq.queues.effects import DeadLetter, Effect, Got, Remove
from sluicemq.queues.settings import QueueSettings
from sluicemq.storage.positions import priority_at

from .carrying_out import ENDLESS, settles
from .paging_model import Bench, Held, Message, tiny

DYING = 5


@contextmanager
def tiny_limits() -> Iterator[None]:
    """Few dead letters at a time, little work in a turn."""
    with (
        tiny(),
        patch("sluicemq.queues.classic.limits.DEAD_LETTERS_MAX", DYING),
        patch("sluicemq.queues.classic.limits.LIMIT_WORK", 8),
    ):
        yield


class Buried:
    """Among the effects: these positions have left the head, into that run if any."""

    channel = None

    def __init__(self, positions: list[int], reason: str, run: int, now_ms: int) -> None:
        self.positions = positions
        self.reason = reason
        self.run = run
        self.now_ms = now_ms


def turn(position: int) -> tuple[int, int]:
    """Sort key: what is more urgent comes first."""
    return -priority_at(position), position


def in_order(effects: list[Effect], position_of: Callable[[bytes], int]) -> list[Effect]:
    """What has expired behind a message that was got leaves before the answer is made, which counts
    without it; but it was the message that left first."""
    found: list[Effect] = []
    for effect in effects:
        at = len(found)
        if isinstance(effect, Got) and effect.content is not None:
            position = position_of(effect.content)
            for index in range(at - 1, -1, -1):
                before = found[index]
                if not isinstance(before, Buried | DeadLetter | Remove):
                    break
                if not isinstance(before, Buried) or not before.positions:
                    continue
                if turn(before.positions[0]) > turn(position):
                    at = index
                    effect.ready += len(before.positions)
        found.insert(at, effect)
    return found


class WatchedLimits(Limits):
    """Tells what leaves, where it leaves among the other effects."""

    def dead_letter(self, chunk: Chunk, count: int, reason: str, effects: list[Effect]) -> int:
        first = chunk.position + chunk.start
        run = self.queue.next_run if self.dead_letters else 0
        taken = super().dead_letter(chunk, count, reason, effects)
        if taken:
            positions = list(range(first, first + taken))
            effects.append(Buried(positions, reason, run, self.now_ms))  # type: ignore[arg-type]
        return taken

    def drop(self, number: int, effects: list[Effect]) -> None:
        super().drop(number, effects)
        effects.append(Buried([], REJECTED, number, self.now_ms))  # type: ignore[arg-type]


class LimitedBench(Bench):
    """`settings` hold from the beginning, for every queue."""

    def __init__(self, durable: bool, lazy: bool, highest: int, settings: QueueSettings) -> None:
        self.settings = settings
        self.now_ms = 1_000_000
        self.dying: list[DeadLetter] = []
        super().__init__(durable, lazy, highest)

    def new_queue(self) -> None:
        super().new_queue()
        self.dying = []
        self.machine.limits = WatchedLimits(self.machine)
        self.configure(self.settings)

    def configure(self, settings: QueueSettings) -> None:
        """A policy has changed."""
        self.settings = settings._replace(lazy=self.lazy)
        ClassicQueue.apply(self.machine, Configure(self.settings), [])

    # -- time

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.turn()

    def apply(self, command: Command) -> None:
        """As the queue actor does it."""
        if isinstance(command, Publish):
            ttl_ms = self.settings.message_ttl_ms
            command.expiry = 0 if ttl_ms is None else self.now_ms + ttl_ms
            for content in [] if self.deleted else command.batch.contents:
                self.by_content[content].expiry = command.expiry
        elif self.machine.limits.needs_tick:
            self.serve()
        super().apply(command)

    def serve(self) -> None:
        if not self.machine.limits.needs_tick:
            super().serve()
            return
        effects: list[Effect] = []
        self.machine.deals_max = ENDLESS
        self.machine.enforce(self.now_ms, effects)
        self.make_real(effects)

    def turn(self) -> None:
        super().turn()
        for _ in range(1000):
            if not self.machine.limits.more:
                return
            super().turn()
        raise AssertionError("there is always more to do")

    def work_on_disk(self) -> None:
        for chunk in self.machine.limits.bodies_wanted():
            assert chunk.id_base is not None
            ids = [position + chunk.id_base for position in chunk.positions()]
            self.reads.append((chunk, range(ids[0], ids[-1] + 1)))
        super().work_on_disk()

    # -- what leaves

    def make_real(self, effects: list[Effect]) -> None:
        some: list[Effect] = []
        for effect in in_order(effects, lambda content: self.by_content[content].position):
            if isinstance(effect, DeadLetter):
                self.dying.append(effect)
            elif isinstance(effect, Buried):
                super().make_real(some)
                some = []
                self.buried(effect)
            else:
                some.append(effect)
        super().make_real(some)

    def buried(self, effect: Buried) -> None:
        if effect.reason == REJECTED:
            for position in [p for p, held in self.out.items() if held.run == effect.run]:
                self.gone(self.out.pop(position).message)
            return
        length = len(self.ready)
        messages = self.ready[: len(effect.positions)]
        assert [message.position for message in messages] == effect.positions
        for index, message in enumerate(messages):
            is_old = 0 < message.expiry <= effect.now_ms
            if effect.reason == EXPIRED:
                assert is_old, "it has not expired"
            else:
                assert effect.reason == MAX_LENGTH
                assert self.settings.max_length is not None
                assert length - index > self.settings.max_length, "it was not too much"
        del self.ready[: len(messages)]
        for index, message in enumerate(messages):
            if effect.run:
                self.out[message.position] = Held(message, self.actor, effect.run, index)
            else:
                self.gone(message)

    def reject(self, choice: int, length: int) -> None:
        """Some of what is out at clients, for good."""
        self.settle_as(choice, length, REJECT)

    def settle(self, choice: int, length: int, requeue: bool) -> None:
        self.settle_as(choice, length, int(requeue))

    def settle_as(self, choice: int, length: int, outcome: int) -> None:
        own = {p: held for p, held in self.out.items() if held.channel is self.actor}
        self.out = {p: held for p, held in self.out.items() if p not in own}
        if outcome != REJECT:
            super().settle(choice, length, bool(outcome))
            self.out |= own
            return
        positions = sorted(self.out)[choice % max(1, len(self.out)) :][:length]
        rejected = {position: self.out.pop(position) for position in positions}
        self.out |= own
        dead_letters = self.machine.limits.dead_letters
        for position, held in rejected.items():
            if dead_letters:
                self.out[position] = held
            else:
                self.gone(held.message)
        parts: list[tuple[int, int, int]] = []
        for held in rejected.values():
            start = held.index
            if parts and parts[-1][0] == held.run and parts[-1][2] == start:
                start = parts.pop()[1]
            parts.append((held.run, start, held.index + 1))
        before = self.machine.next_run
        for command in settles(self.machine, parts, REJECT):
            super().apply(command)
        for number, run in self.machine.unacked_runs.items():
            if number >= before:
                for index, position in enumerate(run.positions):
                    self.out[position] = Held(self.out[position].message, self.actor, number, index)
        self.turn()

    def arrive(self, choice: int) -> None:
        """One of the broker's own publishes is safe."""
        if self.dying:
            self.arrived(self.dying.pop(choice % len(self.dying)))
        self.turn()

    def arrived(self, effect: DeadLetter) -> None:
        end = effect.start + len(effect.contents)
        settled = [
            position
            for position, held in self.out.items()
            if held.run == effect.run and effect.start <= held.index < end
        ]
        assert self.deleted or len(settled) == len(effect.contents)
        for position in settled:
            held = self.out.pop(position)
            if not self.deleted:
                body = effect.contents[held.index - effect.start]
                assert held.message.content == body, "another body"
                assert effect.reason in (EXPIRED, MAX_LENGTH, REJECTED)
                self.gone(held.message)
        self.apply(Settle(self.machine.own_link, [(effect.run, effect.start, end)], ACK))

    def give(self, channel: object, run: int, contents: list[bytes], redelivered: bool) -> None:
        for content in contents:
            expiry = self.by_content[content].expiry
            assert not expiry or expiry >= self.machine.limits.now_ms, "delivered after its time"
        super().give(channel, run, contents, redelivered)  # type: ignore[arg-type]

    def got(self, effect: Got) -> None:
        if effect.content is None and self.ready:
            assert self.is_due(self.ready[0])
            assert not self.machine.limits.has_room()
            self.gets -= 1
            return
        super().got(effect)

    def lose_bodies(self, choice: int) -> None:
        """The message store answers the oldest question, but for some of the bodies."""
        if not self.reads:
            return
        chunk, ids = self.reads.pop(0)
        bodies = self.persistent if self.is_kept(chunk.traits.persistent) else self.transient
        kept = [number for number in ids if number in bodies.contents]
        missing = [number for at, number in enumerate(kept) if choice >> at & 1]
        found = {number: bodies.contents[number] for number in kept if number not in missing}
        lost = [p for some in self.machine.got_bodies(chunk, found) for p in some]
        for position in lost:
            held = self.out.pop(position, None)
            [message] = (
                [m for m in self.ready if m.position == position]
                if held is None
                else [held.message]
            )
            self.lost(message)
        self.turn()

    def lost(self, message: Message) -> None:
        """Nobody has taken it away, but it is not there."""
        self.ready = [each for each in self.ready if each is not message]
        bodies = self.persistent if self.is_kept(message.persistent) else self.transient
        del bodies.contents[message.id]
        self.published -= 1
        self.journalled.discard(message.position)

    # -- what must hold

    def is_due(self, message: Message) -> bool:
        return 0 < message.expiry <= self.now_ms

    def check_limits(self) -> None:
        """When nothing is waited for, nothing is too old or too much."""
        limits = self.machine.limits
        at_broker = [held for held in self.out.values() if held.channel is self.actor]
        assert limits.in_flight == sum(len(effect.contents) for effect in self.dying)
        doomed = sum(
            self.machine.unacked_runs[number].left for number, _ in limits.pending_dead_letters
        )
        assert len(at_broker) == limits.in_flight + doomed
        assert limits.in_flight < DYING + max([6, *(len(e.contents) for e in self.dying)])
        if self.strand or self.reads or self.deleted or not limits.has_room():
            return
        assert not doomed, "a rejected message waits for nothing"
        if self.ready:
            assert not self.is_due(self.ready[0]), "the head is too old"
        if self.settings.max_length is not None:
            assert len(self.ready) <= self.settings.max_length, "there is too much"

    def back_from_the_broker(self) -> None:
        for position in [p for p, held in self.out.items() if held.channel is self.actor]:
            self.back(self.out.pop(position).message)

    def drain(self) -> None:
        for _ in range(1000):
            while self.dying:
                self.arrive(0)
            if not (self.strand or self.reads):
                break
            self.work()
            self.read_bodies()
            self.sync_journal()
        self.configure(QueueSettings())
        super().drain()
