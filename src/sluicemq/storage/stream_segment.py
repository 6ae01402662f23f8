"""A segment file of a stream's log: chunks, one behind the other, and a look-up table at its end.

    header 64 | chunk | chunk | ... | places | closed

The file's number is the offset of its first message. *places* is a record of type PLACES, which has
the positions of some chunks; *closed*, of type CLOSED, is the last record of the file and describes
it, so that a start need not read the chunks. Neither is required: a file without them, or with torn
ones, is scanned instead. Their payloads:

    places    count u64 | offsets u64 x count | timestamps u64 x count | positions u64 x count
    closed    end offset u64 | first timestamp u64 | last timestamp u64 | last chunk's offset u64
              | where places begins u64

The chunks written for one sync are a *group*. A place without a valid record that one follows is
either damage, or part of a cut-off group whose later bytes arrived. It was cut off if all records
behind it belong to the same group: the next group is never written before the sync is over.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Corrupt
from sluicemq.limits import STREAM_PLACES_BYTES, STREAM_READ_BYTES
from sluicemq.storage.records import (
    ALIGNMENT,
    CHUNK,
    CLOSED,
    FILE_HEADER_SIZE,
    PLACES,
    RECORD_HEAD_SIZE,
    FileHeader,
    encode_record,
    length_of,
    next_magic,
    read_body,
    read_head,
    read_record,
    size_of_record,
)
from sluicemq.storage.stream_chunk import ChunkHead, decode_head

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files
    from sluicemq.storage.records import Record

STREAMS: Final = "streams"
NAME: Final = re.compile(r"(\d{20})\.stream")
CLOSED_PAYLOAD: Final = Struct("<QQQQQ")
CLOSED_SIZE: Final = size_of_record(CLOSED_PAYLOAD.size)


def stream_directory(queue_id: int) -> str:
    """Return the directory of a stream's segments."""
    return f"{STREAMS}/{queue_id}"


def stream_path(directory: str, first: int) -> str:
    """Return the path of the segment with the first offset `first`."""
    return f"{directory}/{first:020d}.stream"


class ChunkPlaces:
    """The places of some of a segment's chunks, by offset and by timestamp; both ascend."""

    __slots__ = ("offsets", "positions", "timestamps")

    def __init__(self) -> None:
        self.offsets: array[int] = array("Q")
        self.timestamps: array[int] = array("Q")
        self.positions: array[int] = array("Q")

    def add(self, head: ChunkHead, position: int) -> None:
        """Remember the position of a chunk, if it is far enough from the last one remembered."""
        if not self.positions or position - self.positions[-1] >= STREAM_PLACES_BYTES:
            self.offsets.append(head.first)
            self.timestamps.append(head.timestamp_ms)
            self.positions.append(position)

    def cut(self, position: int) -> None:
        """Forget the chunks at `position` and behind it."""
        keep = bisect_left(self.positions, position)
        for column in (self.offsets, self.timestamps, self.positions):
            del column[keep:]

    def of_offset(self, offset: int) -> int:
        """Return the position from which to look for the chunk with that offset."""
        at = bisect_right(self.offsets, offset) - 1
        return self.positions[at] if at >= 0 else FILE_HEADER_SIZE

    def of_time(self, timestamp_ms: int) -> int:
        """Return the position from which to look for the first chunk of that time or later."""
        at = bisect_left(self.timestamps, timestamp_ms) - 1
        return self.positions[at] if at >= 0 else FILE_HEADER_SIZE

    def encode(self, file_id: bytes, position: int) -> bytes:
        """Return the record for exactly this position of this file."""
        count = len(self.offsets)
        fields = Struct(f"<{1 + 3 * count}Q").pack(
            count, *self.offsets, *self.timestamps, *self.positions
        )
        return encode_record(file_id, position, PLACES, count, [fields])


def decode_places(record: Record) -> ChunkPlaces:
    """Return the places in a valid record of type PLACES. Raises Corrupt when its
    length is wrong.
    """
    count = record.sequence
    layout = Struct(f"<{1 + 3 * count}Q")
    if len(record.payload) != layout.size:
        raise Corrupt("the places of a segment do not fill their record")
    numbers = layout.unpack(record.payload)
    found = ChunkPlaces()
    found.offsets.extend(numbers[1 : 1 + count])
    found.timestamps.extend(numbers[1 + count : 1 + 2 * count])
    found.positions.extend(numbers[1 + 2 * count :])
    return found


