"""Goal: a stream's log gives back what was appended, wherever a reader begins and whatever happened
to the disk. Method: random appends, commits, retention, restarts and crashes over simulated files,
against a list; then a crash at every change of the files.
"""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicemq.cli.inspect import lines_of
from sluicemq.errors import Refused
from sluicemq.model.traits import message_traits
from sluicemq.sim.disk import CHANGES, Crashed, SimFiles, run
from sluicemq.storage.inspection import inspect
from sluicemq.storage.records import FILE_HEADER_SIZE, FileHeader, with_crc
from sluicemq.storage.stream_check import StreamCheck
from sluicemq.storage.stream_chunk import StreamChunk
from sluicemq.storage.stream_log import StreamCommit, StreamDrop, StreamLog
from sluicemq.storage.stream_reads import ANYWHERE, StreamRead
from sluicemq.storage.stream_recovery import forget_streams, recover_stream
from sluicemq.storage.stream_segment import SegmentScan, StreamSegment
from support.thorough import examples

SEGMENT_BYTES = 700
CHUNK_BYTES = 150
GROUP_BYTES = 400
IDS = count(1)
QUEUE = 7


def file_id() -> bytes:
    return next(IDS).to_bytes(16)


class Bench:
    """A log over simulated files, and what it must hold: `messages` by offset, with the time at
    which each was committed; `safe` of them are confirmed."""

    def __init__(self, files: SimFiles | None = None) -> None:
        self.files = files or SimFiles()
        self.messages: list[tuple[bytes, bytes, int]] = []
        self.safe = 0
        self.first_min = 0
        self.now_ms = 1000
        self.said: list[tuple[str, str]] = []
        self.recover()

    def recover(self) -> None:
        self.log = StreamLog(QUEUE, file_id, SEGMENT_BYTES, CHUNK_BYTES, GROUP_BYTES)
        recover_stream(self.files, self.log, "a stream", self.say)
        del self.messages[self.log.next_offset :]

    def say(self, level: str, text: str) -> None:
        self.said.append((level, text))

    def append(self, sizes: list[int], envelope: bytes) -> None:
        start = self.log.next_offset
        assert start == len(self.messages)
        contents = [str(start + at).encode().ljust(size, b".") for at, size in enumerate(sizes)]
        assert self.log.append(message_traits(envelope, 1, True), contents, sum(sizes)) == start
        self.messages += [(content, envelope, 0) for content in contents]

    def commit(self) -> bool:
        job = self.log.commit(self.now_ms)
        if job is None:
            return False
        self.run(job)
        return True

    def run(self, job: StreamCommit) -> None:
        for chunk in job.chunks:
            for offset in range(chunk.first, chunk.end):
                content, envelope, _ = self.messages[offset]
                self.messages[offset] = (content, envelope, chunk.timestamp_ms)
        run(job, self.files)
        assert job.failure is None
        self.log.committed(job)
        self.safe = self.log.durable_end

    def retain(self, max_age_ms: int | None, max_bytes: int | None) -> None:
        dropped = self.log.retain(self.now_ms, max_age_ms, max_bytes)
        self.first_min = max(self.first_min, self.log.first_offset)
        if dropped:
            run(StreamDrop(self.log.directory, [each.path for each in dropped]), self.files)

    def read(self, offset: int, timestamp_ms: int = 0) -> list[StreamChunk]:
        """All chunks from there on, by pieces; everything that is needed for it is checked."""
        log = self.log
        chunks: list[StreamChunk] = []
        segment = log.segment_at(timestamp_ms) if timestamp_ms else log.segment_of(offset)
        position = ANYWHERE
        while segment is not None:
            job = StreamRead(segment, position, offset, timestamp_ms, piece=200)
            run(job, self.files)
            assert job.failure is None
            chunks += job.chunks
            position = job.position
            if job.is_over:
                segment = log.segment_of(segment.end)
                position = ANYWHERE
        return chunks

    def check(self) -> None:
        """What is there is what was appended, from any place on."""
        log = self.log
        first, end = log.first_offset, log.durable_end
        assert end >= self.safe
        assert first <= min(end, self.first_min)
        firsts = [segment.first for segment in log.segments]
        assert firsts == sorted(set(firsts))
        assert log.bytes == sum(segment.size for segment in log.segments)
        for offset in {first, (first + end) // 2, max(first, end - 1), end}:
            chunks = self.read(offset)
            found = [each for chunk in chunks for each in chunk.contents]
            if offset == end:
                assert not found
                continue
            assert chunks[0].first <= offset < chunks[0].end
            wanted = [content for content, _, _ in self.messages[chunks[0].first : end]]
            assert found == wanted
            assert all(c.traits.envelope == self.messages[c.first][1] for c in chunks)
            assert all(b.timestamp_ms >= a.timestamp_ms for a, b in zip(chunks, chunks[1:]))  # noqa: B905, RUF007


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[str, object]]:
    sizes = st.lists(st.integers(22, 90), min_size=1, max_size=8) | st.just([30] * 6)
    op = st.one_of(
        st.tuples(st.just("append"), sizes),
        st.tuples(st.just("append"), sizes),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.just("big"), st.integers(200, 900)),
        st.tuples(st.just("age"), st.integers(0, 60)),
        st.tuples(st.just("bytes"), st.integers(0, 3000)),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("crash"), st.tuples(st.integers(1, 9), st.integers(0, 1 << 20))),
        st.tuples(st.just("power"), st.tuples(st.integers(1, 9), st.integers(0, 1 << 20))),
        st.tuples(st.just("later"), st.integers(0, 40)),
    )
    return draw(st.lists(op, min_size=3, max_size=25))


