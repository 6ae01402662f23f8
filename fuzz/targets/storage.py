"""What files of ours are made of: entries of the journal and the segments, and records.

A crc guards them, so this is about mistakes and about disks that lie, not about attackers: a run
may say that a million messages of one size are in the message store, and costs 8 bytes for each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sluicemq.errors import Corrupt, Refused
from sluicemq.model.traits import message_traits
from sluicemq.storage.entries import (
    Ack,
    Definition,
    Delivered,
    Entry,
    Run,
    decode_entries,
    encode_ack,
    encode_definition,
    encode_deliver,
    encode_queue_deleted,
    encode_run,
)
from sluicemq.storage.records import (
    FILE_HEADER_SIZE,
    FORMAT,
    FileHeader,
    Scan,
    any_header,
    encode_record,
    scan,
)
from targets.target import Target

CLAIMED_MAX = 1 << 16
"""Messages that an input may claim to be in the message store; what claims more is left out."""
FILE_ID = bytes(range(16))


def decode_all(data: bytes) -> list[Entry] | None:
    """The entries, or None: damaged."""
    if claims_too_much(data):
        return None
    try:
        return decode_entries(data)
    except Corrupt:
        return None


def claims_too_much(data: bytes) -> bool:
    """Does anything in it look like the head of a run of very many messages?"""
    counts = (struct.unpack_from("<I", data, at)[0] for at in range(4, max(4, len(data) - 40)))
    return any(CLAIMED_MAX < count <= 1 << 20 for count in counts)


def check_entries(data: bytes) -> None:
    """Nothing but `Corrupt`; writing gives the very same bytes; a cut at any place is noticed
    unless it is between two entries."""
    entries = decode_all(data)
    if entries is None:
        return
    ends = [0]
    parts: list[bytes] = []
    for entry in entries:
        ends.append(ends[-1] + encode(parts, entry))
    assert b"".join(parts) == data, "not what was read"
    for cut in range(len(data)):
        found = decode_all(data[:cut])
        expected = ends.index(cut) if cut in ends else None
        assert (None if found is None else len(found)) == expected, cut


def encode(parts: list[bytes], entry: Entry) -> int:
    """Append it as it was written; its size."""
    if isinstance(entry, Run):
        return encode_run(parts, entry)
    if isinstance(entry, Ack):
        return encode_ack(parts, entry.queue, entry.ranges)
    if isinstance(entry, Delivered):
        return encode_deliver(parts, entry.queue, entry.position)
    if isinstance(entry, Definition):
        return encode_definition(parts, entry.change)
    return encode_queue_deleted(parts, entry.queue)


def entry_seeds() -> Iterator[bytes]:
    """One of each, and all together."""
    small, large = message_traits(b"\x01x\x01q", 1, True), message_traits(b"\0\0", 1, True)
    runs = [
        Run(7, 100, 1, 3, small, True, [b"abc", b"def", b"ghi"], [3, 3, 3]),
        Run(7, 103, 2, 2, message_traits(b"", 2, False), False, [b"", b"hello"], [0, 5]),
        Run(8, 1, 1, 2, large, True, None, [5000, 5000], first_id=9),
        Run(8, 1, 1, 2, large, False, None, [5000, 1], first_id=9, id_step=3),
    ]
    every: list[bytes] = []
    for run in runs:
        parts: list[bytes] = []
        encode_run(parts, run)
        every.append(b"".join(parts))
    for ranges in ([range(5, 6)], [range(0, 10, 2), range(20, 21)]):
        parts = []
        encode_ack(parts, 7, ranges)
        every.append(b"".join(parts))
    parts = []
    encode_deliver(parts, 7, 50)
    encode_definition(parts, b'{"exchange_deleted": "x"}')
    encode_queue_deleted(parts, 8)
    every += [*parts[:1], b"".join(parts[1:3]), *parts[3:]]
    yield from every
    yield b"".join(every)
    yield every[0][:-1]
    yield b"\x09"


def decode_file(data: bytes) -> tuple[FileHeader, Scan] | None:
    """The header and every valid record; None: no file of ours, or of a newer version."""
    try:
        header = any_header(data[:FILE_HEADER_SIZE])
    except (Corrupt, Refused):
        return None
    return header, scan(data, header.file_id)


def check_file(data: bytes) -> None:
    """Any bytes at all can be read; what is found there is what was written there, and nothing is
    valid at another place or in another file."""
    found = scan(data, FILE_ID, start=0)
    for record in found.records:
        again = encode_record(
            FILE_ID, record.offset, record.type, record.sequence, [bytes(record.payload)]
        )
        assert data[record.offset : record.end] == again
        assert scan(data[record.offset : record.end], bytes(16), 0, record.offset).records == []
        assert scan(data[record.offset : record.end], FILE_ID, 0, record.offset + 8).records == []
    places = [0, *(place for record in found.records for place in (record.offset, record.end))]
    assert places == sorted(places)
    assert found.end == places[-1]
    assert all(start < end for start, end in found.damaged)
    opened = decode_file(data)
    if opened is not None:
        header = opened[0]
        assert header.format != FORMAT or header.encode() == data[:FILE_HEADER_SIZE]


def file_seeds() -> Iterator[bytes]:
    """A file, one with a hole, one with a torn tail."""
    header = FileHeader("journal", FILE_ID, 3).encode()
    data = header
    for number, payload in enumerate((b"one", b"", b"x" * 100)):
        data += encode_record(FILE_ID, len(data), 1, number, [payload])
    yield data
    yield data[:70] + b"\0" + data[71:]
    yield data[:-9]
    yield data + bytes(64)
    yield header
    yield header[:40]


ENTRIES = Target("entries", check_entries, decode_all, entry_seeds, 2_000_000, 600, 1024)
FILES = Target("files", check_file, decode_file, file_seeds, base_bytes=20_000, factor=60)