class StreamSegment:
    """One file of a stream's log. `end` is the offset behind its last message, `size` the position
    behind its last chunk. `places` is None when they are in the file, which is closed then."""

    __slots__ = (
        "allocated",
        "end",
        "file_id",
        "first",
        "first_ms",
        "last_chunk",
        "last_ms",
        "path",
        "places",
        "queue_id",
        "size",
    )

    def __init__(self, queue_id: int, directory: str, first: int, file_id: bytes) -> None:
        self.queue_id = queue_id
        self.first = first
        self.path = stream_path(directory, first)
        self.file_id = file_id
        self.end = first
        self.size = FILE_HEADER_SIZE
        self.allocated = 0
        self.first_ms = 0
        self.last_ms = 0
        self.last_chunk = first
        self.places: ChunkPlaces | None = ChunkPlaces()

    @property
    def is_closed(self) -> bool:
        return self.places is None

    def header(self) -> bytes:
        """Return the header that the file begins with."""
        return FileHeader("stream", self.file_id, self.first, self.queue_id).encode()

    def add(self, head: ChunkHead, position: int, end_position: int) -> None:
        """Note a chunk at the end of the file, from `position` to `end_position`."""
        assert self.places is not None
        if self.end == self.first:
            self.first_ms = head.timestamp_ms
        self.last_ms = head.timestamp_ms
        self.last_chunk = head.first
        self.end = head.end
        self.size = end_position
        self.places.add(head, position)

    def ending(self) -> bytes:
        """Return the bytes that close the file, to be written at `size`."""
        assert self.places is not None
        places = self.places.encode(self.file_id, self.size)
        fields = CLOSED_PAYLOAD.pack(
            self.end, self.first_ms, self.last_ms, self.last_chunk, self.size
        )
        at = self.size + len(places)
        return places + encode_record(self.file_id, at, CLOSED, self.first, [fields])


def read_closed(files: Files, path: str, segment: StreamSegment) -> bool:
    """Fill in `segment` from the end of its file, and tell whether it has one: False means that the
    file is not closed. Raises DiskFailed."""
    size = files.size(path)
    start = size - CLOSED_SIZE
    if start < FILE_HEADER_SIZE or start % ALIGNMENT:
        return False
    record = read_record(files.read(path, start, CLOSED_SIZE), 0, segment.file_id, start)
    if record is None or record.type != CLOSED:
        return False
    fields = CLOSED_PAYLOAD.unpack(record.payload)
    segment.end, segment.first_ms, segment.last_ms, segment.last_chunk, segment.size = fields
    segment.places = None
    return True


def read_places(files: Files, path: str, file_id: bytes, position: int) -> ChunkPlaces | None:
    """Return the places of a closed file, whose last chunk ends at `position`; None when they
    cannot be read. Raises Corrupt when they make no sense, and DiskFailed."""
    data = files.read(path, position, max(0, files.size(path) - position))
    record = read_record(data, 0, file_id, position)
    if record is None or record.type != PLACES:
        return None
    return decode_places(record)


