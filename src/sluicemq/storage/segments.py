"""Segment files of queue indexes: blocks of runs, which a reader finds by their heads alone.

A block is a record of type BLOCK; its payload begins with

    first u64 | last u64 | count u32 | flags u16 | check u16

the smallest and the largest of its positions, their number, and the sum of 1 when bodies are in the
message store and 2 when messages expire; `check` is a crc of these, seeded with the file's id and
the record's offset, so that they can be trusted without reading the rest. Then follow the runs,
encoded as in `entries`.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from google_crc32c import extend

from sluicemq.errors import Corrupt
from sluicemq.storage.entries import Run, decode_entries, encode_run
from sluicemq.storage.records import (
    BLOCK,
    FILE_HEADER_SIZE,
    RECORD_HEAD_SIZE,
    encode_record,
    next_magic,
    read_head,
    read_record,
    seed_of,
)

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files

QUEUES: Final = "queues"
TRANSIENT_QUEUES: Final = "transient"
"""The directories of the indexes of durable and of other queues."""

NAME: Final = re.compile(r"\d{8,19}\.idx")
BLOCK_HEAD: Final = Struct("<QQIHH")
REFERENCES: Final = 1
EXPIRIES: Final = 2

PEEK_SIZE: Final = 64
"""The bytes of a block that are read to know its place: both heads."""

SEARCH_SIZE: Final = 1 << 20
"""Bytes read at a time in a search for the next block."""


class BlockPlace(NamedTuple):
    """The place of a block, and its positions, `first` and `last` included; `length` is the bytes
    of the whole record. Its contents may be damaged: only reading them shows that."""

    offset: int
    length: int
    first: int
    last: int
    has_references: bool
    has_expiry: bool = False

    @property
    def end(self) -> int:
        """Return the offset in the file where the next block may begin."""
        return self.offset + self.length


def queue_directory(queue_id: int, durable: bool) -> str:
    """Return the directory of a queue's index."""
    return f"{QUEUES if durable else TRANSIENT_QUEUES}/{queue_id}"


def segment_path(directory: str, number: int) -> str:
    """Return the path of the segment with that number."""
    return f"{directory}/{number:08d}.idx"


def check_of(file_id: bytes, offset: int, fields: bytes) -> int:
    """Return the check of a block's head, which is 16 bits of a crc."""
    crc: int = extend(seed_of(file_id, offset), fields)
    return crc & 0xFFFF


def encode_block(file_id: bytes, offset: int, sequence: int, runs: list[Run]) -> bytes:
    """Return the record of a block with these runs, for exactly this offset of this file."""
    first = min(run.first for run in runs)
    last = max(run.positions[-1] for run in runs)
    count = sum(run.count for run in runs)
    flags = REFERENCES * any(run.contents is None for run in runs)
    flags |= EXPIRIES * any(run.expiry for run in runs)
    fields = BLOCK_HEAD.pack(first, last, count, flags, 0)
    check = check_of(file_id, offset, fields)
    parts = [BLOCK_HEAD.pack(first, last, count, flags, check)]
    for run in runs:
        encode_run(parts, run)
    return encode_record(file_id, offset, BLOCK, sequence, parts)


def place_at(data: bytes, at: int, file_id: bytes, offset: int) -> BlockPlace | None:
    """Return the place of the block whose heads are at data[at:], which is `offset` in the file;
    None when they are not valid."""
    head = read_head(data, at, file_id, offset)
    at += RECORD_HEAD_SIZE
    if head is None or head.type != BLOCK or len(data) - at < BLOCK_HEAD.size:
        return None
    first, last, count, flags, check = BLOCK_HEAD.unpack_from(data, at)
    fields = BLOCK_HEAD.pack(first, last, count, flags, 0)
    if check != check_of(file_id, offset, fields) or head.length < BLOCK_HEAD.size:
        return None
    refers, expires = bool(flags & REFERENCES), bool(flags & EXPIRIES)
    return BlockPlace(offset, head.size, first, last, refers, expires)


def scan_places(
    files: Files, path: str, file_id: bytes, length: int
) -> tuple[list[BlockPlace], list[tuple[int, int]]]:
    """Return the blocks in the first `length` bytes of a file, and the ranges without any.

    All of `length` is known to have been written, so there is no torn tail: bytes that are not a
    block are damaged, and so are those that the file is too short for. Raises DiskFailed.
    """
    places: list[BlockPlace] = []
    damaged: list[tuple[int, int]] = []
    offset = FILE_HEADER_SIZE
    while offset < length:
        size = min(PEEK_SIZE, length - offset)
        place = place_at(files.read(path, offset, size), 0, file_id, offset)
        if place is None or place.end > length:
            place = search(files, path, file_id, offset + 1, length)
            damaged.append((offset, place.offset if place else length))
            if place is None:
                break
        places.append(place)
        offset = place.end
    return places, damaged


def search(files: Files, path: str, file_id: bytes, start: int, length: int) -> BlockPlace | None:
    """Return the first readable block at or behind the offset `start`; None without one before
    `length`. Raises DiskFailed."""
    while start < length:
        data = files.read(path, start, min(SEARCH_SIZE + PEEK_SIZE, length - start))
        at = next_magic(data, 0, start)
        while 0 <= at < SEARCH_SIZE:
            place = place_at(data, at, file_id, start + at)
            if place is not None and place.end <= length and is_whole(files, path, file_id, place):
                return place
            at = next_magic(data, at + 1, start)
        start += SEARCH_SIZE
    return None


def is_whole(files: Files, path: str, file_id: bytes, place: BlockPlace) -> bool:
    """Tell whether the crc of a whole block is right. Raises DiskFailed."""
    data = files.read(path, place.offset, place.length)
    return read_record(data, 0, file_id, place.offset) is not None


def read_block(files: Files, path: str, file_id: bytes, place: BlockPlace) -> list[Run]:
    """Return the runs of a block. Raises Corrupt when it is damaged, and DiskFailed."""
    data = files.read(path, place.offset, place.length)
    record = read_record(data, 0, file_id, place.offset)
    if record is None:
        raise Corrupt("its CRC is wrong")
    return runs_of(record.payload)


def runs_of(payload: memoryview) -> list[Run]:
    """Return the runs of a block's payload. Raises Corrupt when it has anything else."""
    if len(payload) < BLOCK_HEAD.size:
        raise Corrupt("it ends within its head")
    entries = decode_entries(payload[BLOCK_HEAD.size :])
    runs = [entry for entry in entries if isinstance(entry, Run)]
    if len(runs) != len(entries):
        raise Corrupt("it has entries other than runs")
    return runs
