"""Checks that a data directory has everything it should have. It changes nothing, and reads
everything.

This repeats the work of a start (`recovery`) with its own code and without mending anything: it
looks for every message that is alive according to the newest checkpoint and the journal behind it,
position by position. It also checks everything else it reads, alive or not. It asks a start for its
own verdict, so that both agree on whether a start will succeed.
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.errors import Corrupt, DiskFailed, Refused
from sluicemq.kernel.disk import Files
from sluicemq.metadata.proposals import DEFINITIONS_GROUP
from sluicemq.metadata.tables import DurableTables
from sluicemq.storage.audit import UNREADABLE
from sluicemq.storage.bits import bits_of, ranges_of
from sluicemq.storage.checkpoint import DIRECTORY as CHECKPOINTS
from sluicemq.storage.checkpoint import (
    UNFINISHED,
    Checkpoint,
    QueueState,
    decode_checkpoint,
    files_in,
    numbered,
    read_newest,
)
from sluicemq.storage.entries import (
    Ack,
    Definition,
    Entry,
    QueueDeleted,
    Run,
    StreamFiles,
    decode_entries,
)
from sluicemq.storage.inspection import range_text
from sluicemq.storage.journal import is_unfinished, journal_numbers, journal_path
from sluicemq.storage.manifest import PATH as MANIFEST_PATH
from sluicemq.storage.manifest import read_manifest
from sluicemq.storage.message_file import decode_directory, number_in
from sluicemq.storage.message_files import PERSISTENT, MessageFiles
from sluicemq.storage.message_index import DictIndex
from sluicemq.storage.quarantine import EXTENSION, told
from sluicemq.storage.queue_index import QueueIndex
from sluicemq.storage.raft.agreed_definitions import agreed_definitions
from sluicemq.storage.raft.audit import RaftAudit
from sluicemq.storage.raft.codec import RaftRecord
from sluicemq.storage.raft.group_state import decode_raft_group
from sluicemq.storage.raft.groups import RaftGroups
from sluicemq.storage.raft.segment_file import raft_directory
from sluicemq.storage.records import (
    DIRECTORY,
    FILE_HEADER_SIZE,
    FILE_ID_SIZE,
    GROUP,
    MESSAGE,
    SEAL,
    decode_header,
    scan,
)
from sluicemq.storage.recovery import Recovery
from sluicemq.storage.segments import read_block, scan_places, segment_path
from sluicemq.storage.stream_check import StreamCheck

if TYPE_CHECKING:
    from sluicemq.storage.audit import Loss
    from sluicemq.storage.checkpoint import SegmentState
    from sluicemq.storage.manifest import Manifest
    from sluicemq.storage.records import FileHeader, Record, Scan

QUEUES: Final = "queues"
MESSAGES: Final = "messages/persistent"
QUARANTINE: Final = "quarantine"

RANGES_SHOWN: Final = 8


class Finding(NamedTuple):
    """A statement about a file, or about the directory `path`."""

    path: str
    text: str


class Verdict:
    """The result of a check. `findings` mean that something is lost or damaged, `notes` do not.
    `losses` are those from which a start does not go on unless told to. `counted` says how much was
    checked."""

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self.findings: list[Finding] = []
        self.notes: list[Finding] = []
        self.counted: dict[str, int] = dict.fromkeys(
            (
                "journal_files",
                "groups",
                "queues",
                "segments",
                "blocks",
                "message_files",
                "messages",
                "live_messages",
                "streams",
                "stream_segments",
                "chunks",
                "raft_groups",
                "raft_segments",
                "raft_entries",
            ),
            0,
        )


class Unchanged(Files):
    """Files that can only be read. A recovery that tries to keep a copy gets DiskFailed (EROFS)."""

    def __init__(self, files: Files) -> None:
        self.names = files.names  # type: ignore[method-assign]
        self.size = files.size  # type: ignore[method-assign]
        self.is_directory = files.is_directory  # type: ignore[method-assign]
        self.read = files.read  # type: ignore[method-assign]

    def make_directory(self, path: str) -> None:
        raise DiskFailed("make directory", path, "EROFS")


class QueueLook:
    """The knowledge so far about one queue: which positions are alive, and which of them can be
    read."""

    def __init__(self, index: QueueIndex) -> None:
        self.index = index
        self.segments: dict[int, SegmentState] = {}
        self.live: dict[int, int] = {}
        """Bits, by segment, of positions that are not acknowledged."""
        self.promised: dict[int, int] = {}
        """Those of them that are in the segment's file according to the checkpoint."""
        self.readable: dict[int, int] = {}
        """Bits of positions found in the journal, or in a block of a segment."""
        self.references: list[tuple[range, range]] = []
        """(positions, ids) of messages that refer to the message store."""

    def adopt(self, state: QueueState) -> None:
        """Begin with the segments and live positions in a checkpoint."""
        for segment in state.segments:
            self.segments[segment.number] = segment
            self.live[segment.number] = self.promised[segment.number] = segment.live

    def found(self, run: Run) -> None:
        """Note that these messages can be read."""
        for number, part in self.index.parts(run.positions):
            bits = bits_of(part, number * self.index.entry_count)
            self.readable[number] = self.readable.get(number, 0) | bits
        if run.contents is None:
            self.references.append((run.positions, run.ids))

    def published(self, run: Run) -> None:
        """Note that the journal has these messages: they are alive, and can be read."""
        self.found(run)
        for number, part in self.index.parts(run.positions):
            bits = bits_of(part, number * self.index.entry_count)
            self.live[number] = self.live.get(number, 0) | bits

    def acknowledged(self, positions: range) -> None:
        """Note that the messages at these positions have left the queue."""
        for number, part in self.index.parts(positions):
            left = ~bits_of(part, number * self.index.entry_count)
            self.live[number] = self.live.get(number, 0) & left
            self.promised[number] = self.promised.get(number, 0) & left

    def lost(self) -> list[range]:
        """Return the positions, in order, that are alive but cannot be read anywhere."""
        count = self.index.entry_count
        return [
            positions
            for number, live in sorted(self.live.items())
            for positions in ranges_of(live & ~self.readable.get(number, 0), number * count)
        ]

    def needed(self) -> set[int]:
        """Return the ids of bodies in the message store to which live messages refer."""
        ids: set[int] = set()
        for positions, run_ids in self.references:
            offset = 0
            for number, part in self.index.parts(positions):
                base = number * self.index.entry_count
                live = self.live.get(number, 0)
                some = run_ids[offset : offset + len(part)]
                offset += len(part)
                if live & bits_of(part, base):
                    ids.update(i for p, i in zip(part, some, strict=True) if live >> p - base & 1)
        return ids