def crash(bench: Bench, after: int, seed: int, power: bool) -> None:
    """The node stops at a change of the files, in the middle of a commit when something waits."""
    random = Random(seed)
    changes = 0

    def before(_: int, action: str, _path: str) -> None:
        nonlocal changes
        if action in CHANGES:
            changes += 1
            if changes >= after:
                raise Crashed(random.choice((0.0, 0.4, 1.0)) if changes == after else 0.0)

    bench.files.before = before
    try:
        while bench.commit():
            pass
    except Crashed:
        pass
    if power:
        bench.files.crash(random)
    else:
        bench.files.kill()
    bench.recover()


@given(scripts())
@example(
    [("append", [30] * 6), ("crash", (4, 1)), ("append", [30]), ("commit", None), ("bytes", 0)]
)
@examples(50)
def test_the_log_is_the_list(script: list[tuple[str, object]]) -> None:
    bench = Bench()
    for at, (op, argument) in enumerate(script):
        if op == "append":
            bench.append(list(argument), b"\x00\x01" + bytes([97 + at % 2]))  # type: ignore[call-overload]
        elif op == "big":
            bench.append([int(argument)], b"\x00\x00")  # type: ignore[call-overload]
        elif op == "commit":
            bench.commit()
        elif op == "age":
            bench.retain(int(argument), None)  # type: ignore[call-overload]
        elif op == "bytes":
            bench.retain(None, int(argument))  # type: ignore[call-overload]
        elif op == "later":
            bench.now_ms += int(argument)  # type: ignore[call-overload]
        elif op == "restart":
            bench.recover()
        else:
            after, seed = argument  # type: ignore[misc]
            crash(bench, after, seed, power=op == "power")
        assert not [text for level, text in bench.said if level == "error"], bench.said
        bench.check()


def grown(groups: int = 12) -> Bench:
    """A log of some segments."""
    bench = Bench()
    for number in range(groups):
        bench.append([40, 41, 42, 40], b"\x00\x01" + bytes([97 + number % 3]))
        bench.now_ms += 10
        while bench.commit():
            pass
    return bench


def test_a_crash_at_any_change_loses_nothing_that_was_confirmed() -> None:
    """Killed or without power, before each change and in the middle of it, and again in the
    recovery from that."""
    total = 0
    for power in (False, True):
        for after in range(1, 200):
            bench = Bench()
            seen = 0

            def before(_: int, action: str, _path: str) -> None:
                nonlocal seen
                if action in CHANGES:
                    seen += 1
                    if seen >= after:  # noqa: B023
                        raise Crashed(0.5 if seen == after else 0.0)  # noqa: B023

            bench.files.before = before
            try:
                for number in range(9):
                    bench.append([40, 41, 42, 40], b"\x00\x01" + bytes([97 + number % 3]))
                    while bench.commit():
                        pass
                    bench.retain(None, 1200)
            except Crashed:
                total += 1
            else:
                break
            random = Random(after)
            bench.files.crash(random) if power else bench.files.kill()
            again, safe = bench.files.copy(), bench.safe
            bench.recover()
            bench.check()
            bench.append([50], b"\x00\x00")
            assert bench.commit()
            bench.check()
            changes_in_recovery(again, bench, safe)
        else:
            raise AssertionError("the script is longer than was thought")
    assert total > 80


