"""Goal: a group's log on the disk is what its records say, whatever of them a checkpoint has seen.

Method: hypothesis drives a group as a member would; after each record the state that a checkpoint
would have is kept, and from each of them the journal behind is applied again.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Corrupt
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.raft import group as group_module
from sluicemq.storage.raft.codec import (
    RaftEntries,
    RaftRecord,
    RaftSnapshot,
    RaftTruncation,
    TermAndVote,
)
from sluicemq.storage.raft.group import RaftGroup
from sluicemq.storage.raft.group_state import decode_raft_group, encode_raft_group
from sluicemq.storage.raft.live_places import LivePlaces, Trimming
from sluicemq.storage.raft.segment_file import RaftSegmentWrite, read_raft_segment
from support.files import DictFiles

NUMBERS = count(1)
ENTRIES_MAX = 4096
ALONE = Configuration((1,))
BIRTH = RaftSnapshot(5, LogSnapshot(0, 0, ALONE))


def file_id() -> bytes:
    return next(NUMBERS).to_bytes(16)


def entries(first: int, *terms: int) -> RaftEntries:
    made = [
        LogEntry(first + n, term, DATA, b"%d/%d" % (first + n, term))
        for n, term in enumerate(terms)
    ]
    return RaftEntries(5, made)


def born() -> RaftGroup:
    group = RaftGroup(5)
    group.apply(BIRTH)
    return group


def append(group: RaftGroup, record: RaftRecord, file: int, number: int) -> None:
    group.demand(record)
    group.apply(record, file, number)


def in_memory(group: RaftGroup) -> dict[int, int]:
    return {index: each.entry.term for index, each in sorted(group.held.items())}


def test_a_truncation_makes_room_for_other_entries() -> None:
    group = born()
    append(group, entries(1, 1, 1, 1), 1, 1)
    append(group, RaftTruncation(5, 2), 1, 2)
    append(group, entries(2, 2), 1, 2)
    assert in_memory(group) == {1: 1, 2: 2}
    assert group.last_index == 2


@pytest.mark.parametrize(
    "record",
    [
        entries(3, 1),
        entries(5, 1),
        RaftTruncation(5, 5),
        RaftTruncation(5, 2),
        TermAndVote(5, 3, 2),
        TermAndVote(5, 2, 0),
        RaftSnapshot(5, LogSnapshot(3, 1, ALONE)),
    ],
    ids=str,
)
def test_a_record_that_would_lose_something_ends_the_process(record: RaftRecord) -> None:
    group = born()
    append(group, TermAndVote(5, 3, 1), 1, 1)
    append(group, entries(1, 1, 1, 1), 1, 1)
    group.committed(2)
    with pytest.raises(AssertionError):
        group.demand(record)


def test_only_what_is_committed_and_durable_goes_to_segments() -> None:
    group = born()
    append(group, entries(1, 1, 1), 1, 1)
    append(group, entries(3, 1, 1), 2, 2)
    group.committed(3)
    assert group.settled(9) == []
    group.was_synced(1)
    assert [entry.index for entry in group.settled(9)] == [1, 2]
    group.was_synced(2)
    assert [entry.index for entry in group.settled(9)] == [1, 2, 3]
    assert [entry.index for entry in group.settled(2)] == [1, 2]


def test_a_late_sync_does_not_vouch_for_what_was_put_in_the_place_of_its_entries() -> None:
    group = born()
    append(group, entries(1, 1, 1), 1, 1)
    append(group, RaftTruncation(5, 2), 1, 2)
    append(group, entries(2, 2), 1, 2)
    group.was_synced(1)
    group.committed(2)
    assert [entry.index for entry in group.settled(2)] == [1]


def test_syncs_are_told_in_order() -> None:
    group = born()
    group.was_synced(2)
    with pytest.raises(AssertionError):
        group.was_synced(1)


def test_segments_have_a_limit() -> None:
    files = DictFiles()
    group = born()
    for first in range(1, 9, 2):
        append(group, entries(first, 1, 1), 1, first)
        group.was_synced(first)
        group.committed(first + 1)
        job = group.flush(2, 7, file_id, 3)
        assert isinstance(job, RaftSegmentWrite)
        assert job.strand == 7
        job.run(files)
    assert [(each.number, each.first, each.last) for each in group.segments] == [
        (1, 1, 3),
        (2, 4, 6),
        (3, 7, 8),
    ]
    found = [read_raft_segment(files, 5, each) for each in group.segments]
    assert [each.problem for each in found] == [""] * 3
    assert [entry for each in found for entry in each.entries] == entries(1, *[1] * 8).entries
    assert (group.held, group.flush(9, 7, file_id, ENTRIES_MAX)) == ({}, None)


def test_a_large_entry_has_a_segment_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "RAFT_SEGMENT_BYTES", 100)
    group = born()
    group.apply(RaftEntries(5, [LogEntry(n, 1, DATA, bytes(200)) for n in (1, 2)]), 1, 0)
    group.committed(2)
    group.flush(2, 7, file_id, ENTRIES_MAX)
    assert [each.entries for each in group.segments] == [1, 1]


def test_what_a_snapshot_needs_in_part_is_trimmed_on_its_way() -> None:
    """Of entry 1 a part, of 2 nothing, though its index is named; 4 is behind the snapshot."""
    files = DictFiles()
    group = born()
    append(group, entries(1, 1, 1, 1, 1), 1, 1)
    group.was_synced(1)
    group.committed(4)
    append(group, RaftSnapshot(5, LogSnapshot(3, 1, ALONE), live=(range(1, 4),)), 1, 2)
    places = LivePlaces()
    places.add(1, [range(1)], 1)
    places.add(3, [range(9)], 9)
    trimming = Trimming(places, lambda data, places: data[: places[-1].stop])
    job = group.flush(2, 7, file_id, ENTRIES_MAX, trimming)
    assert job is not None
    job.run(files)
    read = read_raft_segment(files, 5, group.segments[0])
    assert [(entry.index, entry.data) for entry in read.entries] == [
        (1, b"1"),
        (3, b"3/1"),
        (4, b"4/1"),
    ]
    assert (read.last_trimmed, read.problem, group.held) == (1, "", {})


def test_of_what_nobody_needs_nothing_is_written() -> None:
    group = born()
    append(group, entries(1, 1), 1, 1)
    group.was_synced(1)
    group.committed(1)
    append(group, RaftSnapshot(5, LogSnapshot(1, 1, ALONE), live=(range(1, 2),)), 1, 2)
    trimming = Trimming(LivePlaces(), lambda data, _: data)
    assert group.flush(2, 7, file_id, ENTRIES_MAX, trimming) is None
    assert group.held == {}


def test_a_snapshot_lets_go_of_what_nobody_needs() -> None:
    group = born()
    append(group, entries(1, 1, 1, 1, 1), 1, 1)
    group.was_synced(1)
    group.committed(3)
    group.flush(2, 7, file_id, ENTRIES_MAX)
    append(group, RaftSnapshot(5, LogSnapshot(3, 1, ALONE), live=(range(2, 3),)), 1, 2)
    assert len(group.segments) == 1
    group.commit = 4
    append(group, RaftSnapshot(5, LogSnapshot(4, 1, ALONE), live=(range(4, 5),)), 1, 3)
    assert group.segments == ()
    assert in_memory(group) == {4: 1}


def test_an_installed_snapshot_takes_the_place_of_the_log() -> None:
    group = born()
    append(group, entries(1, 1, 1), 1, 1)
    append(group, RaftSnapshot(5, LogSnapshot(9, 2, ALONE), is_installed=True), 1, 2)
    append(group, entries(10, 2), 1, 3)
    assert in_memory(group) == {10: 2}
    assert group.commit == 9


def test_a_gap_makes_an_amnesiac_and_ends_the_log() -> None:
    group = born()
    group.apply(entries(1, 1, 1))
    group.apply(entries(4, 1))
    durable = group.close_gaps([])
    assert (group.is_amnesiac, group.last_index) == (True, 2)
    assert [entry.index for entry in durable.entries] == [1, 2]


def test_a_member_that_was_added_knows_itself_though_the_leaders_snapshot_does_not() -> None:
    """Else its files would be taken for those of the member before it on this node."""
    group = RaftGroup(5)
    append(group, RaftSnapshot(5, LogSnapshot(0, 0, Configuration((), (71,)))), 1, 1)
    append(group, RaftSnapshot(5, LogSnapshot(9, 2, ALONE), is_installed=True), 1, 2)
    for each in (group, decode_raft_group(encode_raft_group(group, 2))):
        assert (each.joined, each.snapshot.configuration) == (71, ALONE)
    assert decode_raft_group(encode_raft_group(born(), 2)).joined == 0


def test_a_group_whose_birth_nobody_knows_is_amnesiac() -> None:
    group = RaftGroup(5)
    group.apply(TermAndVote(5, 2, 1))
    group.close_gaps([])
    assert group.is_amnesiac


def test_the_bound_on_what_is_not_committed_holds() -> None:
    group = born()
    for n in range(group_module.RAFT_UNCOMMITTED_ENTRIES + 1):
        append(group, entries(n + 1, 1), 1, n + 1)
    with pytest.raises(AssertionError):
        group.carried(2)
    group.committed(10)
    group.was_synced(group.last_index)
    group.flush(2, 7, file_id, ENTRIES_MAX)
    assert len(group.carried(2)) == group_module.RAFT_UNCOMMITTED_ENTRIES - 9


class Driver:
    """A member that appends, truncates, votes, commits, flushes and takes snapshots by chance; file
    by file of the journal."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.files = DictFiles()
        self.group = born()
        self.journal: list[list[RaftRecord]] = [[]]
        self.number = 0
        self.checkpoints: list[tuple[int, bytes]] = []

    @property
    def file(self) -> int:
        return len(self.journal)

    def write(self, record: RaftRecord) -> None:
        append(self.group, record, self.file, self.number)
        self.journal[-1].append(record)

    def step(self) -> None:
        group, data = self.group, self.data
        self.number += 1
        floor = max(group.commit, group.top, group.snapshot.index)
        action = data.draw(st.sampled_from("aaatvcsrki"))
        if action == "a":
            count = data.draw(st.integers(1, 3))
            self.write(entries(group.last_index + 1, *[group.term] * count))
        elif action == "t" and group.last_index > floor:
            self.write(TermAndVote(5, group.term + 1, 0))
            start = data.draw(st.integers(floor + 1, group.last_index))
            self.write(RaftTruncation(5, start))
            self.write(entries(start, group.term))
        elif action == "v":
            self.write(TermAndVote(5, group.term + 1, data.draw(st.integers(0, 3))))
        elif action == "c":
            group.committed(data.draw(st.integers(group.commit, group.last_index)))
        elif action == "s" and group.commit > group.snapshot.index:
            self.snapshot(data.draw(st.integers(group.snapshot.index + 1, group.commit)), False)
        elif action == "i" and data.draw(st.booleans()):
            self.snapshot(group.last_index + data.draw(st.integers(1, 3)), True)
        elif action == "r":
            self.journal.append([])
        elif action == "k":
            self.checkpoint()
        group.was_synced(self.number)

    def snapshot(self, index: int, is_installed: bool) -> None:
        first = self.data.draw(st.integers(1, index))
        live = () if is_installed or not self.readable(first) else (range(first, first + 1),)
        upto = first if live else 0
        snapshot = LogSnapshot(index, self.group.term, ALONE, live_upto=upto)
        self.write(RaftSnapshot(5, snapshot, file_id(), live, is_installed))

    def readable(self, index: int) -> bool:
        group = self.group
        return index > group.snapshot.index or index in group.live

    def checkpoint(self) -> None:
        """Of the files before the newest; the state may be taken later than it begins."""
        cut = self.file
        job = self.group.flush(cut, 1, file_id, ENTRIES_MAX)
        if job is not None:
            job.run(self.files)
        self.checkpoints.append((cut, encode_raft_group(self.group, cut)))


