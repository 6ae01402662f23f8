"""The journal, which all queues of a node share. Its records are groups of entries.

A group is one record, one write and one sync, and the next one is written only after that sync. So
at most the last record of the newest file is not durable, and only that record may be torn.

When the journal falls idle it writes a *seal* behind the last group: an empty record with its
sequence. It is not synced, and the next group overwrites it. So the last group has a valid record
behind it too, and later damage to it is not taken for a torn write.

One file that is no longer needed is kept, and gets the name and the place of the next new one: a
file system has nothing to note for a write to blocks that have been written before. What it had
before stays in it until groups are in its place, and is never valid in it (records.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sluicemq.errors import Corrupt
from sluicemq.kernel.disk import DiskJob, DurableWrite, Files
from sluicemq.storage.entries import Entry, decode_entries
from sluicemq.storage.manifest import LIFE_SIZE, Manifest, journal_id, update_manifest
from sluicemq.storage.records import (
    FILE_HEADER_SIZE,
    GROUP,
    RECORD_HEAD_SIZE,
    SEAL,
    FileHeader,
    Scan,
    decode_header,
    encode_record,
    file_id_in,
    is_cut_off,
    next_magic,
    scan,
)

DIRECTORY: Final = "journal"
NAME: Final = re.compile(r"(\d{8,19})\.jif")
CLEARED_BYTES: Final = 1 << 20
"""The zeroes of one write."""
REUSED_WITHIN: Final = 1000
"""A file is used again under a number that is at most so much higher; mostly it is two or three."""


def journal_path(number: int) -> str:
    """Return the path of the journal's file with that number."""
    return f"{DIRECTORY}/{number:08d}.jif"


class TailCleared(DiskJob):
    """Writes zeroes behind the last group of a file of the journal. It may be run again."""

    def __init__(self, path: str, end: int) -> None:
        self.path = path
        self.end = end

    def run(self, files: Files) -> None:
        size = files.size(self.path)
        if size < 0:
            return  # a checkpoint does without it
        for at in range(self.end, size, CLEARED_BYTES):
            files.write(self.path, at, bytes(min(CLEARED_BYTES, size - at)))
        files.sync(self.path)


class GroupWrite(DiskJob):
    """Makes a group durable: first the data it refers to, such as bodies, then the group. It may be
    submitted again after it has failed for lack of space: it writes the same to the same places."""

    def __init__(self, path: str, offset: int, data: bytes, allocate: int) -> None:
        self.path = path
        self.offset = offset
        self.data = data
        self.allocate = allocate
        """Bytes to reserve for a new file; 0 when the file exists."""
        self.spare = ""
        """The path of a file that becomes the new one, if it is still there; "" for none."""
        self.before: list[DiskJob] = []
        """Jobs whose writes must come first."""
        self.manifest: tuple[int, bytes] | None = None
        """The record that declares the new file as required from now on."""

    def durable_write(self) -> DurableWrite | None:
        if self.before or self.allocate or self.manifest is not None or not self.data:
            return None
        return DurableWrite(self.path, self.offset, self.data)

    def run(self, files: Files) -> None:
        for job in self.before:
            job.run(files)
        if self.allocate:
            files.make_directory(DIRECTORY)
            if self.spare and files.size(self.spare) >= 0:
                files.rename(self.spare, self.path)
            files.allocate(self.path, self.allocate)
        if self.data:
            files.write_durably(self.path, self.offset, self.data)
        if self.allocate:
            files.sync_directory(DIRECTORY)
        if self.manifest is not None:
            update_manifest(files, self.manifest)


class SealWrite(DiskJob):
    """Writes a seal. It must not be submitted again: a group may be in its place by then."""

    def __init__(self, path: str, offset: int, data: bytes) -> None:
        self.path = path
        self.offset = offset
        self.data = data

    def run(self, files: Files) -> None:
        files.write(self.path, self.offset, self.data)


