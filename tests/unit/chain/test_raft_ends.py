"""Goal: a group that has ended leaves nothing, and harms no later one of its id, which another
member of the same queue has.

Method: a whole node with files in memory; jobs by hand.
"""

from __future__ import annotations

from sluicemq.chain.store.raft_ends import RaftEnds
from sluicemq.kernel.disk import DiskJob
from sluicemq.storage.raft.codec import RaftGroupGone
from sluicemq.storage.raft.segment_file import (
    RaftFilesGone,
    RaftSegmentWrite,
    raft_segment_path,
)

from .raft_bench import TINY, Bench, rotate


def test_a_group_that_is_gone_leaves_nothing() -> None:
    bench = Bench(config=TINY)
    bench.born(range(1, 2))
    rotate(bench, 1)
    assert bench.files.names("raft") == ["1"]
    bench.append(1, RaftGroupGone(1))
    bench.broker.run()
    assert bench.files.names("raft") == []
    assert bench.raft.states == {}
    assert Bench(bench.files.crash(), TINY).raft.table.groups == {}


def test_no_job_for_a_group_that_is_gone_touches_the_next_one_of_that_id() -> None:
    """Its files have the names that the former ones had."""
    bench = Bench(config=TINY)
    bench.born(range(1, 2))
    rotate(bench, 1)
    [segment] = bench.raft.table.groups[1].segments
    path = raft_segment_path(1, segment.number)
    bench.raft.superseded.append((2, RaftFilesGone(1, 3, [path], whole=False)))
    bench.append(1, RaftGroupGone(1))
    bench.broker.run()
    assert bench.raft.superseded == []
    bench.born(range(1, 2))
    rotate(bench, 1)
    assert path in {
        raft_segment_path(1, each.number) for each in bench.raft.table.groups[1].segments
    }
    assert bench.files.size(path) > 0


def test_who_ended_a_group_is_told_when_nothing_is_under_way_for_it() -> None:
    submitted: list[DiskJob] = []
    heard: list[str] = []
    ends = RaftEnds(submitted.append, lambda group: group + 3)
    writes, content = RaftSegmentWrite(1, 4), RaftFilesGone(1, 4, ["raft/1/x"], whole=False)
    for job in (writes, content):
        ends.begun(job)
    ends.begin(1, lambda: heard.append("first"))
    ends.begin(1, lambda: heard.append("second"))
    ends.begin(2, lambda: heard.append("other"))
    [other] = submitted
    assert isinstance(other, RaftFilesGone)
    assert (other.group, other.strand, other.whole) == (2, 5, True)
    ends.begun(other)
    ends.came_back(writes)
    assert (ends.is_in_vain(content), ends.is_in_vain(other)) == (True, False)
    ends.came_back(content)
    _, last = submitted
    assert isinstance(last, RaftFilesGone)
    assert (last.group, last.whole, heard) == (1, True, [])
    ends.begun(last)
    ends.came_back(last)
    assert heard == ["first", "second"]
    ends.came_back(other)
    assert heard == ["first", "second", "other"]
    assert ends.under_way == ends.ending == {}
