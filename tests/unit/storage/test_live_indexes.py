"""Goal: indexes that are still needed are those of their ranges, and a few more when there are too
many ranges. Method: hypothesis against sets; work is counted for very many ranges.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.raft.configuration import Configuration
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.bits import ranges_of
from sluicemq.storage.raft.codec import (
    ENTRIES_MAX,
    RaftSnapshot,
    decode_raft_snapshot,
    encoded_snapshot,
)
from sluicemq.storage.raft.live_indexes import LiveIndexes, joined

SETS = st.sets(st.integers(1, 60))


def ranges_from(indexes: set[int]) -> list[range]:
    return ranges_of(sum(1 << index for index in indexes), 0)


@given(SETS, st.integers(0, 65), st.integers(0, 20))
def test_indexes_are_those_of_their_ranges(indexes: set[int], first: int, more: int) -> None:
    live = LiveIndexes(ranges_from(indexes))
    inside = indexes.intersection(range(first, first + more + 1))
    assert (first in live) == (first in indexes)
    assert live.count(first, first + more) == len(inside)
    assert live.has_any(first, first + more) == bool(inside)


@given(SETS, st.integers(0, 65))
def test_those_behind_an_index_come_in_order(indexes: set[int], index: int) -> None:
    live = LiveIndexes(ranges_from(indexes))
    assert [*live.behind(index)] == sorted(each for each in indexes if each > index)


def test_ranges_may_touch() -> None:
    live = LiveIndexes((range(1, 3), range(3, 5)))
    assert [*live.behind(1)] == [2, 3, 4]
    assert [index in live for index in range(6)] == [False, True, True, True, True, False]
    assert live.count(2, 3) == 2


@given(SETS.filter(bool), st.integers(1, 10))
def test_too_many_ranges_are_joined_over_the_smallest_gaps(indexes: set[int], most: int) -> None:
    ranges = ranges_from(indexes)
    found = joined(ranges, most)
    covered = {index for each in found for index in each}
    assert len(found) == min(most, len(ranges))
    assert covered >= indexes
    assert all(before.stop < after.start for before, after in pairwise(found))
    gaps = sorted(after.start - before.stop for before, after in pairwise(ranges))
    assert len(covered - indexes) == sum(gaps[: max(0, len(ranges) - most)])


def test_a_record_has_as_many_ranges_as_fit() -> None:
    """One index in two, 100,000 of them; those behind a wider gap are told apart."""
    ranges = [range(n, n + 1) for n in (*range(1, 150_000, 2), *range(150_001, 250_000, 4))]
    found = joined(ranges, ENTRIES_MAX)
    assert len(found) == ENTRIES_MAX
    assert {*ranges[75_001:]} <= {*found}, "wide gaps stay"
    snapshot = LogSnapshot(300_000, 1, Configuration((1,)), live_upto=found[-1][-1])
    record = RaftSnapshot(5, snapshot, live=found)
    data = encoded_snapshot(record)
    assert decode_raft_snapshot(memoryview(data), 0) == (record, len(data))