def summary(group: RaftGroup, files: DictFiles) -> Any:
    logged = [
        entry
        for segment in group.segments
        for entry in read_raft_segment(files, 5, segment).entries
    ]
    above = [entry for entry in logged if entry.index > group.snapshot.index]
    durable = group.close_gaps(above)
    live = {entry.index: entry.data for entry in logged if group.is_live(entry.index)}
    live |= {index: each.entry.data for index, each in group.held.items()}
    below = group.live.ranges
    return durable, dict(sorted(live.items())), group.is_amnesiac, below, group.last_index


@given(st.data())
def test_from_any_checkpoint_the_journal_leads_to_the_same(data: st.DataObject) -> None:
    driver = Driver(data)
    driver.checkpoint()
    for _ in range(data.draw(st.integers(0, 40))):
        driver.step()
    expected = None
    for cut, state in driver.checkpoints[-2:]:
        group = decode_raft_group(state)
        for number, records in enumerate(driver.journal, start=1):
            for record in records if number >= cut else ():
                group.apply(record)
        found = summary(group, driver.files)
        expected = expected or summary(driver.group, driver.files)
        assert found == expected
        assert not group.is_amnesiac


@given(st.binary(max_size=200))
def test_any_bytes_are_a_group_or_corrupt(payload: bytes) -> None:
    try:
        decode_raft_group(payload)
    except Corrupt:
        return


def test_every_cut_of_a_state_is_corrupt() -> None:
    group = born()
    append(group, entries(1, 1, 1, 1), 1, 0)
    group.committed(2)
    group.flush(2, 7, file_id, ENTRIES_MAX)
    state = encode_raft_group(group, 2)
    for size in range(len(state)):
        with pytest.raises(Corrupt):
            decode_raft_group(state[:size])
    with pytest.raises(Corrupt):
        decode_raft_group(state + bytes(8))
