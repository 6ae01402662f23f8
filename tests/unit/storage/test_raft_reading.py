"""Goal: entries are read by their indexes wherever they are, at about the cost of their bytes.

Method: segments are written by hand, and by hypothesis; reads of files are counted, and each byte
of a segment is flipped.
"""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.raft.codec import RaftEntries, RaftSnapshot
from sluicemq.storage.raft.group import RaftGroup
from sluicemq.storage.raft.reading import RaftEntriesRead, RaftReads
from support.files import DictFiles

NUMBERS = count(1)
ENTRIES_MAX = 4096
ALONE = Configuration((1,))
SEGMENT = "raft/5/00000001.log"


def file_id() -> bytes:
    return next(NUMBERS).to_bytes(16)


def data_of(index: int, size: int = 0) -> bytes:
    return b"%d" % index + bytes(size)


class Log:
    """A group with segments, and those who know where its entries are."""

    def __init__(self) -> None:
        self.files = DictFiles()
        self.group = RaftGroup(5)
        self.group.apply(RaftSnapshot(5, LogSnapshot(0, 0, ALONE)))
        self.reads = RaftReads()

    def write(self, number: int, size: int = 0, entries_max: int = ENTRIES_MAX) -> None:
        """Append so many entries, and write them to segments."""
        group = self.group
        first = group.last_index + 1
        made = [
            LogEntry(index, 1, DATA, data_of(index, size)) for index in range(first, first + number)
        ]
        group.apply(RaftEntries(5, made))
        group.committed(group.last_index)
        self.reads.begun(group)
        job = group.flush(1, 1, file_id, entries_max)
        assert job is not None
        self.reads.written(5, job)
        job.run(self.files)
        self.reads.tops[5] = job.top

    def restart(self) -> None:
        self.reads = RaftReads()

    def read(self, *indexes: int) -> RaftEntriesRead:
        job = self.reads.job(self.group, [*indexes])
        assert job is not None
        self.files.actions.clear()
        job.run(self.files)
        return job

    def snapshot(self, index: int, *live: range) -> None:
        self.group.apply(RaftSnapshot(5, LogSnapshot(index, 1, ALONE), live=live))

    def bytes_read(self, run: RaftEntriesRead) -> int:
        return sum(map(len, run.found.values()))


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.sets(st.integers(1, 30)),
    st.integers(0, 6),
    st.booleans(),
)
def test_entries_are_found_by_their_indexes(
    batches: list[int], wanted: set[int], restart_at: int, twice: bool
) -> None:
    """Some were written in an earlier life, and may or may not have been read since."""
    log = Log()
    for n, number in enumerate(batches):
        if n == restart_at:
            log.restart()
        log.write(number, entries_max=4)
        if twice:
            log.read(1)
            log.reads.news(log.group)
    there = wanted & {*range(1, log.group.last_index + 1)}
    for _ in range(2):
        job = log.reads.job(log.group, [*wanted])
        assert (job is None) == (not there)
        if job is not None:
            job.run(log.files)
            assert job.found == {index: data_of(index) for index in there}
            assert (job.problem, job.is_stale) == ("", False)
        assert log.reads.news(log.group) == []


def test_an_entry_that_is_gone_is_not_looked_for_in_a_segment_that_is_yet_to_be_written() -> None:
    """A message to another member may still want it, when a snapshot has just deleted its segment.
    Its file is missing then: that is no damage."""
    log = Log()
    log.write(3)
    log.snapshot(3)
    group = log.group
    group.apply(RaftEntries(5, [LogEntry(4, 1, DATA, data_of(4))]))
    group.committed(4)
    log.reads.begun(group)
    assert group.flush(1, 1, file_id, ENTRIES_MAX) is not None
    assert [segment.first for segment in group.segments] == [4]
    job = log.read(2)
    assert (job.found, job.is_stale) == ({}, False)
    assert job.problem == "raft/5: entry 2 is in no segment"
    assert log.reads.news(group) == []


def test_what_is_not_durable_is_not_read() -> None:
    log = Log()
    log.write(3)
    log.group.apply(RaftEntries(5, [LogEntry(4, 1, DATA, b"4")]))
    log.group.committed(4)
    log.reads.begun(log.group)
    job = log.group.flush(1, 1, file_id, ENTRIES_MAX)
    assert job is not None
    log.reads.written(5, job)
    assert log.reads.job(log.group, [4]) is None
    assert log.read(3, 4).found == {3: b"3"}


def test_a_row_of_entries_costs_one_read_of_its_bytes() -> None:
    log = Log()
    log.write(1000, 200)
    job = log.read(*range(100, 200))
    assert len(job.found) == 100
    reads = [action for action in log.files.actions if action.startswith("read")]
    assert len(reads) == 1


def test_one_of_many_costs_a_read_of_itself_though_nothing_is_known_of_the_segment() -> None:
    log = Log()
    log.write(50, 100_000)
    log.restart()
    sizes: list[int] = []
    original = log.files.read

    def read(path: str, offset: int, size: int) -> bytes:
        sizes.append(size)
        return original(path, offset, size)

    log.files.read = read
    assert log.read(30).found.keys() == {30}
    assert sum(sizes) < 400_000, "heads, and one entry"
    sizes.clear()
    log.reads.news(log.group)
    assert log.read(31).found.keys() == {31}
    assert sum(sizes) < 101_000, "only what is wanted"


def test_memory_of_an_entry_is_four_bytes() -> None:
    log = Log()
    log.write(1000)
    offsets = log.reads.offsets[5][1]
    assert isinstance(offsets.indexes, range)
    assert offsets.starts.itemsize * len(offsets.starts) == 4000


def test_a_segment_that_was_removed_makes_the_answer_stale() -> None:
    log = Log()
    log.write(3)
    job = log.reads.job(log.group, [2])
    assert job is not None
    log.snapshot(3)
    log.files.delete(SEGMENT)
    job.run(log.files)
    assert (job.found, job.problem, job.is_stale) == ({}, "", True)
    assert log.reads.news(log.group) == [], "nobody needs it"
    assert log.reads.job(log.group, [2]) is None


def test_a_segment_that_is_missing_is_damage() -> None:
    log = Log()
    log.write(3)
    job = log.reads.job(log.group, [2])
    assert job is not None
    log.files.delete(SEGMENT)
    job.run(log.files)
    assert log.reads.news(log.group) == [f"{SEGMENT}: is missing"]


def test_what_the_disk_refuses_is_a_problem_and_no_damage() -> None:
    log = Log()
    log.write(3)
    log.files.fail = lambda action, _: "EIO" if action == "read" else None
    job = log.read(2)
    assert job.problem == f"{SEGMENT} cannot be read (EIO)"
    assert log.reads.news(log.group) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_no_flip_makes_an_entry_another_one(restarts: bool) -> None:
    whole = Log()
    whole.write(4)
    data = whole.files.content(SEGMENT)
    ids = [*range(1, 5)]
    for at in range(64 if not restarts else 0, len(data)):
        log = whole
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        log.files.put(SEGMENT, bytes(changed))
        if restarts:
            log.restart()
        job = log.read(*ids)
        assert all(job.found[index] == data_of(index) for index in job.found), at
        assert len(job.found) >= 3 or at < 64, at
        assert job.problem.startswith(SEGMENT), at
        assert log.reads.news(log.group) == [job.problem], at