class Walk:
    """Walks through the valid records of a file from `position` to before `limit`, and reads pieces
    of `piece` bytes. `damaged` has ranges without a valid record that one follows."""

    def __init__(
        self,
        files: Files,
        path: str,
        file_id: bytes,
        position: int,
        limit: int,
        piece: int = STREAM_READ_BYTES,
    ) -> None:
        self.files = files
        self.path = path
        self.file_id = file_id
        self.position = position
        self.limit = limit
        self.piece = piece
        self.data = b""
        self.base = position
        self.damaged: list[tuple[int, int]] = []

    def next(self) -> Record | None:
        """Return the next valid record; None without one before the limit. Raises DiskFailed."""
        record = self._at(self.position)
        if record is None:
            record = self._search(self.position + ALIGNMENT)
            if record is None:
                return None
            self.damaged.append((self.position, record.offset))
        self.position = record.end
        return record

    def is_at_hand(self) -> bool:
        """Tell whether `next` would have to read nothing: the whole record was read before, or
        there is none."""
        position = self.position
        loaded = self.base + len(self.data)
        if position + RECORD_HEAD_SIZE > self.limit:
            return True
        if position < self.base or position + RECORD_HEAD_SIZE > loaded:
            return False
        return position + size_of_record(length_of(self.data, position - self.base)) <= loaded

    def _load(self, position: int, size: int) -> None:
        """Load `size` bytes from `position` on, as far as the file has them."""
        size = min(size, self.limit - position)
        if position < self.base or position + size > self.base + len(self.data):
            wanted = min(max(size, self.piece), self.limit - position)
            self.data = self.files.read(self.path, position, wanted)
            self.base = position

    def _at(self, position: int) -> Record | None:
        """Return the record that begins there."""
        if position + RECORD_HEAD_SIZE > self.limit:
            return None
        self._load(position, RECORD_HEAD_SIZE)
        head = read_head(self.data, position - self.base, self.file_id, position)
        if head is None or position + head.size > self.limit:
            return None
        self._load(position, head.size)
        return read_body(head, self.data, position - self.base, self.file_id, self.base)

    def _search(self, position: int) -> Record | None:
        """Return the first valid record at or behind a position."""
        while position + RECORD_HEAD_SIZE <= self.limit:
            self._load(position, RECORD_HEAD_SIZE)
            at = next_magic(self.data, position - self.base, self.base)
            if at < 0:
                read_to = self.base + len(self.data)
                position = max(position + ALIGNMENT, read_to - read_to % ALIGNMENT)
                continue
            record = self._at(self.base + at)
            if record is not None:
                return record
            position = self.base + at + ALIGNMENT
        return None


class SegmentScan:
    """All chunks of a file, read one by one into `segment`.

    `damaged` has (start, end) of lost positions and of lost offsets. In the last file of a log a
    write may have been cut off, `torn`, with whole chunks behind the place (`cut_chunks`); but not
    before the position `durable`, up to which all bytes are known to have been there.
    """

    def __init__(
        self, files: Files, segment: StreamSegment, limit: int, is_last: bool, durable: int = 0
    ) -> None:
        self.segment = segment
        self.damaged: list[tuple[int, int, int, int]] = []
        self.torn = False
        self.cut_chunks = False
        self.chunks = 0
        segment.places = ChunkPlaces()
        segment.size, segment.end = FILE_HEADER_SIZE, segment.first
        self.walk = Walk(files, segment.path, segment.file_id, FILE_HEADER_SIZE, limit)
        group = 0
        gaps: list[tuple[int, int, int, int, int, int]] = []
        while (record := self.walk.next()) is not None:
            if record.type != CHUNK:
                continue
            head = decode_head(record)
            self.chunks += 1
            if record.offset != segment.size:
                before = (segment.last_ms, segment.last_chunk)
                gaps.append((segment.size, record.offset, segment.end, head.first, *before))
            group = head.group
            segment.add(head, record.offset, record.end)
        for gap in gaps:
            if (
                is_last and group <= gap[2] and gap[0] >= durable
            ):  # all chunks behind it belong to the cut-off write
                self.cut(gap)
                break
            self.damaged.append(gap[:4])
        if not self.torn:
            self.torn = self.is_written_behind(files, limit)

    def cut(self, gap: tuple[int, int, int, int, int, int]) -> None:
        """Forget everything from the gap on, because none of it was ever confirmed."""
        segment = self.segment
        assert segment.places is not None
        segment.size, _, segment.end, _, segment.last_ms, segment.last_chunk = gap
        segment.places.cut(segment.size)
        self.torn = self.cut_chunks = True

    def is_written_behind(self, files: Files, limit: int) -> bool:
        """Tell whether there is more than zeroes behind the last chunk, before `limit`. Raises
        DiskFailed."""
        position = self.segment.size
        while position < limit:
            data = files.read(self.segment.path, position, min(STREAM_READ_BYTES, limit - position))
            if not data:
                return False
            if data.count(0) < len(data):
                return True
            position += len(data)
        return False
