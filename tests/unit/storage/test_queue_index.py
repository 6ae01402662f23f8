"""Goal: a queue index gives back what was written and not acknowledged, whatever happens meanwhile,
and tells of every block it cannot read. Method: an index on files in a dict, beside a dict.
"""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import DiskFailed
from sluicemq.model.traits import message_traits
from sluicemq.storage import queue_index
from sluicemq.storage.entries import Run
from sluicemq.storage.queue_index import (
    READ_TRIES,
    IndexRead,
    IndexWrite,
    QueueIndex,
    picked,
)
from support.files import DictFiles, run

TRAITS = message_traits(b"a", 1, True)

ENTRIES = 8
DIRECTORY = "queues/7"
EVERYTHING = 1 << 30


class Bench:
    """An index, its files, and what must be in it."""

    def __init__(self) -> None:
        self.files = DictFiles()
        self.numbers = count(1)
        self.index = self.new_index()
        self.there: dict[int, bytes] = {}
        self.transient: set[int] = set()

    def new_index(self) -> QueueIndex:
        return QueueIndex(7, DIRECTORY, ENTRIES, lambda: next(self.numbers).to_bytes(16))

    def begin(self, *runs: Run) -> IndexWrite:
        for each in runs:
            contents = each.contents or [b"%d" % number for number in each.ids]
            self.there |= dict(zip(each.positions, contents, strict=True))
            self.transient |= set() if each.traits.persistent else {*each.positions}
        return self.index.write([*runs])

    def end(self, job: IndexWrite) -> None:
        run(self.files, job)
        assert job.failure is None
        self.index.wrote(job)

    def write(self, *runs: Run) -> None:
        self.end(self.begin(*runs))

    def acknowledge(self, positions: range) -> None:
        self.index.acknowledge(positions)
        for position in positions:
            self.there.pop(position, None)

    def restart(self) -> None:
        """As a checkpoint would say it."""
        states = self.index.states()
        self.index = self.new_index()
        for state in states:
            self.index.adopt(state)
        self.there = {p: content for p, content in self.there.items() if p not in self.transient}

    def read(self, start: int, end: int, bytes_max: int = EVERYTHING) -> IndexRead:
        job = self.index.read(start, end, bytes_max)
        run(self.files, job)
        self.index.was_read(job)
        return job

    def everything(self, bytes_max: int) -> tuple[dict[int, bytes], list[str]]:
        """All that is live, a load at a time, and what was damaged."""
        found: dict[int, bytes] = {}
        damaged: list[str] = []
        start = 0
        while (first := self.index.first_live(start, 1 << 20)) is not None:
            job = self.read(first, 1 << 20, bytes_max)
            assert job.failure is None
            assert job.upto > first, "a load that brings nothing"
            damaged += job.damaged
            wanted = 0
            base = job.segment.number * ENTRIES
            for positions in self.index.live_in(first, job.upto):
                wanted |= ((1 << len(positions)) - 1) << (positions.start - base)
            for each in picked(job.runs, wanted, base):
                contents = each.contents or [b"%d" % number for number in each.ids]
                found |= dict(zip(each.positions, contents, strict=True))
            start = job.upto
        return found, damaged


def embedded(first: int, number: int, step: int = 1, persistent: bool = True) -> Run:
    contents = [b"message %04d" % n for n in range(first, first + number * step, step)]
    sizes = [len(content) for content in contents]
    return Run(7, first, step, number, message_traits(b"a", 1, persistent), True, contents, sizes)


def reference(first: int, number: int, step: int = 1) -> Run:
    sizes = [100] * number
    return Run(7, first, step, number, TRAITS, True, None, sizes, first + 1000, step)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 9), st.integers(1, 12)),
        st.tuples(st.just("refer"), st.integers(0, 9), st.integers(1, 12)),
        st.tuples(st.just("transient"), st.integers(0, 9), st.integers(1, 12)),
        st.tuples(st.just("ack"), st.integers(0, 80), st.integers(1, 20)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=15,
)


