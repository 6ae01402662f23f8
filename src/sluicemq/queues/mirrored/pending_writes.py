"""The messages that a master has taken and that are in no entry of the log yet. Those that leave
the queue before their entry is made are never written: whoever published them has been heard by
whoever consumed them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

from sluicemq.queues.mirrored.commands import WriteMessages
from sluicemq.queues.mirrored.mirrored_rows import bits_within
from sluicemq.storage.bits import ranges_of
from sluicemq.storage.entries import Run
from sluicemq.storage.positions import priority_at

R = TypeVar("R")


class PendingWrite(Generic[R]):
    """Messages that came together at `came_ms`, with a bit in `alive` for each that is in the
    queue. `receipt` is due when these are safe; None: nobody waits."""

    __slots__ = ("alive", "came_ms", "receipt", "run")

    def __init__(self, run: Run, receipt: R | None, came_ms: int) -> None:
        self.run = run
        self.receipt = receipt
        self.came_ms = came_ms
        self.alive = (1 << run.count) - 1


class PendingWrites(Generic[R]):
    """The writes of the next entry, in the order in which they came."""

    def __init__(self) -> None:
        self.writes: dict[int, PendingWrite[R]] = {}
        """The writes by their first positions."""
        self.size_bytes = 0
        """The bytes of their messages, including those that have left a write."""
        self.messages = 0
        """The number of their messages, without those that have left a write."""
        self.overtaken = 0
        """The number of messages so far that left the queue before they were written."""
        self.moved_ms = 0
        """When the last message came, or left a write."""
        self._firsts: dict[int, list[int]] = {}
        """For each row, the first positions of its writes, ascending."""

    @property
    def oldest_ms(self) -> int:
        """Return when the oldest of the writes came. There must be one."""
        return next(iter(self.writes.values())).came_ms

    def add(self, run: Run, receipt: R | None, now_ms: int) -> None:
        """Add messages behind all others of their row."""
        self.writes[run.first] = PendingWrite(run, receipt, now_ms)
        self._firsts.setdefault(priority_at(run.first), []).append(run.first)
        self.size_bytes += sum(run.sizes)
        self.messages += run.count
        self.moved_ms = now_ms

    def remove(self, positions: range, now_ms: int) -> tuple[range, list[R]]:
        """Remove the messages at these ascending positions of one row. Returns the positions that
        are in an entry already, and the receipts of the writes of which nothing is left."""
        firsts = self._firsts.get(priority_at(positions.start))
        if not firsts or positions[-1] < firsts[0]:
            return positions, []
        border = max(0, -(-(firsts[0] - positions.start) // positions.step))
        written, positions = positions[:border], positions[border:]
        receipts: list[R] = []
        self.moved_ms = now_ms
        at = bisect_right(firsts, positions.start) - 1
        while at < len(firsts) and firsts[at] <= positions[-1]:
            write = self.writes[firsts[at]]
            gone = bits_within(positions, write.run.first, write.run.count) & write.alive
            write.alive ^= gone
            self.overtaken += gone.bit_count()
            self.messages -= gone.bit_count()
            if write.alive:
                at += 1
                continue
            del self.writes[firsts.pop(at)]
            self.size_bytes -= sum(write.run.sizes)
            if write.receipt is not None:
                receipts.append(write.receipt)
        return written, receipts

    def take(self) -> tuple[list[WriteMessages], list[range], list[R]]:
        """Take the writes for an entry. Returns the commands, the positions that have to be removed
        behind them, and the receipts that wait for the entry."""
        commands: list[WriteMessages] = []
        gone: list[range] = []
        receipts: list[R] = []
        for write in self.writes.values():
            run, alive = write.run, write.alive
            if alive.bit_count() < run.count:
                start = (alive & -alive).bit_length() - 1
                run = run.part(start, alive.bit_length())
                gone += ranges_of((alive >> start) ^ ((1 << run.count) - 1), run.first)
            commands.append(WriteMessages(run))
            if write.receipt is not None:
                receipts.append(write.receipt)
        self.writes = {}
        self._firsts = {}
        self.size_bytes = 0
        self.messages = 0
        return commands, gone, receipts
