"""The state of a mirror without its behaviour, which is in `mirror.py`."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from sluicemq.kernel.machine import Replicated
from sluicemq.queues.mirrored.commands import MirrorCommand, MirrorEffect
from sluicemq.queues.mirrored.in_sync_set import InSyncSet
from sluicemq.queues.mirrored.mirrored_rows import MirroredRow, MirroredRun
from sluicemq.storage.positions import first_of_priority, priority_at


class MirrorState(Replicated[MirrorCommand, MirrorEffect]):
    """The parts of the state of one mirrored queue; all of them are in its snapshots."""

    def __init__(self) -> None:
        self.in_sync = InSyncSet()
        self.rows: dict[int, MirroredRow] = {}
        """The rows by priority; 0 is the only one of a queue without priorities."""

    @property
    def messages(self) -> int:
        """Return how many messages are in the queue."""
        return sum(row.messages for row in self.rows.values())

    @property
    def body_bytes(self) -> int:
        """Return the bytes of the queue's contents."""
        return sum(row.size_bytes for row in self.rows.values())

    @property
    def snapshot_rows(self) -> int:
        """Return the number of rows of a snapshot, except a few."""
        return sum(row.run_count for row in self.rows.values())

    def delivered(self, position: int) -> int:
        """Return the position below which messages of the same row may have been delivered."""
        priority = priority_at(position)
        row = self.rows.get(priority)
        return first_of_priority(priority) if row is None else row.delivered

    def firsts(self) -> dict[int, int]:
        """Return the position of the first message of each row that has any."""
        heads = ((priority, row.head) for priority, row in self.rows.items())
        return {priority: run.positions[0].start for priority, run in heads if run is not None}

    def runs(self) -> Iterator[MirroredRun]:
        """Give all runs with messages in the queue, in the order of the log."""
        rows = [row.runs() for row in self.rows.values()]
        return merge(*rows, key=lambda run: (run.index, run.place))
