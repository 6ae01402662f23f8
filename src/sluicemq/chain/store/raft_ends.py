"""The ends of Raft groups: the files of a group are deleted when all jobs for it have come back.

    RaftGroupGone is durable -> its jobs come back -> its files are deleted -> its owner is told

Then the group may begin anew on this node, because it gets another member of the same queue. No job
for the former member is left that could write or delete files of that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.storage.raft.rewrite import RaftRewrite
from sluicemq.storage.raft.segment_file import RaftFilesGone, RaftSegmentWrite
from sluicemq.storage.raft.snapshot_file import RaftContentWrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.kernel.disk import DiskJob

RAFT_JOBS = RaftSegmentWrite | RaftContentWrite | RaftRewrite | RaftFilesGone
"""Jobs for the files of one group."""


class RaftEnds:
    """The groups of a message store that end, and the jobs under way for each group. `submit` gives
    the disk a job in the strand of that group."""

    def __init__(self, submit: Callable[[DiskJob], None], strand: Callable[[int], int]) -> None:
        self.submit = submit
        self.strand = strand
        self.under_way: dict[int, int] = {}
        """The number of jobs under way, by groups that have some."""
        self.ending: dict[int, list[Callable[[], None]]] = {}
        """What is called when a group has ended, by groups that are ending."""

    def begin(self, group: int, told: Callable[[], None]) -> None:
        """Delete all files of a group, of which nothing is to be read any more, and call `told`
        when nothing of it is left."""
        if group in self.ending:
            self.ending[group].append(told)
            return
        self.ending[group] = [told]
        if group not in self.under_way:
            self._delete(group)

    def begun(self, job: RAFT_JOBS) -> None:
        """Note that a job is under way."""
        self.under_way[job.group] = self.under_way.get(job.group, 0) + 1

    def came_back(self, job: RAFT_JOBS) -> None:
        """Note that a job will not be run any more."""
        group = job.group
        left = self.under_way[group] - 1
        if left:
            self.under_way[group] = left
            return
        del self.under_way[group]
        if group not in self.ending:
            return
        if isinstance(job, RaftFilesGone) and job.whole:
            for told in self.ending.pop(group):
                told()
        else:
            self._delete(group)

    def is_in_vain(self, job: RAFT_JOBS) -> bool:
        """Tell whether a job is for a group that is ending, and does not delete all files of it."""
        return job.group in self.ending and not (isinstance(job, RaftFilesGone) and job.whole)

    def _delete(self, group: int) -> None:
        self.submit(RaftFilesGone(group, self.strand(group), [], whole=True))
