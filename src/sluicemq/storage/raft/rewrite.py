"""Rewriting segments of a Raft group to the entries that a snapshot names as still needed.

    old segments, of which less than half is needed ---job---> one new segment

The group counts on the new one when that is durable. The old files stay until no checkpoint that
may still be used knows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.raft.segment_file import (
    RaftSegment,
    RaftSegmentWrite,
    raft_segment_path,
    read_raft_segment,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.storage.raft.group import RaftGroup


class RaftRewrite(DiskJob):
    """Writes those entries of `old` segments of a group that are in the ranges `live` into a new
    segment, durably. `made` is that segment afterwards; None when some entry could not be read."""

    def __init__(
        self,
        group: int,
        strand: int,
        old: tuple[RaftSegment, ...],
        live: tuple[range, ...],
        new: RaftSegment,
    ) -> None:
        self.group = group
        self.strand = strand
        self.old = old
        self.live = live
        self.new = new
        self.made: RaftSegment | None = None
        self.problem = ""
        """Why nothing was made."""

    def run(self, files: Files) -> None:
        entries = []
        for segment in self.old:
            read = read_raft_segment(files, self.group, segment)
            if read.problem:
                self.problem = f"{raft_segment_path(self.group, segment.number)}: {read.problem}"
                return
            entries += [each for each in read.entries if any(each.index in s for s in self.live)]
        write = RaftSegmentWrite(self.group, self.strand)
        made = write.add(self.new, entries)
        write.run(files)
        self.made = made

    @property
    def old_paths(self) -> list[str]:
        """The paths of the files that are superfluous when the new one counts."""
        return [raft_segment_path(self.group, segment.number) for segment in self.old]


def needed_in(group: RaftGroup, segment: RaftSegment) -> int:
    """Return how many entries of a segment are needed, all of which are up to the snapshot's."""
    return sum(
        max(0, min(some.stop, segment.last + 1) - max(some.start, segment.first))
        for some in group.live
    )


def wasteful(group: RaftGroup, entries_max: int) -> tuple[RaftSegment, ...]:
    """Return the first segments, one beside the other, less than half of each of which is needed,
    and that fit into one of `entries_max` entries; none, if there are none. The newest is still
    being written."""
    found: list[RaftSegment] = []
    total = 0
    for segment in group.segments[:-1]:
        count = needed_in(group, segment)
        is_wasteful = segment.last <= group.snapshot.index and 2 * count < segment.entries
        if is_wasteful and total + count <= entries_max:
            found.append(segment)
            total += count
        elif found:
            break
    return (*found,)


def begin_rewrite(
    group: RaftGroup, strand: int, entries_max: int, new_file_id: Callable[[], bytes]
) -> RaftRewrite | None:
    """Return the job that rewrites segments of a group; None when none is worth it."""
    old = wasteful(group, entries_max)
    if not old:
        return None
    new = RaftSegment(group.next_segment, new_file_id(), 0, 0, 0, 0)
    group.next_segment += 1
    return RaftRewrite(group.id, strand, old, group.live, new)


def end_rewrite(group: RaftGroup, job: RaftRewrite) -> bool:
    """Count on what a rewrite has made in place of the old segments, and tell whether that is so:
    not when some of these have gone meanwhile."""
    segments = group.segments
    if job.made is None or not {*job.old} <= {*segments}:
        return False
    at = segments.index(job.old[0])
    assert segments[at : at + len(job.old)] == job.old, "segments stay beside one another"
    group.segments = (*segments[:at], job.made, *segments[at + len(job.old) :])
    return True