def changes_in_recovery(files: SimFiles, bench: Bench, safe: int) -> None:
    """A recovery that is cut off by a power loss can begin again."""
    for after in range(1, 6):
        second = files.copy()
        seen = 0

        def before(_: int, action: str, _path: str) -> None:
            nonlocal seen
            seen += action in CHANGES
            if seen >= after:  # noqa: B023
                raise Crashed(0.5)

        second.before = before
        log = StreamLog(QUEUE, file_id, SEGMENT_BYTES, CHUNK_BYTES, GROUP_BYTES)
        try:
            recover_stream(second, log, "a stream", bench.say)
        except Crashed:
            second.crash(Random(after))
            log = StreamLog(QUEUE, file_id, SEGMENT_BYTES, CHUNK_BYTES, GROUP_BYTES)
            recover_stream(second, log, "a stream", bench.say)
        assert log.durable_end >= safe


def test_a_reader_begins_at_the_first_chunk_of_a_time() -> None:
    bench = grown()
    times = sorted({when for _, _, when in bench.messages})
    for when in times:
        for wanted in (when - 1, when):
            chunks = bench.read(0, wanted)
            assert chunks[0].timestamp_ms == when
            assert chunks[0].first == min(
                at for at, each in enumerate(bench.messages) if each[2] == when
            )
    assert not bench.read(0, times[-1] + 1)


def test_time_never_goes_back() -> None:
    bench = grown(3)
    bench.now_ms = 5
    bench.append([30], b"\x00\x00")
    bench.commit()
    assert bench.read(12)[0].timestamp_ms >= bench.read(0)[-2].timestamp_ms


def test_damage_in_the_middle_costs_one_chunk_and_is_said() -> None:
    bench = grown()
    segment = bench.log.segments[0]
    job = StreamRead(segment, ANYWHERE, 0)
    run(job, bench.files)
    bench.files.flip(segment.path, job.ends[0] + 60)
    found = StreamRead(segment, ANYWHERE, 0)
    run(found, bench.files)
    assert [chunk.first for chunk in found.chunks] == [
        chunk.first for chunk in job.chunks if chunk.first != job.chunks[1].first
    ]
    assert found.lost == [(job.ends[0], job.ends[1])]


def test_damage_in_the_last_segment_is_no_torn_tail() -> None:
    """Groups follow it, so it was durable."""
    bench = Bench()
    for _ in range(3):
        bench.append([40, 41], b"\x00\x00")
        bench.commit()
    [segment] = bench.log.segments
    bench.files.flip(segment.path, FILE_HEADER_SIZE + 50)
    bench.recover()
    assert (bench.log.first_offset, bench.log.durable_end) == (0, 6)
    assert [text for level, text in bench.said if level == "error" and "0 to 1" in text]
    assert [chunk.first for chunk in bench.read(0)] == [2, 4]


def test_whole_chunks_of_an_unfinished_write_go_and_a_copy_stays() -> None:
    bench = Bench()
    bench.append([40], b"\x00\x00")
    bench.commit()
    bench.append([40], b"\x00\x01a")
    bench.append([40], b"\x00\x01b")
    job = bench.log.commit(bench.now_ms)
    assert job is not None
    assert len(job.chunks) == 2
    run(job, bench.files)
    bench.files.flip(job.segment.path, job.position + 30)
    bench.recover()
    assert bench.log.durable_end == 1
    assert not [text for level, text in bench.said if level == "error"]
    [copied] = bench.files.names("quarantine")
    assert bench.files.size(f"quarantine/{copied}") >= job.ends[1] - job.position
    bench.append([60], b"\x00\x00")
    bench.commit()
    bench.recover()
    bench.check()


def test_a_file_without_a_header_is_put_aside_and_its_offsets_stay_unused() -> None:
    bench = grown()
    last = bench.log.segments[-1]
    bench.files.flip(last.path, 20)
    bench.recover()
    assert bench.log.next_offset > last.end
    assert bench.files.names("quarantine")
    assert bench.read(0)[-1].end == last.first


def test_a_segment_that_is_missing_is_said() -> None:
    bench = grown()
    gone = bench.log.segments[1]
    bench.files.delete(gone.path)
    bench.recover()
    assert [text for _, text in bench.said if f"offsets {gone.first} to {gone.end - 1}" in text]
    assert bench.read(gone.first)[0].first == gone.end


def test_a_segment_without_its_end_is_closed_anew() -> None:
    bench = grown()
    first = bench.log.segments[0]
    bench.files.flip(first.path, bench.files.size(first.path) - 5)
    bench.recover()
    bench.check()
    assert not [text for level, text in bench.said if level == "error"]
    again = bench.log.segments[0]
    assert again.is_closed
    assert (again.end, again.first_ms, again.last_ms) == (first.end, first.first_ms, first.last_ms)


def test_a_newer_format_is_refused() -> None:
    bench = grown(1)
    path = bench.log.segments[0].path
    header = bytearray(FileHeader("stream", bytes(16), 0, QUEUE).encode())
    header[8] = 9
    bench.files.write(path, 0, with_crc(bytes(header[:-4])))
    with pytest.raises(Refused, match="newer format"):
        bench.recover()