class Journal:
    """Chooses the place of the next group, and makes the jobs that write.

    `manifest` has what is durable about the files made before; None means that there is no
    manifest. `marks` has for each file, and each queue with something in it, the position behind
    the last message published there.
    """

    is_vital = True
    """A fault in here ends the node (kernel/containment.py)."""

    def __init__(
        self,
        number: int,
        size_limit: int,
        new_file_id: Callable[[], bytes],
        manifest: Manifest | None = None,
    ) -> None:
        self.size_limit = size_limit
        self.life = new_file_id()[-LIFE_SIZE:]
        self.manifest = manifest
        if manifest is not None:
            self.manifest = manifest._replace(
                journal_first=number, journal_bytes=size_limit, life=self.life
            )
        self.first = number
        """The oldest file that still exists, but for the spare one."""
        self.spare = ""
        """The path of a file that no durable checkpoint needs, and that becomes the next new one;
        "" for none."""
        self.is_reused = False
        """True when the file that groups go to was another one before."""
        self.tail: TailCleared | None = None
        """Clears the file before this one, which was left before it was full. None: there is
        nothing to clear, or that is done with the first group of this one."""
        self.number = number
        self.path = journal_path(number)
        """The path of the file that the next group goes to, unless it has reached its limit."""
        self.offset = 0
        self.file_id = b""
        self.sequence = 0
        self.bytes = 0
        self.marks: dict[int, dict[int, int]] = {number: {}}

    def mark(self, queue: int, end: int) -> None:
        """Note that the group being gathered has something about this queue, with messages up to
        before the position `end`."""
        marks = self.marks[self.number]
        marks[queue] = max(end, marks.get(queue, 0))

    def group(self, parts: list[bytes]) -> GroupWrite:
        """Return the job that makes these encoded entries durable, as one group."""
        allocate = 0
        header = b""
        if not self.offset:
            allocate = self.size_limit
            self.file_id = journal_id(self.life, self.number)
            header = journal_header(self.life, self.number)
            self.offset = FILE_HEADER_SIZE
        start = self.offset - len(header)
        self.sequence += 1
        record = encode_record(self.file_id, self.offset, GROUP, self.sequence, parts)
        self.offset += len(record)
        self.bytes += len(record)
        data = header + record if header else record  # compiled, the sum would be another copy
        job = GroupWrite(self.path, start, data, allocate)
        if header:
            job.spare, self.spare = self.spare, ""
            self.is_reused = job.spare != ""
            if self.tail is not None:
                job.before.append(self.tail)
                self.tail = None
        if header and self.manifest is not None:
            self.manifest = self.manifest._replace(
                generation=self.manifest.generation + 1, journal_last=self.number
            )
            job.manifest = self.manifest.record()
        return job

    def seal(self) -> SealWrite | None:
        """Return the job that writes a seal behind the last group, which must be durable; None when
        the file has no group, or no room."""
        if not self.offset or self.offset + RECORD_HEAD_SIZE > self.size_limit:
            return None
        data = encode_record(self.file_id, self.offset, SEAL, self.sequence, [])
        return SealWrite(self.path, self.offset, data)

    def rotate(self) -> bool:
        """Begin a new file if this one has reached its limit, and tell whether it had."""
        if self.offset < self.size_limit:
            return False
        self.next_file()
        return True

    def next_file(self) -> None:
        """Begin a new file, unless this one is still empty, so that the next group goes there."""
        if self.offset:
            if self.is_reused and self.offset < self.size_limit:
                self.tail = TailCleared(self.path, self.offset)
            self.number += 1
            self.path = journal_path(self.number)
            self.offset = 0
            self.marks[self.number] = {}

    def marks_before(self, number: int) -> list[dict[int, int]]:
        """Return the marks of each file before `number`."""
        return [marks for file, marks in self.marks.items() if file < number]

    def forget_before(self, number: int) -> None:
        """Forget the marks of files before `number`, which are no longer needed."""
        assert number <= self.number, "the file that groups go to is needed"
        for file in [file for file in self.marks if file < number]:
            del self.marks[file]

    def files_before(self, number: int) -> list[str]:
        """Return the paths of the files before `number`, which are to be deleted in this order.
        Each is returned once."""
        assert number <= self.number, "the file that groups go to is needed"
        paths = [journal_path(each) for each in range(self.first, number)]
        self.first = max(self.first, number)
        return paths

    def take_spare(self) -> list[str]:
        """Return the path of the spare file, if there is one, which is then to be deleted."""
        spare, self.spare = self.spare, ""
        return [spare] if spare else []