@given(MOVES, st.integers(1, 3), st.sampled_from([1, 60, EVERYTHING]))
def test_what_is_written_and_not_acknowledged_is_read(
    moves: list[tuple[str, int, int]], step: int, bytes_max: int
) -> None:
    """Acknowledgements come while the last write is under way."""
    bench = Bench()
    position = 0
    job: IndexWrite | None = None
    for what, a, b in moves:
        if what == "ack":
            bench.acknowledge(range(a, a + b * step, step))
            continue
        if job is not None:
            bench.end(job)
            job = None
        if what == "restart":
            bench.restart()
            continue
        position += a
        if what == "refer":
            job = bench.begin(reference(position, b, step))
        else:
            job = bench.begin(embedded(position, b, step, what == "write"))
        position += b * step
    if job is not None:
        bench.end(job)
    assert bench.everything(bytes_max) == (bench.there, [])


@given(MOVES, st.integers(0, 100), st.integers(0, 100))
def test_questions_about_what_is_live(
    moves: list[tuple[str, int, int]], start: int, size: int
) -> None:
    bench = Bench()
    position = 0
    for what, a, b in moves:
        if what == "ack":
            bench.acknowledge(range(a, a + b))
        elif what == "write":
            bench.write(embedded(position + a, b))
            position += a + b
    end = start + size
    index = bench.index
    inside = [p for p in sorted(bench.there) if start <= p < end]
    assert [p for positions in index.live_in(start, end) for p in positions] == inside
    others = [range(start + 1, end, 3), range(start + 5, start + 7)]
    left = [p for p in inside if not any(p in positions for positions in others)]
    assert [p for positions in index.live_in(start, end, others) for p in positions] == left
    assert index.first_live(start, end) == (inside[0] if inside else None)
    for some in (range(start, end), range(start, end, 3)):
        missing = [p for positions in index.missing(some) for p in positions]
        assert missing == [p for p in some if p not in bench.there]


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 20))
def test_parts_are_cut_at_the_borders_of_segments(first: int, number: int, step: int) -> None:
    positions = range(first, first + number * step, step)
    parts = list(Bench().index.parts(positions))
    assert [p for _, part in parts for p in part] == list(positions)
    assert all(p // ENTRIES == segment for segment, part in parts for p in part)
    assert len({segment for segment, _ in parts}) == len(parts)


def test_a_load_brings_one_block_at_least_and_is_cut_between_blocks() -> None:
    bench = Bench()
    for first in (0, 2, 4):
        bench.write(embedded(first, 2))
    job = bench.read(0, 100, 1)
    assert (job.upto, [each.first for each in job.runs]) == (2, [0])
    job = bench.read(3, 100, 1)
    assert (job.upto, [each.first for each in job.runs]) == (4, [2])
    job = bench.read(0, 100, EVERYTHING)
    assert (job.upto, [each.first for each in job.runs]) == (ENTRIES, [0, 2, 4])
    assert bench.index.reads == 3


def test_large_runs_are_cut_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_index, "BLOCK_BYTES", 40)
    bench = Bench()
    bench.write(embedded(0, 8))
    places = bench.index.segments[0].places
    assert places is not None
    assert [(place.first, place.last) for place in places] == [(0, 5), (6, 7)]
    assert bench.everything(1) == (bench.there, [])


def test_a_write_that_failed_writes_the_same_again() -> None:
    bench = Bench()
    bench.write(embedded(0, 2))
    job = bench.begin(embedded(2, 10))
    bench.files.fail_after(1, "ENOSPC")
    run(bench.files, job)
    assert job.failure is not None
    assert bench.index.live_in(0, 100) == [range(2)], "not before it is done"
    bench.files.fail = None
    job.failure = None
    bench.acknowledge(range(3, 5))
    bench.end(job)
    assert bench.everything(EVERYTHING) == (bench.there, [])


