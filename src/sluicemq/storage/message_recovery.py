"""The start of the message store: finds the files, and the records to which messages still refer.

    look          reads only; returns which messages are referred to but in no file
    make_durable  makes sure that the next start finds the same
    tidy          deletes files without live records, and puts unreadable ones aside

No record is changed. `tidy` comes after the checkpoint with the result is durable, so an
interrupted start can begin again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from sluicemq.errors import Corrupt, DiskFailed
from sluicemq.storage.compaction import put_aside
from sluicemq.storage.message_file import MessageFile, number_in, read_directory
from sluicemq.storage.message_index import MessageIndex, entry_of
from sluicemq.storage.records import FILE_HEADER_SIZE, MESSAGE, decode_header, is_cut_off, scan

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files


class Problem(NamedTuple):
    """The bytes from `start` to before `end` of a file are not those that were written; `text` says
    what was done."""

    path: str
    start: int
    end: int
    text: str


class Recovered:
    """The result of a start of the message store.

    `missing` are ids that are referred to and in no file. `highest_id` is that of any record found,
    live or not: new ids must be above it. `unreadable` are files of which nothing can be known; in
    the others at most `damaged_bytes` differ from what was written.
    """

    def __init__(self) -> None:
        self.table: dict[int, MessageFile] = {}
        self.problems: list[Problem] = []
        self.unreadable: list[Problem] = []
        self.damaged_bytes = 0
        self.missing: list[int] = []
        self.highest_id = 0
        self.highest_number = -1


class MessageRecovery:
    """One start of one directory of message files. `references` says how many queues refer to each
    id."""

    def __init__(
        self,
        files: Files,
        directory: str,
        index: MessageIndex,
        references: Mapping[int, int],
        given_up: tuple[str, ...] = (),
    ) -> None:
        self.files = files
        self.given_up = given_up
        """Errors with which an unreadable file counts as lost."""
        self.directory = directory
        self.index = index
        self.references = references
        self.found = Recovered()
        self.dead: list[str] = []
        self.aside: list[str] = []
        self.cut_off: list[Problem] = []
        """Files whose first write was not finished, unless a message in one is missing."""
        self.unsure: list[str] = []
        """Files in use that the last job may not have synced."""

    def look(self) -> Recovered:
        """Fill the index, which must be empty, and return the result; nothing is written. Raises
        DiskFailed for an error that is not `given_up`."""
        found = self.found
        for number, name in sorted(
            (number, name)
            for name in self.files.names(self.directory)
            if (number := number_in(name)) is not None
        ):
            path = f"{self.directory}/{name}"
            found.highest_number = number
            if self.files.is_directory(path):
                continue
            try:
                self.open(path, number)
            except DiskFailed as failure:
                if failure.code not in self.given_up:
                    raise
                found.unreadable.append(Problem(path, 0, 0, str(failure)))
        ids = list(self.references)
        entries = self.index.get_many(ids)
        found.missing = [
            message_id for message_id, entry in zip(ids, entries, strict=True) if not entry
        ]
        for problem in self.cut_off:
            if found.missing:
                self.aside.append(problem.path)
                found.unreadable.append(problem)
            else:
                self.dead.append(problem.path)
        return found

    def make_durable(self) -> None:
        """Make sure that everything `look` has found will be found again. Raises DiskFailed."""
        # Files that an earlier life deleted must not return later, because their ids are used again
        # now.
        self.files.sync_directory(self.directory)
        for path in self.unsure:
            if path not in (*self.dead, *self.aside):
                self.files.sync(path)

    def tidy(self, keep: bool = False) -> None:
        """Delete useless files, and put unreadable ones aside. With `keep` all of them are put
        aside, because the data that refers to them may be what was lost. Raises DiskFailed."""
        for path in () if keep else self.dead:
            self.files.delete(path)
        for path in [*self.aside, *self.dead] if keep else self.aside:
            if self.files.size(path) >= 0:  # else all files of a lost directory were put aside
                put_aside(self.files, path)
        if self.dead or self.aside:
            self.files.sync_directory(self.directory)

    def open(self, path: str, number: int) -> None:
        """Read the file with that number, and remember its live records. Raises DiskFailed."""
        size = self.files.size(path)
        header = self.files.read(path, 0, FILE_HEADER_SIZE)
        try:
            found = decode_header(header, "messages")
            file = MessageFile(self.directory, number, found.file_id)
            if found.number != number or file.path != path:
                raise Corrupt("the file's header is that of another file")
        except Corrupt as damage:
            problem = Problem(path, 0, size, str(damage))
            if not any(self.files.read(path, 0, size)):
                self.dead.append(path)  # made, and never written to
            elif is_cut_off(header):
                self.cut_off.append(problem)
            else:
                self.aside.append(path)
                self.found.unreadable.append(problem)
            return
        file.size = size
        self.take(file, self.records(file))

    def records(self, file: MessageFile) -> Iterable[tuple[int, int, int]]:
        """Return (id, offset, size) of all readable messages in a file, from its directory or, if
        that is damaged, from its records."""
        listed = read_directory(self.files, file.path, file.file_id, file.size)
        if listed is not None:
            return listed
        self.unsure.append(file.path)
        scanned = scan(self.files.read(file.path, 0, file.size), file.file_id)
        for start, end in scanned.damaged:
            text = "no valid record; what others refer to in there is missing"
            self.found.problems.append(Problem(file.path, start, end, text))
            self.found.damaged_bytes += end - start
            file.damaged = True
        if scanned.torn:
            self.found.damaged_bytes += file.size - scanned.end
        return [
            (record.sequence, record.offset, record.end - record.offset)
            for record in scanned.records
            if record.type == MESSAGE
        ]

    def take(self, file: MessageFile, records: Iterable[tuple[int, int, int]]) -> None:
        """Put those of the records that are referred to into the index; of several copies the first
        counts."""
        found = self.found
        references = self.references
        places: dict[int, tuple[int, int]] = {}
        for message_id, offset, size in records:
            found.highest_id = max(found.highest_id, message_id)
            if message_id in references:
                places[message_id] = (offset, size)
        known = self.index.get_many(list(places))
        ids = [message_id for message_id, entry in zip(places, known, strict=True) if not entry]
        if ids:
            self.index.put_many(
                ids,
                [entry_of(references[each], file.number, *places[each]) for each in ids],
            )
            file.ids = array("Q", ids)
            file.valid = sum(places[each][1] for each in ids)
            found.table[file.number] = file
        else:
            (self.aside if file.damaged else self.dead).append(file.path)
        # The scan found these whole: they can be copied.
        file.damaged = False