class Replay:
    """The entries of a journal's file, whose id is `file_id` unless that is None.

    `problems` says what is wrong with the file, and `unreadable` why nothing in it can be known.
    `torn` says that there is more behind the last group than zeroes: a group that was never
    finished, or what the file had before, which is normal in the newest file and in a full one. The
    constructor raises Corrupt when a group is whole and makes no sense, Refused when a newer
    version wrote the file, DiskFailed when it cannot be read.
    """

    def __init__(self, files: Files, number: int, file_id: bytes | None = None) -> None:
        self.path = journal_path(number)
        self.entries: list[Entry] = []
        self.sequences: list[int] = []
        """The sequences of the groups, without gaps over all files of one start."""
        self.problems: list[str] = []
        self.unreadable = ""
        self.torn = False
        self.end = 0
        """Bytes up to the end of the last group."""
        data = files.read(self.path, 0, files.size(self.path))
        try:
            header = decode_header(data, "journal")
            if header.number != number:
                raise Corrupt(f"it is journal file {header.number}")
            if file_id not in (None, header.file_id):
                raise Corrupt("it is not the file that the manifest means")
            file_id = header.file_id
        except Corrupt as error:
            if file_id is None:
                self.torn = is_unfinished(data, number)
                self.unreadable = "" if self.torn else str(error)
                return
            self.problems.append(f"{self.path}: {error}")
        found = scan(data, file_id)
        if self.problems and not found.records:
            self.unreadable = self.problems.pop().removeprefix(f"{self.path}: ")
            return
        self.take(found)

    def take(self, found: Scan) -> None:
        """Add the entries of all groups found. Raises Corrupt when one is whole and
        makes no sense.
        """
        self.torn = found.torn
        self.end = found.end
        for start, end in found.damaged:
            self.problems.append(f"{self.path}: bytes {start} to {end} are damaged")
        for record in found.records:
            if record.type == SEAL:
                continue
            self.sequences.append(record.sequence)
            try:
                self.entries += decode_entries(record.payload)
            except Corrupt as error:
                where = f"{self.path}: group {record.sequence}"
                raise Corrupt(f"{where} is whole, but not understood: {error}") from error


def is_unfinished(data: bytes, number: int) -> bool:
    """Tell whether the first write of a file, which has no valid header with its number, was cut
    off, or its first sector lost, with nothing behind it. The header of an older file shows the
    same, whole or with the beginning of this one's: it was to be used again."""
    try:
        return decode_header(data, "journal").number < number
    except Corrupt:
        return is_between_headers(data[:FILE_HEADER_SIZE], number) or (
            is_cut_off(data) and next_magic(data, 0, 0) < 0
        )


def is_between_headers(header: bytes, number: int) -> bool:
    """Tell whether a header is that of an older file, overwritten in part by that of the journal's
    file with this number. Both are of one life."""
    if len(header) < FILE_HEADER_SIZE:
        return False
    life = file_id_in(header)[:LIFE_SIZE]
    new = journal_header(life, number)
    if header == new:
        return False
    start = next(at for at, (was, now) in enumerate(zip(header, new, strict=True)) if was != now)
    rest = header[start:]
    before = range(max(1, number - REUSED_WITHIN), number)
    return any(journal_header(life, old)[start:] == rest for old in before)


def journal_header(life: bytes, number: int) -> bytes:
    """Return the header of the journal's file with that number that a broker makes in this life."""
    return FileHeader("journal", journal_id(life, number), number).encode()


def journal_numbers(files: Files) -> list[int]:
    """Return the numbers of the journal's existing files, oldest first."""
    matches = map(NAME.fullmatch, files.names(DIRECTORY))
    numbers = sorted(int(match[1]) for match in matches if match)
    return [each for each in numbers if not files.is_directory(journal_path(each))]
