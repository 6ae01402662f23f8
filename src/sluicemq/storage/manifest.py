"""The manifest: it says that this directory has been used, and which journal files it must have.

    header 64 | zeroes | at 4096 one record | zeroes | at 8192 another | zeroes up to 12288

Each record, of type MANIFEST, is complete; the one with the higher sequence counts. They are
written in turn, far apart and smaller than a sector, so that a cut-off write harms only its own
record. Payload, little-endian:

    checkpoint u64 | journal first u64 | journal last u64 | journal bytes u64 | life 8

Checkpoint and journal name all other required files; only the manifest says that these two must
exist. The file's id is the node's, which the checkpoint has too: so the records can be read even if
the header is damaged.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.errors import Corrupt
from sluicemq.storage.audit import demand_no_directory
from sluicemq.storage.records import (
    FILE_HEADER_SIZE,
    MANIFEST,
    FileHeader,
    decode_header,
    encode_record,
    read_record,
)

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files

PATH: Final = "manifest"
UNFINISHED: Final = "manifest.tmp"
SLOTS: Final = (4096, 8192)
"""The offsets of the records, more than a sector of any disk apart."""
SIZE: Final = 12288
NO_MANIFEST_FORMAT: Final = 2
"""Up to this format of the checkpoint a directory has no manifest."""
LIFE_SIZE: Final = 8
PAYLOAD: Final = Struct(f"<QQQQ{LIFE_SIZE}s")
U64: Final = Struct("<Q")


class Manifest(NamedTuple):
    """The content of the manifest's file.

    `checkpoint` is the number of a durable checkpoint, 0 when there was none yet. One life of the
    broker made the journal files `journal_first` to `journal_last` (0: none), with at least
    `journal_bytes` each; those that the checkpoint no longer needs may be gone. `life` and the
    number of a file are its id.
    """

    node_id: bytes
    generation: int = 0
    checkpoint: int = 0
    journal_first: int = 1
    journal_last: int = 0
    journal_bytes: int = 0
    life: bytes = bytes(LIFE_SIZE)

    def record(self) -> tuple[int, bytes]:
        """Return the offset of this generation's record in the file, and the record's bytes."""
        offset = SLOTS[self.generation % len(SLOTS)]
        payload = PAYLOAD.pack(*self[2:])
        return offset, encode_record(self.node_id, offset, MANIFEST, self.generation, [payload])

    def encode(self) -> bytes:
        """Return the bytes of the whole file, with one record."""
        offset, record = self.record()
        data = bytearray(SIZE)
        data[:FILE_HEADER_SIZE] = FileHeader("manifest", self.node_id, 0).encode()
        data[offset : offset + len(record)] = record
        return bytes(data)

    def expected(self, first: int) -> range:
        """Return the numbers of the journal files that must exist, from number `first` on."""
        return range(max(first, self.journal_first), self.journal_last + 1)

    def is_full(self, number: int, end: int) -> bool:
        """Tell whether the journal's file with that number, whose groups end at `end`, has no place
        for another one, so that what is behind them is nothing of it."""
        return self.journal_id(number) is not None and end >= self.journal_bytes

    def journal_id(self, number: int) -> bytes | None:
        """Return the id of the journal's file with that number; None when the manifest does not
        know it."""
        known = self.journal_first <= number <= self.journal_last
        return journal_id(self.life, number) if known else None


def journal_id(life: bytes, number: int) -> bytes:
    """Return the id of the journal's file with that number that a broker makes in this life."""
    return life + U64.pack(number)


class Found(NamedTuple):
    """The result of reading the manifest's file. A `manifest` of None means that it cannot be read.
    `problem` says what is wrong with the file, "" when nothing is; `note` says what may be normal
    after a cut-off write."""

    manifest: Manifest | None
    problem: str = ""
    note: str = ""


def read_manifest(files: Files, node_id: bytes | None) -> Found:
    """Read the manifest's file, if it exists. `node_id` is the checkpoint's, None without a
    checkpoint. Raises Refused when a newer version wrote it, or a directory is in its place."""
    demand_no_directory(files, PATH)
    if files.size(PATH) < 0:
        return Found(None)
    return decode_manifest(files.read(PATH, 0, SIZE), node_id)


def decode_manifest(data: bytes, node_id: bytes | None) -> Found:
    """Decode the bytes of a manifest's file. `node_id` is the checkpoint's, None without a
    checkpoint. Raises Refused when a newer version wrote it."""
    problem = note = ""
    file_id = node_id
    try:
        file_id = decode_header(data, "manifest").file_id
        if node_id is not None and file_id != node_id:
            problem, file_id = "it is the manifest of another directory", node_id
    except Corrupt as error:
        problem = str(error)
    if file_id is None:
        return Found(None, problem)
    found: list[Manifest] = []
    for offset in SLOTS:
        record = read_record(data, offset, file_id)
        if record is not None and record.type == MANIFEST and len(record.payload) == PAYLOAD.size:
            found.append(Manifest(file_id, record.sequence, *PAYLOAD.unpack(record.payload)))
        elif any(data[offset : offset + SLOTS[0]]):
            note = f"the record at {offset} was never finished, or is damaged; the other counts"
    newest = max(found, key=lambda each: each.generation, default=None)
    if len(data) < SIZE or newest is None:
        problem = problem or "the file was cut, or nothing was ever written to it"
    return Found(newest, problem, note if newest is not None else "")


def write_manifest(files: Files, manifest: Manifest) -> None:
    """Write the whole file, durably, in place of the old one."""
    files.delete(UNFINISHED)
    files.write(UNFINISHED, 0, manifest.encode())
    files.sync(UNFINISHED)
    files.rename(UNFINISHED, PATH)
    files.sync_directory("")


def update_manifest(files: Files, place: tuple[int, bytes]) -> None:
    """Write the record of a newer generation, as `Manifest.record` returns it, durably into the
    existing file."""
    files.write(PATH, *place)
    files.sync(PATH)
