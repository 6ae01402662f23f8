"""Records: all our files consist of them, behind a header of 64 bytes.

All numbers are little-endian; records begin at offsets that 8 divides.

    header   magic 8 | format u16 | crc algorithm u8 | kind u8 | 0 u32 | file id 16
             | number u64 | queue u64 | 0 12 | crc32c u32 of the 60 bytes before it
    record   magic u32 | crc32c u32 | length u32 | type u8 | 0 u8 | check u16 | sequence u64
             | payload of `length` bytes | zeroes up to a multiple of 8

The crc covers everything behind it, the zeroes too. It is seeded with the file's id and the
record's offset, so a record written for another file or place is never valid here. `check` is a crc
of the head alone, with the same seed: it vouches for the length when only heads are read, and
spares a search for the next record the crc of everything that looks like one.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from google_crc32c import extend

from sluicemq.errors import Corrupt, Refused

FORMAT: Final = 4
"""The format that is written."""
FORMATS: Final = (1, 2, 3, 4)
"""The formats that can be read. In format 1 no run had an expiry, no queue marks for more than one
priority; up to format 2 there was no manifest, no seal, and no checkpoint knew the files of
streams; up to format 3 there were no Raft groups."""
CRC32C: Final = 1
FILE_HEADER_SIZE: Final = 64
RECORD_HEAD_SIZE: Final = 24
ALIGNMENT: Final = 8
FILE_ID_SIZE: Final = 16

KINDS: Final = (
    "journal",
    "segment",
    "messages",
    "checkpoint",
    "stream",
    "manifest",
    "poison",
    "raft segment",
    "raft snapshot",
)
"""A kind's number in the header is its place here, from 1 on."""

GROUP: Final = 1
BLOCK: Final = 2
MESSAGE: Final = 3
DIRECTORY: Final = 4
CHECKPOINT: Final = 5
CHUNK: Final = 6
PLACES: Final = 7
CLOSED: Final = 8
SEAL: Final = 9
MANIFEST: Final = 10
POISON: Final = 11
RAFT_ENTRY: Final = 12
RAFT_CONTENT: Final = 13
RAFT_TRIMMED: Final = 14
TYPE_NAMES: Final = {
    GROUP: "group",
    BLOCK: "block",
    MESSAGE: "message",
    DIRECTORY: "directory",
    CHECKPOINT: "checkpoint",
    CHUNK: "chunk",
    PLACES: "places",
    CLOSED: "closed",
    SEAL: "seal",
    MANIFEST: "manifest",
    POISON: "poison",
    RAFT_ENTRY: "raft entry",
    RAFT_CONTENT: "raft content",
    RAFT_TRIMMED: "raft trimmed entry",
}

FILE_MAGIC: Final = b"\x89SLUICE\n"
RECORD_MAGIC: Final = b"\xf7Slq"

HEADER: Final = Struct("<8sHBBI16sQQ12sI")
BEGINNING: Final = Struct("<4sI")
HEAD: Final = Struct("<IBBHQ")
U32: Final = Struct("<I")
U64: Final = Struct("<Q")
ZEROES: Final = tuple(map(bytes, range(ALIGNMENT)))

NEVER: Final = 0xFFFFFFFF
"""Replaces a crc that happens to be 0: a record of zeroes is never valid."""


class FileHeader:
    """The first 64 bytes of a file. `number` is that in its name; `queue` is 0 without one;
    `format` is that of a file that was read."""

    __slots__ = ("file_id", "format", "kind", "number", "queue")

    def __init__(
        self,
        kind: str,
        file_id: bytes,
        number: int,
        queue: int = 0,
        format: int = FORMAT,  # noqa: A002
    ) -> None:
        assert len(file_id) == FILE_ID_SIZE
        self.kind = kind
        self.file_id = file_id
        self.number = number
        self.queue = queue
        self.format = format

    def encode(self) -> bytes:
        """Return the 64 bytes of the header, in the current format."""
        kind = KINDS.index(self.kind) + 1
        fields = (FILE_MAGIC, FORMAT, CRC32C, kind, 0, self.file_id, self.number, self.queue, b"")
        return with_crc(HEADER.pack(*fields, 0)[:-4])


def with_crc(header: bytes) -> bytes:
    """Return a header with its crc behind it."""
    return header + U32.pack(extend(0, header))


def decode_header(data: bytes, kind: str) -> FileHeader:
    """Return the header at the front of `data`. Raises Corrupt when it is missing, or of another
    kind; Refused when a newer version wrote the file: every version keeps magic, format and crc in
    their places."""
    header = any_header(data)
    if header.kind != kind:
        raise Corrupt(f"a {header.kind} file where a {kind} file should be")
    return header


