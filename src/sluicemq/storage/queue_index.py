"""The queue index: it knows which positions of one queue are on disk, and where.

A segment file has the entries of `entry_count` consecutive positions, in blocks. One number for
each segment, `live`, is the set of bits of those that are there and not acknowledged. It changes
when a write ends, and with every acknowledgement. The index learns the places of a recovered
segment's blocks when it first reads from it.

At most one job works on an index at a time; the owner of the index submits it, and returns it to
`wrote` or `was_read`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sluicemq.errors import Corrupt, DiskFailed
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.bits import bits_of, ranges_of
from sluicemq.storage.checkpoint import SegmentState
from sluicemq.storage.entries import Run
from sluicemq.storage.records import FILE_HEADER_SIZE, FileHeader
from sluicemq.storage.segments import (
    BlockPlace,
    encode_block,
    read_block,
    scan_places,
    segment_path,
)

BLOCK_BYTES: Final = 256 * 1024
"""A block is closed above this size, which is the least that must be read to get one message."""

READ_TRIES: Final = 10
"""A read is tried this often before messages are given up: a lack of memory or of file handles
fails it once, a broken sector always."""

QUARANTINE: Final = "quarantine"
"""The directory for copies of damaged data."""


class Segment:
    """One file of the index. `length` is how many bytes have been written; `places` is None until
    the places of the blocks are known."""

    __slots__ = (
        "dirty",
        "emptied",
        "file_id",
        "length",
        "live",
        "number",
        "path",
        "places",
        "transient",
    )

    def __init__(self, number: int, path: str, file_id: bytes) -> None:
        self.number = number
        self.path = path
        self.file_id = file_id
        self.length = 0
        self.live = 0
        self.transient = 0
        """Positions written here that must not outlive the process."""
        self.places: list[BlockPlace] | None = []
        self.dirty = False
        self.emptied = 0
        """How often its last live message has left."""


class SegmentWrite:
    """Blocks to append to one segment, and the positions in them."""

    __slots__ = ("data", "live", "places", "segment", "transient")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.data: list[bytes] = []
        self.places: list[BlockPlace] = []
        self.live = 0
        self.transient = 0


class IndexWrite(DiskJob):
    """Appends blocks to segments. It may be submitted again when it has failed: it writes the same
    bytes to the same places."""

    def __init__(self, directory: str, writes: list[SegmentWrite]) -> None:
        self.directory = directory
        self.writes = writes
        self.size = sum(len(data) for write in writes for data in write.data)
        self.gone: list[range] = []
        """Positions acknowledged while this was under way."""

    def run(self, files: Files) -> None:
        new = any(not write.segment.length for write in self.writes)
        if new:
            files.make_directory(self.directory)
        for write in self.writes:
            files.write(write.segment.path, write.segment.length, b"".join(write.data))


class IndexRead(DiskJob):
    """Reads the live messages from the position `start` to before `upto`.

    `upto` is known when it is done: a request may be too much for one job. After a failure it may
    be submitted again; in the last of READ_TRIES an unreadable block counts as damaged.
    """

    def __init__(
        self, segment: Segment, start: int, end: int, bytes_max: int, keep_bodies: bool
    ) -> None:
        self.path = segment.path
        self.file_id = segment.file_id
        self.length = segment.length
        self.known = segment.places
        self.segment = segment
        self.start = start
        self.end = end
        self.bytes_max = bytes_max
        self.keep_bodies = keep_bodies
        """False when only references to the message store are wanted."""
        self.upto = end
        self.tries = 0
        self.epoch = 0
        """For the submitter: what the read was for."""
        self.runs: list[Run] = []
        self.places: list[BlockPlace] = []
        self.damaged: list[str] = []

    def run(self, files: Files) -> None:
        self.tries += 1
        self.upto = self.end
        self.runs, self.damaged = [], []
        places = self.known
        if places is None:
            places, damaged = scan_places(files, self.path, self.file_id, self.length)
            for start, end in damaged:
                text = f"{self.path}: bytes {start} to {end} are no block"
                self._put_aside(files, text, start, end - start)
        self.places = places
        for place in self._chosen(places):
            try:
                self.runs += read_block(files, self.path, self.file_id, place)
            except Corrupt as error:
                text = f"{self.path}: block at {place.offset}: {error}"
                self._put_aside(files, text, place.offset, place.length)
            except DiskFailed as failure:
                if self.tries < READ_TRIES:
                    raise
                self.damaged.append(f"{self.path}: block at {place.offset}: {failure}")

    def _put_aside(self, files: Files, text: str, offset: int, size: int) -> None:
        """Copy damaged bytes into the quarantine for later inspection."""
        copy = f"{QUARANTINE}/{self.path.replace('/', '-')}-{offset}"
        try:
            files.make_directory(QUARANTINE)
            files.write(copy, 0, files.read(self.path, offset, size))
            self.damaged.append(f"{text}; a copy is {copy}")
        except DiskFailed as failure:
            self.damaged.append(f"{text}; there is no copy of it: {failure}")

    def _chosen(self, places: list[BlockPlace]) -> list[BlockPlace]:
        """Return the places to read, in order, and set `upto`. At least one place is taken."""
        wanted = [p for p in places if p.last >= self.start and p.first < self.end]
        if not self.keep_bodies:
            return [place for place in wanted if place.has_references]
        wanted.sort(key=first_of)
        chosen: list[BlockPlace] = []
        size = 0
        for place in wanted:
            if size >= self.bytes_max and place.first > self.start:
                self.upto = place.first
                break
            chosen.append(place)
            size += place.length
        return chosen


def first_of(place: BlockPlace) -> int:
    """Return the sort key of block places: the lowest position."""
    return place.first


class QueueIndex:
    """The index of one queue. `directory` is its own; a segment has `entry_count` positions;
    `new_file_id` returns 16 random bytes."""

    def __init__(
        self,
        queue_id: int,
        directory: str,
        entry_count: int,
        new_file_id: Callable[[], bytes],
    ) -> None:
        self.queue_id = queue_id
        self.directory = directory
        self.entry_count = entry_count
        self.new_file_id = new_file_id
        self.segments: dict[int, Segment] = {}
        self.job: IndexWrite | IndexRead | None = None
        self.sequence = 0
        self.has_empty = False
        """True when a segment has no live message any more."""
        self.reads = 0
        self.writes = 0
        """Accesses to segments, as queue_index_read and queue_index_write count them."""

    @property
    def busy(self) -> bool:
        """Tell whether a job is under way."""
        return self.job is not None

    def parts(self, positions: range) -> Iterable[tuple[int, range]]:
        """Cut positions at the borders of segments: yields (segment number, positions in it), in
        order."""
        count = self.entry_count
        step = positions.step
        while positions:
            number = positions[0] // count
            border = (number + 1) * count
            inside = min(len(positions), -(-(border - positions[0]) // step))
            yield number, positions[:inside]
            positions = positions[inside:]

    def missing(self, positions: range) -> list[range]:
        """Return those of the positions that are not on disk, in order."""
        found: list[range] = []
        for number, part in self.parts(positions):
            segment = self.segments.get(number)
            if segment is None:
                found.append(part)
                continue
            base = number * self.entry_count
            absent = bits_of(part, base) & ~segment.live
            if not absent:
                continue
            if absent.bit_count() == len(part):
                found.append(part)
            else:
                found += ranges_of(absent, base)
        return found

    def write(self, runs: list[Run]) -> IndexWrite:
        """Return a job that appends these runs, whose positions must not be on disk yet. No other
        job may be under way."""
        assert self.job is None
        by_segment: dict[int, list[Run]] = {}
        for run in runs:
            parts = list(self.parts(run.positions))
            if len(parts) == 1:
                by_segment.setdefault(parts[0][0], []).append(run)
                continue
            offset = 0
            for number, part in parts:
                by_segment.setdefault(number, []).append(run.part(offset, offset + len(part)))
                offset += len(part)
        writes = [self._segment_write(number, some) for number, some in by_segment.items()]
        self.job = IndexWrite(self.directory, writes)
        return self.job

    def _segment_write(self, number: int, runs: list[Run]) -> SegmentWrite:
        segment = self.segments.get(number)
        if segment is None:
            path = segment_path(self.directory, number)
            segment = self.segments[number] = Segment(number, path, self.new_file_id())
        write = SegmentWrite(segment)
        offset = segment.length
        if not offset:
            header = FileHeader("segment", segment.file_id, number, self.queue_id).encode()
            write.data.append(header)
            offset = FILE_HEADER_SIZE
        base = number * self.entry_count
        for block in blocks_of(runs):
            self.sequence += 1
            data = encode_block(segment.file_id, offset, self.sequence, block)
            first = min(run.positions[0] for run in block)
            last = max(run.positions[-1] for run in block)
            assert base <= first <= last < base + self.entry_count, "a block of another segment"
            refers = any(run.contents is None for run in block)
            write.data.append(data)
            expires = any(run.expiry for run in block)
            write.places.append(BlockPlace(offset, len(data), first, last, refers, expires))
            offset += len(data)
            for run in block:
                bits = bits_of(run.positions, base)
                assert not write.live & bits, "a position twice in one job"
                write.live |= bits
                if not run.traits.persistent:
                    write.transient |= bits
        return write

    def wrote(self, job: IndexWrite) -> None:
        """Note that a job of `write` has succeeded: its positions are on disk now, except those
        acknowledged meanwhile."""
        assert job is self.job
        self.job = None
        for write in job.writes:
            segment = write.segment
            assert not segment.live & write.live, "a position that was on the disk already"
            segment.length += sum(map(len, write.data))
            segment.live |= write.live
            segment.transient |= write.transient
            if segment.places is not None:
                segment.places += write.places
            segment.dirty = True
            self.writes += 1
            if not segment.live:
                self._emptied(segment)
        for positions in job.gone:
            self.acknowledge(positions)

    def give_up(self, job: IndexWrite) -> None:
        """Note that a job of `write` has failed for good: nothing of it is on disk."""
        assert job is self.job
        self.job = None
        for positions in job.gone:
            self.acknowledge(positions)

    def read(self, start: int, end: int, bytes_max: int, keep_bodies: bool = True) -> IndexRead:
        """Return a job that reads from one segment: as many of the positions from `start` to before
        `end` as `bytes_max` allows, but at least one block. `start` must be on disk, and no other
        job under way. Without `keep_bodies` it keeps only references to the message store."""
        assert self.job is None
        first = start // self.entry_count
        segment = self.segments[first]
        border = (first + 1) * self.entry_count
        self.job = IndexRead(segment, start, min(end, border), bytes_max, keep_bodies)
        return self.job

    def was_read(self, job: IndexRead) -> None:
        """Note that a job of `read` is done, and keep the places of blocks that it has found."""
        assert job is self.job
        assert job.start < job.upto <= job.end, "a read that was no step"
        self.job = None
        self.reads += 1
        if job.segment.places is None and not job.failure:
            job.segment.places = job.places

    def first_live(self, start: int, end: int) -> int | None:
        """Return the lowest live position from `start` to before `end`; None when there is none."""
        count = self.entry_count
        for number in sorted(self.segments):
            base = number * count
            if base + count <= start:
                continue
            if base >= end:
                break
            live = self.segments[number].live
            if start > base:
                live &= -1 << (start - base)
            if live:
                first = base + (live & -live).bit_length() - 1
                return first if first < end else None
        return None

    def live_in(self, start: int, end: int, without: Iterable[range] = ()) -> list[range]:
        """Return the live positions from `start` to before `end`, in order, except those in
        `without`."""
        count = self.entry_count
        others: dict[int, int] = {}
        for positions in without:
            for number, part in self.parts(positions):
                others[number] = others.get(number, 0) | bits_of(part, number * count)
        found: list[range] = []
        for number, part in self.parts(range(start, end)):
            segment = self.segments.get(number)
            if segment is not None and segment.live:
                bits = segment.live & ~others.get(number, 0) & bits_of(part, number * count)
                found += ranges_of(bits, number * count)
        return found

    def acknowledge(self, positions: range) -> bool:
        """Note that the messages at these positions are gone for good. Returns False when none of
        them is on the disk or being written. A segment without live messages is to be `collect`ed
        later."""
        known = isinstance(self.job, IndexWrite)
        if isinstance(self.job, IndexWrite):
            self.job.gone.append(positions)
        if not self.segments:
            return known
        for number, part in self.parts(positions):
            segment = self.segments.get(number)
            if segment is not None and segment.live:
                live = segment.live
                segment.live = live & ~bits_of(part, number * self.entry_count)
                known |= segment.live != live
                if not segment.live:
                    self._emptied(segment)
        return known

    def _emptied(self, segment: Segment) -> None:
        segment.emptied += 1
        self.has_empty = True

    def empty(self) -> list[tuple[int, int]]:
        """Return the segments that have no live message now, as `collect` takes them."""
        self.has_empty = False
        return [(s.number, s.emptied) for s in self.segments.values() if not s.live]

    def _in_use(self, segment: Segment) -> bool:
        """Tell whether a job works on it."""
        job = self.job
        if isinstance(job, IndexWrite):
            return any(write.segment is segment for write in job.writes)
        return job is not None and job.segment is segment

    def collect(self, asked: list[tuple[int, int]]) -> list[str]:
        """Forget segments that were `empty` and still are, and return the paths of their files,
        which are to be deleted. Call it when the acknowledgements of that time are durable: until
        then a checkpoint may count on the files."""
        paths: list[str] = []
        for number, emptied in asked:
            segment = self.segments.get(number)
            if segment is None or segment.live or segment.emptied != emptied:
                continue
            if self._in_use(segment):
                self._emptied(segment)  # later
                continue
            del self.segments[number]
            paths.append(segment.path)
        return paths

    def states(self) -> list[SegmentState]:
        """Return, for a checkpoint, the segments in which messages will be alive after
        a restart.
        """
        states: list[SegmentState] = []
        for segment in self.segments.values():
            live = segment.live & ~segment.transient
            if live:
                states.append(SegmentState(segment.number, segment.length, segment.file_id, live))
        return states

    def adopt(self, state: SegmentState) -> None:
        """Take a segment from a checkpoint into the index."""
        segment = Segment(state.number, segment_path(self.directory, state.number), state.file_id)
        segment.length = state.length
        segment.live = state.live
        segment.places = None
        self.segments[state.number] = segment

    def take_dirty(self) -> list[str]:
        """Return the paths of files that have been written to since the last call."""
        dirty = [segment for segment in self.segments.values() if segment.dirty]
        for segment in dirty:
            segment.dirty = False
        return [segment.path for segment in dirty]


def blocks_of(runs: list[Run]) -> Iterable[list[Run]]:
    """Yield groups of runs of about BLOCK_BYTES, each for one block."""
    block: list[Run] = []
    size = 0
    for run in runs:
        for piece in pieces_of(run):
            block.append(piece)
            size += sum(piece.sizes) if piece.contents is not None else 16 * piece.count
            if size >= BLOCK_BYTES:
                yield block
                block = []
                size = 0
    if block:
        yield block


def pieces_of(run: Run) -> Iterable[Run]:
    """Yield pieces of a run that fit into a block each; a run without contents is not cut."""
    if run.contents is None:
        yield run
        return
    largest = max(run.sizes)
    count = max(1, BLOCK_BYTES // max(1, largest))
    if run.count <= count:
        yield run
        return
    for start in range(0, run.count, count):
        yield run.part(start, min(run.count, start + count))


def picked(runs: list[Run], wanted: int, base: int) -> list[Run]:
    """Return the messages of the runs whose bits are set in `wanted`, each once, in runs of
    consecutive positions; bit 0 is the position `base`."""
    found: list[Run] = []
    for run in runs:
        bits = bits_of(run.positions, base)
        take = bits & wanted
        wanted &= ~take
        if take == bits and run.step == 1:
            found.append(run)
            continue
        for positions in ranges_of(take, base):
            offset = (positions[0] - run.first) // run.step
            if run.step == 1:
                found.append(run.part(offset, offset + len(positions)))
            else:
                offsets = [(position - run.first) // run.step for position in positions]
                found += [run.part(each, each + 1) for each in offsets]
    return found