def test_only_what_refers_to_the_message_store_is_read_when_nothing_else_is_wanted() -> None:
    bench = Bench()
    bench.write(embedded(0, 2))
    bench.write(reference(2, 2))
    job = bench.index.read(2, 8, 1, keep_bodies=False)
    run(bench.files, job)
    bench.index.was_read(job)
    assert job.upto == 8
    assert [[*each.ids] for each in job.runs] == [[1002, 1003]]


def test_transient_messages_are_not_there_after_a_restart() -> None:
    bench = Bench()
    bench.write(embedded(0, 2), embedded(2, 2, persistent=False), embedded(8, 2, persistent=False))
    assert [state.number for state in bench.index.states()] == [0]
    bench.restart()
    assert bench.index.live_in(0, 100) == [range(2)]
    assert bench.everything(EVERYTHING) == (bench.there, [])


def test_dirty_files_are_named_once() -> None:
    bench = Bench()
    bench.write(embedded(6, 4))
    paths = [f"{DIRECTORY}/00000000.idx", f"{DIRECTORY}/00000001.idx"]
    assert bench.index.take_dirty() == paths
    assert bench.index.take_dirty() == []
    bench.write(embedded(10, 1))
    assert bench.index.take_dirty() == paths[1:]


# Segments in which nothing is alive


def test_an_empty_segment_goes_when_it_was_asked_for_and_is_still_empty() -> None:
    bench = Bench()
    bench.write(embedded(0, 16))
    bench.acknowledge(range(8))
    assert bench.index.has_empty
    asked = bench.index.empty()
    assert not bench.index.has_empty
    bench.acknowledge(range(8, 16))
    assert bench.index.collect(asked) == [f"{DIRECTORY}/00000000.idx"]
    assert bench.index.has_empty, "the other one was emptied later"
    assert bench.index.collect(bench.index.empty()) == [f"{DIRECTORY}/00000001.idx"]
    assert not bench.index.segments


def test_a_segment_that_was_emptied_again_meanwhile_is_asked_for_anew() -> None:
    bench = Bench()
    bench.write(embedded(0, 2))
    bench.acknowledge(range(2))
    asked = bench.index.empty()
    bench.write(embedded(2, 2))
    assert bench.index.collect(asked) == []
    bench.acknowledge(range(2, 4))
    assert bench.index.collect(asked) == [], "the last acknowledgements may not be durable"
    assert len(bench.index.collect(bench.index.empty())) == 1


def test_a_segment_at_work_is_not_deleted() -> None:
    bench = Bench()
    bench.write(embedded(0, 2))
    job = bench.begin(embedded(2, 2))
    bench.acknowledge(range(4))
    asked = bench.index.empty()
    assert bench.index.collect(asked) == []
    bench.end(job)
    assert bench.index.has_empty
    assert len(bench.index.collect(bench.index.empty())) == 1


def test_a_segment_that_comes_again_has_another_id() -> None:
    bench = Bench()
    bench.write(embedded(0, 2))
    first = bench.index.segments[0].file_id
    bench.acknowledge(range(2))
    [path] = bench.index.collect(bench.index.empty())
    bench.files.delete(path)
    bench.write(embedded(2, 2))
    assert bench.index.segments[0].file_id != first
    assert bench.everything(EVERYTHING) == (bench.there, [])


# Damage


def damaged_bench(restarted: bool) -> tuple[Bench, str, int, int]:
    """Three blocks; the path, and where the second one lies."""
    bench = Bench()
    for first in (0, 2, 4):
        bench.write(embedded(first, 2))
    places = bench.index.segments[0].places
    assert places is not None
    if restarted:
        bench.restart()
    return bench, f"{DIRECTORY}/00000000.idx", places[1].offset, places[1].length


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("where", [2, 20, 30, 70, 90])
def test_a_damaged_block_is_told_put_aside_and_the_rest_is_read(
    where: int, restarted: bool
) -> None:
    """Wherever it is damaged: in its heads or in its contents."""
    bench, path, offset, length = damaged_bench(restarted)
    bench.files.files[path].data[offset + where] ^= 1
    found, damaged = bench.everything(EVERYTHING)
    assert found == {p: content for p, content in bench.there.items() if p not in (2, 3)}
    [text] = damaged
    copy = f"quarantine/queues-7-00000000.idx-{offset}"
    assert copy in text
    assert path in text
    assert bench.files.content(copy) == bench.files.content(path)[offset : offset + length]


