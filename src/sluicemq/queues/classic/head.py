"""A classic queue as its limits (`limits.py`) see it: the head of its ready messages,
and its runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.compiling import mypyc_attr
from sluicemq.queues.machine import QueueMachine

if TYPE_CHECKING:
    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic.backing import Backing
    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.classic.delivery_counts import DeliveryCounts
    from sluicemq.queues.classic.memory_target import Rates
    from sluicemq.queues.classic.unacked_runs import UnackedRun
    from sluicemq.queues.commands import LinkId, Publish
    from sluicemq.queues.effects import Effect


@mypyc_attr(allow_interpreted_subclasses=True)
class Head(QueueMachine):
    """The part of a classic queue that limits work with. `ram_acks` counts the messages in runs
    whose bodies could leave RAM for the message store, `work` the units of work that commands have
    cost since the shell's last look; `unacked_runs_of` has the runs by the link of their delivery.
    """

    durable: bool
    backing: Backing
    rates: Rates
    unacked_runs: dict[int, UnackedRun]
    unacked_runs_of: dict[LinkId, dict[int, UnackedRun]]
    next_run: int
    ram_acks: int
    work: int
    delivery_counts: DeliveryCounts | None

    # -- messages that come and go

    def take(self, command: Publish, effects: list[Effect]) -> None:
        """Store the messages of the batch that fit, and answer for all of it."""
        raise NotImplementedError

    def refuse(self, batch: Batch, effects: list[Effect]) -> None:
        """Drop messages that do not fit, or make them dead letters, as the limits say. Their
        publisher is answered elsewhere."""
        raise NotImplementedError

    def store(self, batch: Batch, expiry: int) -> int:
        """Make these messages ready at the tail; returns the position of the first one. `expiry` is
        in milliseconds since the epoch, 0: they never expire."""
        raise NotImplementedError

    def promise(self, batch: Batch, command: Publish, position: int, effects: list[Effect]) -> None:
        """Confirm messages stored from `position` on, now or once they are as safe as
        they can be.
        """
        raise NotImplementedError

    def next_chunk(self) -> Chunk | None:
        """Return the chunk at the head if its bodies are in RAM; None when there is none."""
        raise NotImplementedError

    def release_chunk(
        self, chunk: Chunk, contents: list[bytes], positions: range, effects: list[Effect]
    ) -> None:
        """Let messages go for good that no consumer has had."""
        raise NotImplementedError

    def acknowledge(self, run: UnackedRun, start: int, end: int, effects: list[Effect]) -> None:
        """Let the messages [start, end) of a run go for good."""
        raise NotImplementedError

    # -- runs

    def open_run(self, run: UnackedRun, size: int) -> int:
        """Remember a delivery of `size` bytes; returns the number of its run."""
        number = self.next_run
        self.next_run += 1
        self.keep_run(number, run)
        depth = self.depth
        depth.unacked += run.left
        depth.unacked_bytes += size
        depth.ram_unacked += run.left
        if run.chunk.id_base is not None:
            self.ram_acks += run.left
        self.rates.ack_in += run.left
        return number

    def keep_run(self, number: int, run: UnackedRun) -> None:
        """Keep a run under this number, and under its link, until it is settled."""
        assert run.link.term == self.term, "a run over a link of another life"
        self.unacked_runs[number] = run
        same = self.unacked_runs_of.get(run.link)
        if same is None:
            self.unacked_runs_of[run.link] = {number: run}
        else:
            same[number] = run

    def forget_run(self, number: int, run: UnackedRun) -> None:
        """Remove the run of this number, which is settled."""
        del self.unacked_runs[number]
        del self.unacked_runs_of[run.link][number]
