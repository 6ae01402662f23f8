"""One file of the message store, and the directory at its end.

    header 64 | message records ... | directory record

A message record's sequence is the message's id and its payload the content, as the codec cut it.
The *directory* is written when a file is full and everything in it is durable; it lists the
records, so that a start need not read each of them. It is deliberately never synced: a file without
one, or with a torn one, is scanned instead. Its payload, little-endian:

    count u64 | ids u64 x count | offsets u32 x count | sizes u32 x count
              | where the directory's record begins u64

Offsets and sizes are in units of 8 bytes. The last field ends the file, so that a reader finds the
record from it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from sluicemq.storage.message_index import UNIT
from sluicemq.storage.records import (
    DIRECTORY,
    FILE_HEADER_SIZE,
    RECORD_HEAD_SIZE,
    FileHeader,
    encode_record,
    read_record,
)

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files

EXTENSION: Final = ".rdq"
TAIL_BYTES: Final = 64 * 1024
"""Bytes read from a file's end to find its directory: enough for some 4000 messages."""

U64: Final = Struct("<Q")


class MessageFile:
    """One file of the message store. `size` and `valid` are bytes: of the whole file, and of the
    records that messages refer to. `ids` are those of its records that the index knew when they
    were written."""

    __slots__ = (
        "busy",
        "combined",
        "damaged",
        "file_id",
        "ids",
        "number",
        "path",
        "readers",
        "size",
        "valid",
    )

    def __init__(self, directory: str, number: int, file_id: bytes) -> None:
        self.path = f"{directory}/{number:08d}{EXTENSION}"
        self.number = number
        self.file_id = file_id
        self.ids: array[int] = array("Q")
        self.size = 0
        self.valid = 0
        self.readers = 0
        """Jobs that know places in this file and may still read there."""
        self.busy = False
        """A job that writes to it is running."""
        self.damaged = False
        """A record in it could not be read: it is not copied from, and kept when it is empty."""
        self.combined = False
        """It is being combined with another file: no new reference may point to it."""

    def header(self) -> bytes:
        """Return the header that the file begins with."""
        return FileHeader("messages", self.file_id, self.number).encode()


def number_in(name: str) -> int | None:
    """Return the number of the message file with that name; None for any other name."""
    stem, extension = name[: -len(EXTENSION)], name[-len(EXTENSION) :]
    return int(stem) if extension == EXTENSION and stem.isdecimal() else None


class Directory:
    """The records of a file: parallel lists of their ids, offsets and sizes; the last
    two in bytes.
    """

    __slots__ = ("ids", "offsets", "sizes")

    def __init__(self, ids: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> None:
        self.ids = ids
        self.offsets = offsets
        self.sizes = sizes

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.ids, self.offsets, self.sizes, strict=True)

    def size(self) -> int:
        """Return the bytes of the record that `encode` makes."""
        count = len(self.ids)
        return RECORD_HEAD_SIZE + U64.size + 16 * count + U64.size

    def encode(self, file_id: bytes, offset: int) -> bytes:
        """Return the record of this directory for exactly this offset of this file."""
        count = len(self.ids)
        places = [place // UNIT for places in (self.offsets, self.sizes) for place in places]
        fields = Struct(f"<Q{count}Q{2 * count}IQ").pack(count, *self.ids, *places, offset)
        return encode_record(file_id, offset, DIRECTORY, count, [fields])


def read_directory(files: Files, path: str, file_id: bytes, size: int) -> Directory | None:
    """Return the directory of a file of `size` bytes; None when it is missing or damaged."""
    start = max(FILE_HEADER_SIZE, size - TAIL_BYTES)
    tail = files.read(path, start, size - start)
    if size % UNIT or len(tail) != size - start or len(tail) < RECORD_HEAD_SIZE + 2 * U64.size:
        return None
    (begins,) = U64.unpack_from(tail, len(tail) - U64.size)
    if begins % UNIT or not FILE_HEADER_SIZE <= begins < size:
        return None
    if begins < start:
        tail = files.read(path, begins, start - begins) + tail
        start = begins
    record = read_record(tail, begins - start, file_id, start)
    if record is None or record.type != DIRECTORY or record.end != size:
        return None
    return decode_directory(record.payload, record.sequence)


def decode_directory(payload: memoryview, count: int) -> Directory:
    """Return the directory of `count` messages in the payload of a valid record. Raises
    struct.error when it makes no sense."""
    numbers = Struct(f"<Q{count}Q{2 * count}IQ").unpack(payload)
    places = in_bytes(numbers[1 + count : -1])
    return Directory(numbers[1 : 1 + count], places[:count], places[count:])


def in_bytes(units: Iterable[int]) -> list[int]:
    """Return units of 8 bytes as bytes."""
    return [unit * UNIT for unit in units]