def any_header(data: bytes) -> FileHeader:
    """Return the header at the front of `data`, for any kind of file. Raises Corrupt when it is
    missing, Refused when a newer version wrote the file."""
    if len(data) < FILE_HEADER_SIZE:
        raise Corrupt(f"the file ends after {len(data)} bytes, within its header")
    fields = HEADER.unpack_from(data)
    magic, version, algorithm, kind, zero, file_id, number, queue, zeroes, crc = fields
    if magic != FILE_MAGIC:
        raise Corrupt("the file does not begin as one of SluiceMQ's")
    if crc != extend(0, data[: FILE_HEADER_SIZE - 4]):
        raise Corrupt("the file's header is damaged: its CRC is wrong")
    if version > FORMAT:
        raise Refused(f"the file is of a newer format {version}, this version reads {FORMAT}")
    if version not in FORMATS or algorithm != CRC32C or zero or any(zeroes):
        raise Corrupt("the file's header has fields that no version writes")
    if not 1 <= kind <= len(KINDS):
        raise Corrupt(f"the file is of an unknown kind {kind}")
    return FileHeader(KINDS[kind - 1], file_id, number, queue, version)


def file_id_in(header: bytes) -> bytes:
    """Return the id in the 64 bytes of a header, which may be damaged."""
    file_id: bytes = HEADER.unpack_from(header)[5]
    return file_id


def is_cut_off(header: bytes) -> bool:
    """Tell whether the beginning of a file, which is no header, shows that its first write was cut
    off, or that a power loss has taken its first sector."""
    return FILE_MAGIC.startswith(header[: len(FILE_MAGIC)].rstrip(b"\0"))


class Record(NamedTuple):
    """One valid record. `offset` and `end` are bytes from the beginning of the file; `end` is where
    the next record may begin."""

    offset: int
    end: int
    type: int
    sequence: int
    payload: memoryview


class RecordHead(NamedTuple):
    """A record's head with a valid check; `size` is the bytes of the whole record."""

    crc: int
    length: int
    type: int
    sequence: int
    size: int


class Scan(NamedTuple):
    """The valid records of a file. Offsets are in the file; `end` is behind the last valid record;
    `damaged` are ranges without a valid record that one follows; `torn` is true when there is more
    than zeroes behind `end`."""

    records: list[Record]
    end: int
    damaged: list[tuple[int, int]]
    torn: bool


FEW_PARTS: Final = 64
"""At most this many parts of a record are checked one by one..."""
SMALL_BYTES: Final = 4096
"""... unless they have so few bytes together that copying them twice costs less."""


def size_of_record(length: int) -> int:
    """Return the bytes of a whole record with `length` bytes of payload."""
    return RECORD_HEAD_SIZE + length + -length % ALIGNMENT


def length_of(data: bytes, at: int) -> int:
    """Return the bytes of payload that the record at data[at:] says it has, valid or not."""
    length: int = U32.unpack_from(data, at + BEGINNING.size)[0]
    return length


def seed_of(file_id: bytes, offset: int) -> int:
    """Return the seed of every crc of the record at `offset` of a file."""
    seed: int = extend(0, file_id + U64.pack(offset))
    return seed


def check_of(seed: int, length: int, kind: int, sequence: int) -> int:
    """Return the check of a head, which is 16 bits of a crc."""
    crc: int = extend(seed, HEAD.pack(length, kind, 0, 0, sequence))
    return crc & 0xFFFF


def encode_record(
    file_id: bytes,
    offset: int,
    type: int,  # noqa: A002
    sequence: int,
    parts: list[bytes],
) -> bytes:
    """Return the bytes of a whole record, for exactly this offset of this file; `parts` are its
    payload."""
    return b"".join(record_in_pieces(file_id, offset, type, sequence, parts))


def record_in_pieces(
    file_id: bytes,
    offset: int,
    type: int,  # noqa: A002
    sequence: int,
    parts: list[bytes],
) -> list[bytes]:
    """Return a record as `encode_record` does, but in pieces that are yet to be joined."""
    length = sum(map(len, parts))
    seed = seed_of(file_id, offset)
    head = HEAD.pack(length, type, 0, check_of(seed, length, type, sequence), sequence)
    whole = [head, *parts, bytes(-length % ALIGNMENT)]
    if length > SMALL_BYTES and len(whole) < FEW_PARTS:  # then they are not copied twice
        crc = seed
        for part in whole:
            crc = extend(crc, part)
        return [BEGINNING.pack(RECORD_MAGIC, crc or NEVER), *whole]
    body = b"".join(whole)
    return [BEGINNING.pack(RECORD_MAGIC, extend(seed, body) or NEVER), body]