def test_a_copy_that_cannot_be_made_is_told() -> None:
    bench, path, offset, _ = damaged_bench(False)
    bench.files.files[path].data[offset + 90] ^= 1
    bench.files.fail = lambda action, _: "ENOSPC" if action == "write" else None
    found, [text] = bench.everything(EVERYTHING)
    assert len(found) == 4
    assert "no copy" in text
    assert "ENOSPC" in text


def test_a_block_that_the_disk_never_reads_costs_no_other() -> None:
    """It is given up in the last of many tries."""
    bench, _, offset, _ = damaged_bench(False)
    reads = count(1)

    def fail(action: str, _: str) -> str | None:
        return "EIO" if action == "read" and next(reads) % 3 == 2 else None

    bench.files.fail = fail
    job = bench.index.read(0, 8, EVERYTHING)
    for _ in range(READ_TRIES - 1):
        run(bench.files, job)
        assert job.failure is not None
        job.failure = None
        reads = count(1)
    run(bench.files, job)
    bench.index.was_read(job)
    assert job.failure is None
    assert [each.first for each in job.runs] == [0, 4]
    [text] = job.damaged
    assert f"block at {offset}" in text
    assert "EIO" in text


def test_a_read_that_failed_once_is_whole_the_next_time() -> None:
    bench, _, _, _ = damaged_bench(True)
    job = bench.index.read(0, 8, EVERYTHING)
    for done in range(8):
        bench.files.fail_after(done, "ENOMEM")
        run(bench.files, job)
        bench.files.fail = None
        if job.failure is None:
            break
        job.failure = None
    else:
        run(bench.files, job)
    bench.index.was_read(job)
    assert [each.first for each in job.runs] == [0, 2, 4]
    assert job.damaged == []


def test_a_recovered_segment_that_is_missing_fails_the_read() -> None:
    bench, path, _, _ = damaged_bench(True)
    bench.files.delete(path)
    job = bench.read(0, 8)
    assert isinstance(job.failure, DiskFailed)
    assert job.runs == []
    assert bench.index.segments[0].places is None, "nothing is known of it still"


def test_a_recovered_segment_is_read_up_to_what_was_durable() -> None:
    """What lies behind was written later; it is in the journal too."""
    bench = Bench()
    bench.write(embedded(0, 2))
    states = bench.index.states()
    bench.write(embedded(2, 2))
    bench.index = bench.new_index()
    for state in states:
        bench.index.adopt(state)
    job = bench.read(0, 8)
    assert [each.first for each in job.runs] == [0]
    assert job.damaged == []


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8), st.integers(1, 4)), max_size=8))
def test_each_message_is_picked_once(some: list[tuple[int, int, int]]) -> None:
    runs = [embedded(100 + first, number, step) for first, number, step in some]
    wanted = 0b1011_0111_1110_1111_0110_1101
    found = [p for each in picked(runs, wanted, 100) for p in each.positions]
    there = {p for each in runs for p in each.positions}
    assert len(found) == len(set(found))
    assert set(found) == {p for p in there if wanted >> (p - 100) & 1}
    assert all(each.step == 1 or each.count == 1 for each in picked(runs, wanted, 100))


def test_a_position_is_written_once() -> None:
    """Else its first copy would come back when the second is acknowledged."""
    bench = Bench()
    with pytest.raises(AssertionError, match="twice"):
        bench.index.write([embedded(0, 2), embedded(1, 1)])
    bench = Bench()
    bench.write(embedded(0, 2))
    job = bench.begin(embedded(1, 2))
    with pytest.raises(AssertionError, match="already"):
        bench.end(job)