def test_no_space_is_tried_again_and_a_failed_sync_never() -> None:
    bench = Bench()
    bench.append([40], b"\x00\x00")
    job = bench.log.commit(1)
    assert job is not None
    bench.files.capacity = 10
    run(job, bench.files)
    assert job.may_be_tried_again
    bench.files.capacity = None
    job.failure = None
    bench.run(job)
    bench.check()
    bench.append([40], b"\x00\x00")
    job = bench.log.commit(1)
    assert job is not None
    bench.files.full_code = "ENOSPC"
    bench.files.sync_failures = 1
    run(job, bench.files)
    assert job.failure is not None
    assert not job.may_be_tried_again


@pytest.mark.parametrize("seed", range(20))
def test_what_a_failed_sync_has_forgotten_is_written_again(seed: int) -> None:
    """After a kill all of it can be read; then more is confirmed behind it, and the power goes."""
    bench = Bench()
    bench.log.segment_bytes = bench.log.group_bytes = 1 << 20
    bench.append([600], b"\x00\x00")
    bench.commit()
    bench.append([600] * 3, b"\x00\x00")
    job = bench.log.commit(1)
    assert job is not None
    bench.files.sync_failures = 1
    run(job, bench.files)
    assert job.failure is not None
    bench.files.kill()
    bench.recover()
    bench.log.segment_bytes = 1 << 20
    assert bench.log.next_offset == 4
    bench.append([600], b"\x00\x00")
    bench.commit()
    bench.files.crash(Random(seed))
    bench.recover()
    assert not bench.said
    bench.check()


def test_retention_keeps_the_last_segment() -> None:
    bench = grown()
    last = bench.log.segments[-1]
    bench.now_ms += 1_000_000
    bench.retain(1, 1)
    assert bench.log.segments == [last]
    assert bench.files.names(bench.log.directory) == [last.path.rpartition("/")[2]]
    bench.check()


def test_what_is_too_old_is_judged_by_its_newest_message() -> None:
    bench = grown()
    segments = bench.log.segments
    bench.now_ms = segments[1].last_ms + 50
    bench.retain(50, None)
    assert bench.log.segments[0] is segments[0]
    assert bench.log.first_offset == segments[0].first
    assert segments[0].last_ms >= bench.now_ms - 50


def test_directories_of_unknown_streams_go() -> None:
    bench = grown(1)
    bench.files.make_directory("streams/9")
    forget_streams(bench.files, {QUEUE})
    assert bench.files.names("streams") == [str(QUEUE)]


def test_a_scan_finds_what_was_written() -> None:
    bench = grown(2)
    segment = bench.log.segments[0]
    found = StreamSegment(QUEUE, bench.log.directory, segment.first, segment.file_id)
    scan = SegmentScan(bench.files, found, bench.files.size(segment.path), is_last=True)
    assert not scan.torn
    assert not scan.damaged
    assert (found.end, found.size, found.last_ms) == (segment.end, segment.size, segment.last_ms)


def test_inspect_says_what_is_in_a_segment() -> None:
    bench = grown()
    first = bench.log.segments[0]
    found = inspect(bench.files.read(first.path, 0, bench.files.size(first.path)))
    assert found.is_sound
    told = list(lines_of(found))
    assert told[0].startswith(f"stream file 0 of queue {QUEUE}, ")
    assert "offsets=0-2 messages=3" in told[2]
    assert "closed below=" in told[-2]


def findings(bench: Bench) -> tuple[list[str], list[str]]:
    found: list[str] = []
    notes: list[str] = []
    counted: dict[str, int] = {}
    StreamCheck(
        bench.files,
        QUEUE,
        lambda _, text: found.append(text),
        lambda _, text: notes.append(text),
        lambda what, more: counted.update({what: counted.get(what, 0) + more}),
    ).run()
    assert counted["stream_segments"] == len(bench.log.segments)
    return found, notes


def test_a_check_finds_every_bit_that_has_turned_over() -> None:
    """In closed files; at the end of the last one it may be a torn tail."""
    bench = grown(7)
    assert findings(bench) == ([], [])
    first = bench.log.segments[0]
    for offset in range(0, bench.files.size(first.path), 7):
        bench.files.flip(first.path, offset, 1 << offset % 8)
        found, _ = findings(bench)
        assert found, f"byte {offset}"
        bench.files.flip(first.path, offset, 1 << offset % 8)


def test_a_check_misses_a_file() -> None:
    bench = grown()
    gone = bench.log.segments.pop(1)
    bench.files.delete(gone.path)
    assert findings(bench)[0] == [f"offsets {gone.first} to {gone.end - 1} are in no file"]
