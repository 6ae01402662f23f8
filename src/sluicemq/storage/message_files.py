"""The message store's files of one kind: they have one copy of each large message for all queues.

    write --> buffer --take_job--> flying --finished--> index --remove--> garbage --> compaction
                 |
                 `--remove--> never written (overtaken)

The code is pure: it returns jobs for all work on files, and the caller returns each to a method
here when it has succeeded; one that failed for lack of space may be submitted again as it is. It
has RabbitMQ's rules (write, remove, combine) with one difference: a file is never changed, so
nobody has to wait for a compaction.

The broker assigns ids, which grow and are never used twice. The caller must remove an id as often
as it has written it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sluicemq.storage.compaction import Compaction, Deletion, choose, is_wanted
from sluicemq.storage.message_file import Directory, MessageFile
from sluicemq.storage.message_index import (
    ONE,
    PLACE_MASK,
    REFERENCES_SHIFT,
    SIZE_LIMIT,
    MessageIndex,
    entries_of,
    entry_of,
    number_of,
    offset_of,
    size_of,
)
from sluicemq.storage.message_reads import ReadMessages, ReadSpan
from sluicemq.storage.message_recovery import MessageRecovery, Recovered
from sluicemq.storage.message_writes import FilePart, MessageWrites, parts_of
from sluicemq.storage.records import ALIGNMENT, RECORD_HEAD_SIZE

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files

PERSISTENT: Final = "persistent"
TRANSIENT: Final = "transient"


class MessageFiles:
    """The message store's files of one kind, in `messages/<kind>/`; persistent ones are synced.
    `new_file_id` returns 16 random bytes. `problems` collects the problems found since it was last
    emptied."""

    is_vital = True
    """A fault in here ends the node (kernel/containment.py)."""

    def __init__(
        self,
        kind: str,
        index: MessageIndex,
        file_size_limit: int,
        new_file_id: Callable[[], bytes],
    ) -> None:
        self.kind = kind
        self.directory = f"messages/{kind}"
        self.sync = kind == PERSISTENT
        self.index = index
        self.file_size_limit = file_size_limit
        self.new_file_id = new_file_id
        self.problems: list[str] = []
        self.buffer: dict[int, bytes] = {}
        self.flying: dict[int, bytes] = {}
        self.references: dict[int, int] = {}
        """References of messages in `buffer` and `flying`, except where it is 1. Only those in
        `flying` may have 0."""
        self.highest_id = 0
        self.next_number = 0
        self.table: dict[int, MessageFile] = {}
        """The files that the index points to, by number."""
        self.current: MessageFile | None = None
        self.full: list[MessageFile] = []
        """Full files that have no directory yet."""
        self.emptied: list[MessageFile] = []
        """Files that had no live message at some moment."""
        self.doomed: list[MessageFile] = []
        """Files to which nothing points; they are deleted when nobody reads from them any more."""
        self.writes_job: MessageWrites | None = None
        self.compaction_job: Compaction | None = None
        self.deletion_job: Deletion | None = None
        self.total_bytes = 0
        self.valid_bytes = 0
        self.writes = 0
        self.reads = 0
        self.overtaken = 0
        self.deduplicated = 0
        self.compactions = 0
        self.recovery: MessageRecovery | None = None
        """The start, until it ends."""

    # -- write and remove

    def write(self, message_id: int, content: bytes) -> None:
        """Take one message for one more queue; if it is there already, only count the reference."""
        self.write_run(range(message_id, message_id + 1), [content])

    def write_run(self, ids: range, contents: Sequence[bytes]) -> None:
        """Take a run of messages for one more queue, as `write` does; the ids ascend."""
        assert len(ids) == len(contents)
        if not ids:
            return
        if ids[0] > self.highest_id:  # nobody can have written them before
            self.buffer.update(zip(ids, contents, strict=True))
        else:
            for message_id, content in zip(ids, contents, strict=True):
                if message_id in self.buffer or message_id in self.flying:
                    self.references[message_id] = self.references.get(message_id, 1) + 1
                    self.deduplicated += 1
                else:
                    self._write_stored(message_id, content)
        self.highest_id = max(self.highest_id, ids[-1])

    def _write_stored(self, message_id: int, content: bytes) -> None:
        entry = self.index.get(message_id)
        if entry < ONE:
            file = self.table[number_of(entry)] if entry else None
            if file is None or file.combined:
                # What is not alive when files are combined is left behind.
                self.index.delete_many((message_id,))
                self.buffer[message_id] = content
                return
            file.valid += size_of(entry)
            self.valid_bytes += size_of(entry)
        self.index.put(message_id, entry + ONE)
        self.deduplicated += 1

    def remove(self, ids: Iterable[int]) -> None:
        """Remove one reference to each of these messages. Unknown ids are ignored."""
        buffer = self.buffer
        references = self.references
        stored: list[int] = []
        for message_id in ids:
            if message_id in buffer:
                left = references.pop(message_id, 1) - 1
                if left == 0:
                    del buffer[message_id]
                    self.overtaken += 1
                elif left > 1:
                    references[message_id] = left
            elif message_id in self.flying:
                left = references.get(message_id, 1)
                references[message_id] = max(0, left - 1)
            else:
                stored.append(message_id)
        if len(set(stored)) == len(stored):
            self._remove_stored(stored)
        else:
            for message_id in stored:
                self._remove_stored([message_id])

    def _remove_stored(self, ids: list[int]) -> None:
        table = self.table
        known: list[int] = []
        entries: list[int] = []
        for message_id, entry in zip(ids, self.index.get_many(ids), strict=True):
            if entry < ONE:
                continue
            known.append(message_id)
            entries.append(entry - ONE)
            if entry < 2 * ONE:
                self._lose(table[number_of(entry)], size_of(entry))
        self.index.put_many(known, entries)

    def _lose(self, file: MessageFile, size: int) -> None:
        """Count this many bytes of the file as garbage."""
        file.valid -= size
        self.valid_bytes -= size
        if file.valid == 0:
            self.emptied.append(file)

    # -- writing buffered messages

    def take_job(self, ids: Iterable[int] | None = None) -> MessageWrites | None:
        """Return the job that writes messages buffered since the last one: those with these ids, or
        all with None. Returns None when there are none or the last job is not over."""
        if self.writes_job is not None or not self.buffer:
            return None
        if ids is None:
            contents, self.buffer = self.buffer, {}
        else:
            buffer = self.buffer
            contents = {each: buffer.pop(each) for each in ids if each in buffer}
        if not contents:
            return None
        self.flying = contents
        assert max(map(len, contents.values())) + RECORD_HEAD_SIZE + ALIGNMENT < SIZE_LIMIT
        if self.current is not None and self.current.size >= self.file_size_limit:
            self.full.append(self.current)
            self.current = None
        parts = parts_of(contents, self.current, self.file_size_limit, self._new_file)
        full = [(file, self._contents_of(file)) for file in self.full if not file.combined]
        self.full = [part.file for part in parts[:-1]]
        self.current = parts[-1].file
        for file in (*(part.file for part in parts), *(file for file, _ in full)):
            file.busy = True
        self.writes_job = MessageWrites(self.directory, self.sync, contents, parts, full)
        return self.writes_job

    def _new_file(self) -> MessageFile:
        file = MessageFile(self.directory, self.next_number, self.new_file_id())
        self.next_number += 1
        return file

    def _contents_of(self, file: MessageFile) -> Directory:
        """Return all records of a file; garbage may be referred to again."""
        listed = self._entries_in(file)
        return Directory(
            [message_id for message_id, _ in listed],
            [offset_of(entry) for _, entry in listed],
            [size_of(entry) for _, entry in listed],
        )

    def _entries_in(self, file: MessageFile) -> list[tuple[int, int]]:
        """Return (id, entry) of all records of a file to which the index points."""
        number = file.number
        return [
            (message_id, entry)
            for message_id, entry in zip(file.ids, self.index.get_many(file.ids), strict=True)
            if entry and number_of(entry) == number
        ]

    def finished(self, job: MessageWrites) -> None:
        """Point the index to the records written by a job of `take_job`, because the job has
        succeeded."""
        assert job is self.writes_job
        for file, directory in job.full:
            file.busy = False
            file.size += directory.size()
            self.total_bytes += directory.size()
        self.flying = {}
        self.writes_job = None
        for part in job.parts:
            self._written(part)
        self.writes += len(job.contents)
        assert 0 <= self.valid_bytes <= self.total_bytes, "more bytes are needed than there are"

    def _written(self, part: FilePart) -> None:
        file = part.file
        assert part.start == file.size, "a part that is not at the end of its file"
        sizes = part.sizes()
        entries = entries_of(file.number, part.offsets, sizes)
        dead = 0
        if self.references:
            for at in range(len(entries)):
                references = self.references.pop(part.ids[at], 1)
                entries[at] += (references - 1) * ONE
                if references == 0:
                    dead += sizes[at]
        self.index.put_many(part.ids, entries)
        file.ids.extend(part.ids)
        file.busy = False
        file.size = part.end
        valid = sum(sizes) - dead
        file.valid += valid
        self.valid_bytes += valid
        self.total_bytes += part.end - part.start
        self.table[file.number] = file
        if file.valid == 0:
            self.emptied.append(file)

    # -- reading

    def find(self, ids: Iterable[int]) -> tuple[dict[int, bytes], ReadMessages | None]:
        """Return the contents that are in memory, and a job that reads all others; None without
        others."""
        contents: dict[int, bytes] = {}
        stored: list[int] = []
        for message_id in ids:
            content = self.buffer.get(message_id)
            if content is None:
                content = self.flying.get(message_id)
            if content is None:
                stored.append(message_id)
            else:
                contents[message_id] = content
        if not stored:
            return contents, None
        entries = self.index.get_many(stored)
        unknown = [each for each, entry in zip(stored, entries, strict=True) if not entry]
        wanted = [each for each in zip(stored, entries, strict=True) if each[1]]
        table = {number: self.table[number] for number in {number_of(each[1]) for each in wanted}}
        for file in table.values():
            file.readers += 1
        self.reads += len(wanted)
        return contents, ReadMessages(wanted, table, unknown)

    def done_reading(self, job: ReadMessages) -> None:
        """Note that the job will not read any more, whether it has succeeded, failed, or never ran,
        and note the damage that it has met."""
        for file in job.table.values():
            file.readers -= 1
            assert file.readers >= 0
        for span in job.damage:
            span.file.damaged = True
            self.problems.append(span.problem)

    # -- garbage

    def compaction(self) -> Compaction | Deletion | None:
        """Return the next job about garbage, or None. Call it after each remove, write or read
        until it returns None. At most one job of each kind is under way."""
        self._doom_emptied()
        if self.deletion_job is None:
            free = [file for file in self.doomed if not file.readers]
            if free:
                self.doomed = [file for file in self.doomed if file.readers]
                self.deletion_job = Deletion(self.directory, free)
                return self.deletion_job
        wanted = is_wanted(
            len(self.table), self.total_bytes, self.valid_bytes, self.file_size_limit
        )
        if self.compaction_job is None and wanted:
            pair = choose(
                [file for file in self.table.values() if self._is_settled(file)],
                self.file_size_limit,
            )
            if pair is not None:
                return self._combine(*pair)
        return None

    def _is_settled(self, file: MessageFile) -> bool:
        return not (file is self.current or file.busy or file.combined or file.damaged)

    def _doom_emptied(self) -> None:
        emptied = self.emptied
        self.emptied = []
        for file in emptied:
            if file.valid or file.combined or self.table.get(file.number) is not file:
                continue
            if file.busy or file is self.current:
                self.emptied.append(file)
            else:
                self._doom(file)

    def _doom(self, file: MessageFile) -> None:
        """Mark a file to which nothing may point any more."""
        self.index.delete_many([message_id for message_id, _ in self._entries_in(file)])
        del self.table[file.number]
        self.total_bytes -= file.size
        self.valid_bytes -= file.valid
        file.ids = array("Q")
        self.full = [each for each in self.full if each is not file]
        self.doomed.append(file)

    def _combine(self, left: MessageFile, right: MessageFile) -> Compaction:
        wanted = [
            each for file in (left, right) for each in self._entries_in(file) if each[1] >= ONE
        ]
        left.combined = right.combined = True
        target = self._new_file()
        self.compaction_job = Compaction(self.directory, self.sync, target, (left, right), wanted)
        return self.compaction_job

    def compacted(self, job: Compaction | Deletion) -> Compaction | None:
        """Note that a job of `compaction` has succeeded, and return the job to submit next: the
        same one when its copy is not complete, else None."""
        if isinstance(job, Deletion):
            assert job is self.deletion_job
            self.deletion_job = None
            return None
        assert job is self.compaction_job
        if job.damaged is not None:
            self._give_up(job, job.damaged)
        elif job.is_complete:
            self._move(job)
        else:
            return job
        self.compaction_job = None
        return None

    def _give_up(self, job: Compaction, damage: ReadSpan) -> None:
        """End a compaction because of damage: all readable records stay where they are."""
        self.problems.append(damage.problem)
        damage.file.damaged = True
        for file in job.sources:
            file.combined = False
            if file.valid == 0:
                self.emptied.append(file)
        self.doomed.append(job.target)

    def _move(self, job: Compaction) -> None:
        """Point the index to the durable copies, unless it no longer points to the originals."""
        target = job.target
        ids: list[int] = []
        entries: list[int] = []
        now = self.index.get_many([each for each, _, _ in job.moved])
        for (message_id, was, offset), entry in zip(job.moved, now, strict=True):
            if (entry ^ was) & PLACE_MASK:
                continue  # written anew meanwhile
            size = size_of(entry)
            references = entry >> REFERENCES_SHIFT
            ids.append(message_id)
            entries.append(entry_of(references, target.number, offset, size))
            if references:
                target.valid += size
        self.index.put_many(ids, entries)
        target.ids = array("Q", ids)
        target.size = job.end + job.contents().size()
        self.total_bytes += target.size
        self.valid_bytes += target.valid
        self.table[target.number] = target
        if target.valid == 0:
            self.emptied.append(target)
        assert target.valid == sum(file.valid for file in job.sources), "a message was left behind"
        for file in job.sources:
            self._doom(file)
        assert 0 <= self.valid_bytes <= self.total_bytes, "more bytes are needed than there are"
        self.compactions += 1

    # -- the start

    def recover(self, files: Files, references: Mapping[int, int]) -> Recovered:
        """Find the messages that `references` names, with the number of queues that refer to each;
        all others are garbage. It blocks, and is called once, before anything else. Raises
        DiskFailed."""
        found = self.look(files, references)
        self.make_durable(files)
        self.tidy()
        return found

    def look(
        self, files: Files, references: Mapping[int, int], given_up: tuple[str, ...] = ()
    ) -> Recovered:
        """Do the first part of `recover`, which writes nothing and may be repeated; `make_durable`
        and `tidy` must follow. With an error of `given_up` a file is lost; any other raises
        DiskFailed."""
        self.index.clear()
        self.recovery = MessageRecovery(files, self.directory, self.index, references, given_up)
        found = self.recovery.look()
        self.table = found.table
        self.total_bytes = sum(file.size for file in self.table.values())
        self.valid_bytes = sum(file.valid for file in self.table.values())
        self.highest_id = max(found.highest_id, max(references, default=0))
        self.next_number = found.highest_number + 1
        return found

    def make_durable(self, files: Files) -> None:
        """Make sure that everything `look` has found will be found again. Raises DiskFailed."""
        assert self.recovery is not None
        files.make_directory(self.directory)
        self.recovery.make_durable()

    def tidy(self, keep: bool = False) -> None:
        """Delete useless files, once it is durable that nobody refers to them; with `keep` they are
        put aside instead. Raises DiskFailed."""
        assert self.recovery is not None
        self.recovery.tidy(keep)
        self.recovery = None

    def wipe(self, files: Files) -> None:
        """Delete all files and begin empty, in place of `recover`. Raises DiskFailed."""
        files.delete_tree(self.directory)
        files.make_directory(self.directory)
        self.index.clear()

    # -- figures

    def figures(self) -> dict[str, int]:
        """Return the figures for status and metrics; bytes are those of files and of
        whole records.
        """
        dying = self.doomed + (self.deletion_job.doomed if self.deletion_job else [])
        return {
            "files": len(self.table) + len(dying),
            "messages": self.index.count() + len(self.buffer) + len(self.flying),
            "bytes": self.total_bytes + sum(file.size for file in dying),
            "valid_bytes": self.valid_bytes,
            "garbage_bytes": self.total_bytes - self.valid_bytes,
            "writes": self.writes,
            "reads": self.reads,
            "overtaken": self.overtaken,
            "deduplicated": self.deduplicated,
            "compactions": self.compactions,
        }