class Check:
    """A single check of one data directory; it may be run once."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.verdict = Verdict()
        self.queues: dict[int, QueueLook] = {}
        self.deleted: set[int] = set()
        self.definitions = DurableTables()
        self.entry_count = 0
        self.streams: dict[int, StreamFiles] = {}
        """The known files of streams."""
        self.groups = RaftGroups()
        self.sequence = 0
        """The sequence of the previous group; 0 without one."""

    def run(self) -> Verdict:
        """Check everything in the directory, and return the result. Raises Refused when a newer
        version wrote some of it."""
        checkpoint = self.checkpoint()
        if checkpoint is not None:
            self.adopt(checkpoint)
        self.journal(checkpoint)
        self.raft_groups()
        defined = self.definitions.queues
        self.queues = {key: queue for key, queue in self.queues.items() if key in defined}
        for queue in self.queues.values():
            self.queue(queue)
        self.bodies(self.message_files())
        for key in self.definitions.in_stream_files():
            known = self.streams.get(key)
            StreamCheck(self.files, key, self.finding, self.note, self.count, known).run()
        for name in self.files.names(QUARANTINE):
            self.put_aside(f"{QUARANTINE}/{name}")
        self.ask_the_start()
        return self.verdict

    def put_aside(self, path: str) -> None:
        """Note what a file in the quarantine is. A message's file may have been cut off: then the
        message is still in its queue."""
        if not path.endswith(EXTENSION):
            self.note(path, "was put aside because it was damaged")
            return
        data = self.all_of(path) or b""
        try:
            self.note(path, told(data))
        except Corrupt as error:
            self.note(path, f"a message that was to be set aside cannot be read there: {error}")

    def ask_the_start(self) -> None:
        """Let a start look at the directory without changing it, and add its losses and other log
        lines to the verdict."""
        told: list[tuple[str, str]] = []
        recovery = Recovery(
            Unchanged(self.files),
            self.entry_count or 1,
            lambda: bytes(FILE_ID_SIZE),
            lambda level, text: told.append((level, text)),
            accept_loss=True,
        )
        try:
            recovery.look(MessageFiles(PERSISTENT, DictIndex(), 1, bytes))
        except Corrupt as error:  # nobody can write this: it stops a start, whatever options it has
            told.append(("error", str(error)))
        self.verdict.losses = recovery.losses
        known = {finding.path for finding in self.verdict.findings}
        for loss in recovery.losses:
            if loss.path not in known:
                self.finding(*loss)
        for path in recovery.strays():
            self.note(path, "does not belong to a broker; it stays as it is")
        for level, text in told:
            if level == "error" and not self.verdict.findings:
                path, _, what = text.removeprefix("recovery: ").partition(": ")
                self.finding(path, what)

    def finding(self, path: str, text: str) -> None:
        self.verdict.findings.append(Finding(path, text))

    def note(self, path: str, text: str) -> None:
        self.verdict.notes.append(Finding(path, text))

    def count(self, what: str, more: int = 1) -> None:
        self.verdict.counted[what] += more

    # The checkpoint

    def checkpoint(self) -> Checkpoint | None:
        """Return the current checkpoint, None without one. Damaged ones become findings."""
        checkpoint, problems = read_newest(self.files)
        for problem in problems:
            path, _, text = problem.partition(": ")
            self.finding(path, text)
        names = files_in(self.files)
        for name in names:
            if name.endswith(UNFINISHED):
                self.note(f"{CHECKPOINTS}/{name}", "was not finished")
        for number, name in numbered(names):
            if checkpoint is not None and number < checkpoint.number:
                self.older_checkpoint(f"{CHECKPOINTS}/{name}")
        if checkpoint is None:
            if problems or self.files.names(QUEUES) or self.files.names(MESSAGES):
                self.finding(CHECKPOINTS, "there is no checkpoint that can be read")
            return None
        return checkpoint

    def older_checkpoint(self, path: str) -> None:
        """Check a checkpoint that is kept in case the newest is damaged; its own damage is a
        finding."""
        data = self.all_of(path)
        try:
            decode_checkpoint(data or b"")
        except Corrupt as error:
            self.finding(path, str(error))

    def adopt(self, checkpoint: Checkpoint) -> None:
        """Begin with a checkpoint's definitions, queues and streams."""
        self.entry_count = checkpoint.segment_entry_count
        try:
            self.definitions = DurableTables(checkpoint.definitions)
        except Corrupt as error:
            self.finding(CHECKPOINTS, f"checkpoint {checkpoint.number} has {error}")
        for state in checkpoint.queues:
            self.look(state.id).adopt(state)
        self.streams = {each.queue: each for each in checkpoint.streams}
        for encoded in checkpoint.groups:
            try:
                group = decode_raft_group(encoded)
                self.groups.groups[group.id] = group
            except Corrupt as error:
                self.finding(CHECKPOINTS, f"checkpoint {checkpoint.number} has {error}")

    def look(self, queue: int) -> QueueLook:
        """Return the knowledge about the queue with that id; none yet for a new one."""
        known = self.queues.get(queue)
        if known is None:
            index = QueueIndex(queue, f"{QUEUES}/{queue}", self.entry_count, bytes)
            known = self.queues[queue] = QueueLook(index)
        return known

    # The journal

    def journal(self, checkpoint: Checkpoint | None) -> None:
        """Check all files of the journal that count, in order. Missing ones become findings."""
        found = read_manifest(self.files, checkpoint.node_id if checkpoint else None)
        manifest = found.manifest
        if found.problem:
            self.finding(MANIFEST_PATH, found.problem)
        if found.note:
            self.note(MANIFEST_PATH, found.note)
        numbers = journal_numbers(self.files)
        first = checkpoint.journal_first if checkpoint else min(numbers, default=1)
        behind = [number for number in numbers if number >= first]
        wanted = {*range(first, max(behind, default=first - 1) + 1)}
        if manifest is not None and checkpoint is not None:
            wanted |= {*manifest.expected(first)}
        for number in sorted(wanted.difference(behind)):
            self.finding(journal_path(number), "is missing")
        if checkpoint and checkpoint.clean and behind:
            self.note(journal_path(behind[0]), "is there, though the broker stopped in order")
        for number in behind:
            self.journal_file(number, number == behind[-1], manifest)

    def journal_file(self, number: int, is_last: bool, manifest: Manifest | None) -> None:
        """Check one file of the journal, and apply its groups; a torn end is a finding unless it is
        the last file."""
        path = journal_path(number)
        self.count("journal_files")
        data = self.all_of(path)
        if data is None:
            return
        file_id = manifest.journal_id(number) if manifest is not None else None
        if file_id is None and is_last and is_unfinished(data, number):
            self.note(path, "was made and never written to")
            return
        if file_id and manifest and len(data) < manifest.journal_bytes:
            self.finding(path, f"has {len(data)} of at least {manifest.journal_bytes} bytes")
        header = self.header(path, data, "journal", number)
        if header is not None and file_id not in (None, header.file_id):
            self.finding(path, "is not the file that the manifest means")
        if header is not None:
            file_id = header.file_id
        if file_id is None:
            return
        found = scan(data, file_id)
        is_full = manifest is not None and manifest.is_full(number, found.end)
        self.ranges(path, found, torn_is_fine=is_last or is_full)
        if not found.records and not is_last:
            self.finding(path, "holds no group, though there is a newer file")
        for record in found.records:
            if record.type != SEAL:
                self.group(path, record)

    def group(self, path: str, record: Record) -> None:
        """Apply the entries of one group. A gap between groups, or a senseless group,
        is a finding.
        """
        self.count("groups")
        if self.sequence and record.sequence != self.sequence + 1:
            gap = f"group {record.sequence} follows group {self.sequence}"
            self.finding(path, f"record at {record.offset}: {gap}")
        self.sequence = record.sequence
        try:
            if record.type != GROUP:
                raise Corrupt(f"a record of type {record.type}")
            for entry in decode_entries(record.payload):
                self.apply(entry)
        except Corrupt as error:
            self.finding(path, f"record at {record.offset}: {error}")

    def apply(self, entry: Entry) -> None:
        """Apply one entry of the journal to the knowledge. Raises Corrupt for a senseless change of
        the definitions."""
        if isinstance(entry, Definition):
            self.definitions.apply(entry.change)
        elif isinstance(entry, StreamFiles):
            known = self.streams.get(entry.queue, entry)
            self.streams[entry.queue] = entry.after(known)
        elif isinstance(entry, RaftRecord):
            self.groups.apply(entry)
        elif not self.entry_count or entry.queue in self.deleted:
            return
        elif isinstance(entry, Run):
            self.look(entry.queue).published(entry)
        elif isinstance(entry, Ack):
            look = self.look(entry.queue)
            for positions in entry.ranges:
                look.acknowledged(positions)
        elif isinstance(entry, QueueDeleted):
            self.deleted.add(entry.queue)
            self.definitions.delete_queue(entry.queue)
            self.queues.pop(entry.queue, None)

    # Queues

    def queue(self, queue: QueueLook) -> None:
        """Check all segments of a queue; live messages that still cannot be read then are a
        finding."""
        self.count("queues")
        directory = queue.index.directory
        for number, segment in sorted(queue.segments.items()):
            path = segment_path(directory, number)
            try:
                self.segment(queue, segment, path)
            except DiskFailed as error:
                self.finding(path, str(error))
        self.count("live_messages", sum(live.bit_count() for live in queue.live.values()))
        lost = queue.lost()
        if lost:
            name = self.definitions.queues[queue.index.queue_id].name
            total = sum(map(len, lost))
            shown = ", ".join(map(range_text, lost[:RANGES_SHOWN]))
            more = f" and {len(lost) - RANGES_SHOWN} more ranges" * (len(lost) > RANGES_SHOWN)
            self.finding(
                directory,
                f"{total} live messages of queue {name!r} cannot be read: positions {shown}{more}",
            )

    def segment(self, queue: QueueLook, state: SegmentState, path: str) -> None:
        """Check the file of one segment, as far as the checkpoint counts on it. Raises DiskFailed
        when it cannot be read."""
        live = queue.promised[state.number]
        size = self.files.size(path)
        if size < 0:
            if live:  # otherwise it was deleted after the checkpoint
                self.finding(path, f"is missing, with {live.bit_count()} live messages")
            return
        data = self.files.read(path, 0, FILE_HEADER_SIZE)
        if not live and (len(data) < FILE_HEADER_SIZE or not any(data)):
            return  # it was deleted, and its first write was cut off when it was made anew
        header = self.header(path, data, "segment", state.number)
        if header and (header.file_id, header.queue) != (state.file_id, queue.index.queue_id):
            if live:  # otherwise it was deleted and made anew
                self.finding(path, "is not the file that the checkpoint means")
            return
        self.count("segments")
        if size < state.length:
            self.finding(path, f"has {size} of {state.length} bytes")
        places, damaged = scan_places(self.files, path, state.file_id, state.length)
        for start, end in damaged:
            self.finding(path, f"bytes {start} to {end} are no block")
        first = state.number * self.entry_count
        for place in places:
            self.count("blocks")
            try:
                runs = read_block(self.files, path, state.file_id, place)
                if any(run.first < first or run.queue != queue.index.queue_id for run in runs):
                    raise Corrupt("it belongs to another segment")
            except Corrupt as error:
                self.finding(path, f"block at {place.offset}: {error}")
                continue
            for run in runs:
                queue.found(run)

    # The message store

    def message_files(self) -> set[int]:
        """Check all files of the message store, and return the ids whose bodies can be read."""
        present: set[int] = set()
        for name in self.files.names(MESSAGES):
            number = number_in(name)
            if number is None:
                continue
            path = f"{MESSAGES}/{name}"
            if self.files.is_directory(path):
                self.note(path, "does not belong to a broker; it stays as it is")
                continue
            self.count("message_files")
            data = self.all_of(path)
            if data is None:
                continue
            if not any(data):
                self.note(path, "was made and never written to")
                continue
            header = self.header(path, data, "messages", number)
            if header is not None:
                present.update(self.messages(path, scan(data, header.file_id)))
        return present

    def messages(self, path: str, found: Scan) -> array[int]:
        """Return the ids of the messages in one file; a directory at its end that does not match
        them is a finding."""
        self.ranges(path, found, torn_is_fine=True)
        ids = array("Q")
        places: set[tuple[int, int, int]] = set()
        for record in found.records:
            if record.type == MESSAGE:
                ids.append(record.sequence)
                places.add((record.sequence, record.offset, record.end - record.offset))
            elif record.type == DIRECTORY:
                try:
                    listed = set(decode_directory(record.payload, record.sequence))
                except struct.error as error:
                    self.finding(path, f"its directory does not parse: {error}")
                    continue
                if not listed <= places:
                    text = f"its directory lists {len(listed - places)} messages that are not there"
                    self.finding(path, text)
            else:
                self.finding(path, f"record at {record.offset}: of type {record.type}")
        self.count("messages", len(ids))
        return ids

    def bodies(self, present: set[int]) -> None:
        """Report bodies to which live messages refer and that are not `present`, for each queue."""
        for queue in self.queues.values():
            missing = queue.needed() - present
            if missing:
                name = self.definitions.queues[queue.index.queue_id].name
                some = ", ".join(map(str, sorted(missing)[:RANGES_SHOWN]))
                more = ", …" * (len(missing) > RANGES_SHOWN)
                text = f"{len(missing)} bodies of queue {name!r} are missing: ids {some}{more}"
                self.finding(MESSAGES, text)

    # Raft groups

    def raft_groups(self) -> None:
        """Check the segments of all Raft groups; missing parts of logs are findings. A member that
        earlier damage has silenced is noted."""
        silent = [group for group in self.groups.groups.values() if group.is_amnesiac]
        audit = RaftAudit(
            self.files, self.groups, self.finding, self.damage, UNREADABLE, thorough=True
        )
        audit.look()
        if DEFINITIONS_GROUP in self.groups.groups:
            self.definitions = DurableTables(agreed_definitions(self.groups).encode())
        self.count("raft_groups", len(self.groups.groups))
        self.count("raft_segments", audit.segments)
        self.count("raft_entries", audit.entries)
        for group in silent:
            text = "this node's member has lost something and is silent: remove it, add a new one"
            self.note(raft_directory(group.id), text)
        for path in audit.strangers():
            self.note(path, "no Raft group refers to it; the next start deletes it")

    def damage(self, text: str) -> None:
        """Report a text that begins with the path it is about."""
        path, _, what = text.partition(": ")
        self.finding(path, what)

    # Any file

    def all_of(self, path: str) -> bytes | None:
        """Return the bytes of a whole file; None, with a finding, when it cannot be read."""
        try:
            return self.files.read(path, 0, self.files.size(path))
        except DiskFailed as error:
            self.finding(path, str(error))
            return None

    def header(self, path: str, data: bytes, kind: str, number: int) -> FileHeader | None:
        """Return the header of a file; None, with a finding, when it is not of that kind. Raises
        Refused when a newer version wrote it."""
        try:
            header = decode_header(data, kind)
        except Corrupt as error:
            self.finding(path, str(error))
            return None
        except Refused as refused:
            raise Refused(f"{path}: {refused}") from None
        if header.number != number:
            self.finding(path, f"its header is that of file {header.number}")
        return header

    def ranges(self, path: str, found: Scan, torn_is_fine: bool) -> None:
        """Report the damage in a file. A torn end becomes a note when it is fine, else
        a finding.
        """
        for start, end in found.damaged:
            self.finding(path, f"bytes {start} to {end} hold no valid record, though one follows")
        if found.torn and torn_is_fine:
            self.note(path, f"has a torn tail from byte {found.end} on")
        elif found.torn:
            self.finding(path, f"its end is damaged, from byte {found.end} on")
