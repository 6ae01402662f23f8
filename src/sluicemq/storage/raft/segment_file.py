"""Segment files of Raft groups: entries that are committed, each in a record of its own.

    record   type RAFT_ENTRY, or RAFT_TRIMMED if only a needed part of the entry is
             there; its sequence the entry's index
             payload: term u64 | kind u8 | 0 7 | data

Each read of an entry's record checks its crc. The checkpoint says how much of a file counts, and
which entries are in it; so there is no torn tail here.
"""

from __future__ import annotations

import re
from itertools import groupby
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.errors import Corrupt
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.raft.entry import LogEntry
from sluicemq.storage.raft.codec import KINDS
from sluicemq.storage.raft.segment import RaftSegment
from sluicemq.storage.records import (
    FILE_HEADER_SIZE,
    RAFT_ENTRY,
    RAFT_TRIMMED,
    FileHeader,
    decode_header,
    pieces_of_records,
    scan,
    size_of_record,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from sluicemq.storage.records import Record

RAFT: Final = "raft"
NOT_THE_FILE: Final = "is not the file that the checkpoint means"
NAME: Final = re.compile(r"\d{8,19}\.log")
ENTRY_HEAD: Final = Struct("<QB7x")
ENTRY_TYPES: Final = (RAFT_ENTRY, RAFT_TRIMMED)
"""The record types of entries."""


def raft_directory(group: int) -> str:
    """Return the directory of a group's files."""
    return f"{RAFT}/{group}"


def raft_segment_path(group: int, number: int) -> str:
    """Return the path of the group's segment with that number."""
    return f"{raft_directory(group)}/{number:08d}.log"


class RaftSegmentWrite(DiskJob):
    """Makes entries of one group durable in segment files. It may be submitted again after it has
    failed for lack of space: it writes the same to the same places."""

    def __init__(self, group: int, strand: int) -> None:
        self.group = group
        self.strand = strand
        self.parts: list[tuple[int, int, bytes]] = []
        """The writes: the number of a segment, an offset in its file, and the bytes."""
        self.offsets: list[tuple[int, list[int], list[int], int]] = []
        """For each part: the number of the segment, the indexes of the entries, their offsets in
        the file, and the end of the last."""
        self.makes_files = False

    def add(
        self, old: RaftSegment, entries: list[LogEntry], trimmed: Container[int] = ()
    ) -> RaftSegment:
        """Have entries written behind those in a segment, and return the segment with them. A new
        one has a length of 0. The file marks entries with the indexes `trimmed` as trimmed."""
        header = b""
        offset = old.length
        if not offset:
            header = FileHeader("raft segment", old.file_id, old.number, self.group).encode()
            offset = FILE_HEADER_SIZE
            self.makes_files = True
        start = offset - len(header)
        payloads: list[bytes] = []
        offsets: list[int] = []
        for entry in entries:
            payload = ENTRY_HEAD.pack(entry.term, KINDS.index(entry.kind) + 1) + bytes(entry.data)
            payloads.append(payload)
            offsets.append(offset)
            offset += size_of_record(len(payload))
        indexes = [entry.index for entry in entries]
        pieces = [header]
        at = 0
        for kind, group in groupby(indexes, lambda index: index in trimmed):
            end = at + len([*group])
            row = indexes[at:end], offsets[at:end], payloads[at:end]
            pieces += pieces_of_records(old.file_id, RAFT_TRIMMED if kind else RAFT_ENTRY, *row)
            at = end
        self.parts.append((old.number, start, b"".join(pieces)))
        self.offsets.append((old.number, indexes, offsets, offset))
        first = old.first or indexes[0]
        return old._replace(
            length=offset, first=first, last=indexes[-1], entries=old.entries + len(entries)
        )

    @property
    def top(self) -> int:
        """Return the index of the last entry that is written."""
        return self.offsets[-1][1][-1]

    def run(self, files: Files) -> None:
        self.write(files)
        for number, _, _ in self.parts:
            files.sync(raft_segment_path(self.group, number))
        if self.makes_files:
            files.sync_directory(raft_directory(self.group))

    def write(self, files: Files) -> None:
        """Write the parts, without making them durable."""
        if self.makes_files:
            files.make_directory(raft_directory(self.group))
        for number, offset, data in self.parts:
            path = raft_segment_path(self.group, number)
            if not offset:
                files.delete(path)  # a file left by an earlier life is not in the checkpoint
            files.write(path, offset, data)


class RaftFilesGone(DiskJob):
    """Deletes files of one group to which nothing refers; with `whole` all of them."""

    def __init__(self, group: int, strand: int, paths: Iterable[str], *, whole: bool) -> None:
        self.group = group
        self.strand = strand
        self.paths = [*paths]
        self.whole = whole

    def run(self, files: Files) -> None:
        directory = raft_directory(self.group)
        for path in self.paths:
            files.delete(path)
        if self.whole:
            files.delete_tree(directory)
            if files.is_directory(RAFT):
                files.sync_directory(RAFT)
        elif files.is_directory(directory):
            files.sync_directory(directory)


def decode_raft_entry(record: Record) -> LogEntry:
    """Return the entry in a record of a segment. Raises Corrupt for anything else."""
    if record.type not in ENTRY_TYPES:
        raise Corrupt(f"a record of type {record.type}")
    if len(record.payload) < ENTRY_HEAD.size:
        raise Corrupt("it ends within its head")
    term, kind = ENTRY_HEAD.unpack_from(record.payload)
    if not 0 < kind <= len(KINDS) or any(record.payload[9 : ENTRY_HEAD.size]):
        raise Corrupt(f"an entry of an unknown kind {kind}")
    data = bytes(record.payload[ENTRY_HEAD.size :])
    return LogEntry(record.sequence, term, KINDS[kind - 1], data)


def is_segment(data: bytes, group: int, segment: RaftSegment) -> bool:
    """Tell whether a file that begins with `data` is the right segment. Raises Corrupt when its
    header is damaged, Refused when a newer version wrote it."""
    header = decode_header(data, "raft segment")
    return (header.file_id, header.queue) == (segment.file_id, group)


class SegmentRead(NamedTuple):
    """The readable part of a segment. `problem` says what is wrong, "" when nothing is; `is_there`
    says whether it is the right file, however damaged. `last_trimmed` is the last index of a
    trimmed entry, 0 without one."""

    entries: list[LogEntry]
    problem: str
    is_there: bool
    last_trimmed: int = 0


def look_at_raft_segment(files: Files, group: int, segment: RaftSegment) -> SegmentRead:
    """Return the same as `read_raft_segment`, without entries: damage in the file is found when it
    is read. Raises as that does."""
    path = raft_segment_path(group, segment.number)
    size = files.size(path)
    if size < 0:
        return SegmentRead([], "is missing", is_there=False)
    try:
        if not is_segment(files.read(path, 0, FILE_HEADER_SIZE), group, segment):
            return SegmentRead([], NOT_THE_FILE, is_there=False)
    except Corrupt as error:
        return SegmentRead([], str(error), is_there=True)
    problem = f"has {size} of {segment.length} bytes" if size < segment.length else ""
    return SegmentRead([], problem, is_there=True)


def read_raft_segment(files: Files, group: int, segment: RaftSegment) -> SegmentRead:
    """Read all entries of a segment, as far as it counts. Raises Refused when a newer version wrote
    the file, DiskFailed when it cannot be read."""
    path = raft_segment_path(group, segment.number)
    size = files.size(path)
    if size < 0:
        return SegmentRead([], "is missing", is_there=False)
    data = files.read(path, 0, segment.length)
    problem = ""
    try:
        if not is_segment(data, group, segment):
            return SegmentRead([], NOT_THE_FILE, is_there=False)
    except Corrupt as error:
        problem = str(error)
    found = scan(data, segment.file_id)
    entries: list[LogEntry] = []
    last_trimmed = 0
    for record in found.records:
        try:
            entries.append(decode_raft_entry(record))
            if record.type == RAFT_TRIMMED:
                last_trimmed = record.sequence
        except Corrupt as error:
            problem = problem or f"record at {record.offset}: {error}"
    if size < segment.length:
        problem = problem or f"has {size} of {segment.length} bytes"
    if not problem and len(entries) != segment.entries:
        problem = f"{segment.entries - len(entries)} of {segment.entries} entries are damaged"
    is_there = bool(entries) or not problem
    return SegmentRead(entries, problem, is_there, last_trimmed)