def pieces_of_records(
    file_id: bytes,
    type: int,  # noqa: A002
    sequences: Iterable[int],
    offsets: Iterable[int],
    payloads: Iterable[bytes],
) -> list[bytes]:
    """Return many records as pieces to be joined for one write: no payload is copied here. There is
    an ascending offset for each; more offsets than payloads are allowed."""
    pieces: list[bytes] = []
    add, head_of, beginning_of = pieces.append, HEAD.pack, BEGINNING.pack
    file_seed = extend(0, file_id)
    for payload, sequence, offset in zip(payloads, sequences, offsets):  # noqa: B905
        length = len(payload)
        seed = extend(file_seed, U64.pack(offset))
        check = extend(seed, head_of(length, type, 0, 0, sequence)) & 0xFFFF
        head = head_of(length, type, 0, check, sequence)
        crc = extend(extend(seed, head), payload)
        if padding := ZEROES[-length % ALIGNMENT]:
            crc = extend(crc, padding)
        add(beginning_of(RECORD_MAGIC, crc or NEVER))
        add(head)
        add(payload)
        add(padding)
    return pieces


def read_head(data: bytes, at: int, file_id: bytes, offset: int) -> RecordHead | None:
    """Return the head at data[at:], which lies at `offset` of its file; None when it is
    not valid.
    """
    if len(data) - at < RECORD_HEAD_SIZE:
        return None
    magic, crc = BEGINNING.unpack_from(data, at)
    if magic != RECORD_MAGIC or crc == 0:
        return None
    length, kind, zero, check, sequence = HEAD.unpack_from(data, at + BEGINNING.size)
    if zero or check != check_of(seed_of(file_id, offset), length, kind, sequence):
        return None
    return RecordHead(crc, length, kind, sequence, size_of_record(length))


def read_record(data: bytes, at: int, file_id: bytes, base_offset: int = 0) -> Record | None:
    """Return the record at data[at:]; None when it is not valid. `base_offset` is the offset in the
    file of data[0]."""
    head = read_head(data, at, file_id, base_offset + at)
    return None if head is None else read_body(head, data, at, file_id, base_offset)


def read_body(
    head: RecordHead, data: bytes, at: int, file_id: bytes, base_offset: int
) -> Record | None:
    """Return the record at data[at:] whose head was read; None when it is not valid. `base_offset`
    is the offset in the file of data[0]."""
    offset = base_offset + at
    if head.size > len(data) - at:
        return None
    body = data[at + BEGINNING.size : at + head.size]
    if (extend(seed_of(file_id, offset), body) or NEVER) != head.crc:
        return None
    payload = memoryview(body)[HEAD.size : HEAD.size + head.length]
    return Record(offset, offset + head.size, head.type, head.sequence, payload)


def scan(data: bytes, file_id: bytes, start: int = FILE_HEADER_SIZE, base_offset: int = 0) -> Scan:
    """Return every valid record of data[start:], where data[0] lies at `base_offset` of the file.

    The tail rule: bytes that no valid record follows are a torn tail, the rest of a write that was
    cut off; bytes that one does follow were damaged later, because only one record at a time is
    being written.
    """
    records: list[Record] = []
    damaged: list[tuple[int, int]] = []
    at = start
    while (found := next_record(data, at, file_id, base_offset)) is not None:
        if found.offset > base_offset + at:
            damaged.append((base_offset + at, found.offset))
        records.append(found)
        at = found.end - base_offset
    torn = at < len(data) and data.count(0, at) < len(data) - at
    return Scan(records, base_offset + at, damaged, torn)


def next_record(data: bytes, at: int, file_id: bytes, base_offset: int) -> Record | None:
    """Return the first valid record at or behind data[at]; None when there is none."""
    while at >= 0:
        record = read_record(data, at, file_id, base_offset)
        if record is not None:
            return record
        at = next_magic(data, at + 1, base_offset)
    return None


def next_magic(data: bytes, at: int, base_offset: int) -> int:
    """Return the first index at or behind data[at] where a record might begin; -1 when there is
    none."""
    at = data.find(RECORD_MAGIC, at)
    while at >= 0 and (base_offset + at) % ALIGNMENT:
        at = data.find(RECORD_MAGIC, at + 1)
    return at
