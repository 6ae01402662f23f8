"""Stages entries that a snapshot needs in segments, which will count when it is installed.

    pieces from the leader ---StagedWrite---> segments that nothing refers to
    the snapshot's record names them, when they are durable: StagedSync, then the journal

Staged segments are useful in this life only: a start deletes files to which nothing refers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.disk import SYNC_STRAND, DiskJob, Files
from sluicemq.limits import RAFT_SEGMENT_BYTES
from sluicemq.storage.raft.codec import ENTRIES_MAX
from sluicemq.storage.raft.live_indexes import joined
from sluicemq.storage.raft.reading import note_places
from sluicemq.storage.raft.segment import RaftSegment
from sluicemq.storage.raft.segment_file import (
    RaftSegmentWrite,
    raft_directory,
    raft_segment_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.raft.entry import LogEntry
    from sluicemq.storage.raft.codec import RaftSnapshot
    from sluicemq.storage.raft.group import RaftGroup
    from sluicemq.storage.raft.offsets import EntryOffsets


class StagedWrite(RaftSegmentWrite):
    """Writes entries into staged segments, without making them durable."""

    def run(self, files: Files) -> None:
        self.write(files)


class StagedSync(DiskJob):
    """Makes staged segments durable on the disk."""

    def __init__(self, group: int, segments: tuple[RaftSegment, ...]) -> None:
        self.group = group
        self.segments = segments

    def run(self, files: Files) -> None:
        for segment in self.segments:
            files.sync(raft_segment_path(self.group, segment.number))
        files.sync_directory(raft_directory(self.group))


class InOrder(DiskJob):
    """Runs jobs one after the other. It may be submitted again if they may."""

    def __init__(self, jobs: list[DiskJob]) -> None:
        self.jobs = jobs

    def run(self, files: Files) -> None:
        for job in self.jobs:
            job.run(files)


class Staging:
    """The staged segments of one group, with the indexes of their entries."""

    def __init__(self, group: RaftGroup) -> None:
        self.group = group
        self.segments: list[RaftSegment] = []
        self.places: dict[int, EntryOffsets] = {}
        """The places of the entries, by the numbers of the segments."""
        self.ranges: list[range] = []
        """The indexes of the entries as ranges: ascending, and no two of them touch."""

    def add(
        self, entries: list[LogEntry], new_file_id: Callable[[], bytes], entries_max: int
    ) -> StagedWrite:
        """Return the job that writes entries behind the others, into segments of at most
        `entries_max`. Their sender may have trimmed them, so that none of them can be applied
        again."""
        job = StagedWrite(self.group.id, SYNC_STRAND)
        indexes = [entry.index for entry in entries]
        assert indexes == sorted({*indexes}), "entries come in their order"
        assert not self.ranges or not indexes or indexes[0] >= self.ranges[-1].stop
        at = 0
        while at < len(entries):
            last = self.segments[-1] if self.segments else None
            if last is None or last.entries >= entries_max or last.length >= RAFT_SEGMENT_BYTES:
                last = RaftSegment(self.group.next_segment, new_file_id(), 0, 0, 0, 0)
                self.group.next_segment += 1
                self.segments.append(last)
            some = entries[at : at + entries_max - last.entries]
            self.segments[-1] = job.add(last, some, indexes)
            at += len(some)
        note_places(self.places, job)
        for index in indexes:
            self._note(index)
        return job

    def _note(self, index: int) -> None:
        if self.ranges and self.ranges[-1].stop == index:
            self.ranges[-1] = range(self.ranges[-1].start, index + 1)
        else:
            self.ranges.append(range(index, index + 1))

    def put_in(self, record: RaftSnapshot) -> RaftSnapshot:
        """Return the record of a snapshot together with the staged entries that it needs."""
        ends = ((each.start, min(each.stop, record.snapshot.live_upto + 1)) for each in self.ranges)
        live = [range(*each) for each in ends if each[0] < each[1]]
        assert live, "a snapshot that needs entries has none"
        return record._replace(live=joined(live, ENTRIES_MAX), segments=(*self.segments,))

    @property
    def paths(self) -> list[str]:
        """Return the paths of the files."""
        return [raft_segment_path(self.group.id, segment.number) for segment in self.segments]
