"""From a data directory to a state: the newest checkpoint, then the journal behind it.

Nothing old is deleted before a new checkpoint is durable, so a recovery that is cut off can begin
again. Messages that only the journal has are written to the segments of their queues: afterwards
every message is in a queue index, and the journal begins anew. Segments are not read, except for
blocks that refer to the message store, whose reference counts are taken from there (spec 6.8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sluicemq.errors import Corrupt, Refused
from sluicemq.kernel.disk import Files
from sluicemq.model.durable import DurableDefinitions
from sluicemq.storage.bits import bits_of
from sluicemq.storage.checkpoint import (
    DIRECTORY as CHECKPOINT,
)
from sluicemq.storage.checkpoint import (
    KEPT,
    Checkpoint,
    QueueState,
    SegmentState,
    read_newest,
    write_checkpoint,
)
from sluicemq.storage.entries import Ack, Definition, Delivered, Entry, QueueDeleted, Run
from sluicemq.storage.journal import (
    DIRECTORY as JOURNAL,
)
from sluicemq.storage.journal import (
    Replay,
    journal_numbers,
    journal_path,
)
from sluicemq.storage.message_files import MessageFiles
from sluicemq.storage.positions import Mark, priority_at
from sluicemq.storage.queue_index import QUARANTINE, IndexRead, QueueIndex, picked
from sluicemq.storage.records import FILE_HEADER_SIZE, decode_header

QUEUES: Final = "queues"
TRANSIENT_QUEUES: Final = "transient"
RESERVE: Final = "reserve"
"""A file that is given up when the disk is full (chain/reserve.py)."""
READ_BYTES: Final = 1 << 30
PROGRESS_EVERY: Final = 1000
"""Queues between two lines about the progress."""


def queue_directory(queue_id: int, durable: bool) -> str:
    """Where the index of a queue is."""
    return f"{QUEUES if durable else TRANSIENT_QUEUES}/{queue_id}"


class RecoveredQueue:
    """A queue as it was left."""

    def __init__(self, index: QueueIndex) -> None:
        self.index = index
        self.next_position = 0
        self.delivered = 0
        self.higher: dict[int, Mark] = {}
        """Of each priority above 0 that has had messages."""
        self.size = 0
        self.expiring = False
        """Some of its messages may expire."""
        self.runs: list[Run] = []
        """Of the journal; some of their messages may be acknowledged or in segments."""
        self.gone: list[int] = []
        """Segments of the checkpoint whose files are not there."""
        self.alive: dict[int, int] = {}
        """Bits, by segment: published in the journal and not acknowledged there."""

    def given(self, position: int) -> None:
        """This one is not for a new message."""
        priority = priority_at(position)
        if not priority:
            self.next_position = max(self.next_position, position + 1)
            return
        mark = self.higher.get(priority, Mark(0, 0, 0))
        self.higher[priority] = mark._replace(next=max(mark.next, position + 1))

    def all_delivered(self) -> None:
        """For all that is known."""
        self.delivered = self.next_position
        for priority, mark in self.higher.items():
            self.higher[priority] = mark._replace(delivered=mark.next)

    def weigh(self, run: Run) -> None:
        """Its bytes count."""
        size = sum(run.sizes)
        self.size += size
        mark = self.higher.get(priority_at(run.first))
        if mark is not None:
            self.higher[mark.priority] = mark._replace(size=mark.size + size)

    def marks(self) -> list[Mark]:
        """That of priority 0 first."""
        higher = [*self.higher.values()]
        rest = max(0, self.size - sum(mark.size for mark in higher))
        return [Mark(self.next_position, self.delivered, rest), *higher]


class Recovery:
    """One start. `say` takes lines for the log: (level, text)."""

    def __init__(
        self,
        files: Files,
        entry_count: int,
        new_file_id: Callable[[], bytes],
        say: Callable[[str, str], None],
    ) -> None:
        self.files = files
        self.entry_count = entry_count
        self.new_file_id = new_file_id
        self.say = say
        self.queues: dict[int, RecoveredQueue] = {}
        self.definitions = DurableDefinitions()
        self.clean = True
        self.is_new = True
        self.checkpoint_number = 0
        self.journal_number = 1
        self.next_message_id = 1
        self.next_queue_id = 1
        self.node_id = b""
        self.deleted: set[int] = set()

    def run(
        self,
        persistent: MessageFiles,
        transient: MessageFiles,
        begin: Callable[[DurableDefinitions], None] = lambda _: None,
    ) -> None:
        """All of it. `begin` adds what is to be there from the beginning. Refused: a newer version
        wrote this, or too much of it is lost."""
        files = self.files
        files.delete(RESERVE)  # there may be no other space for what is written here
        files.delete_tree(TRANSIENT_QUEUES)
        transient.wipe(files)
        checkpoint, problems = read_newest(files)
        self.warn(problems)
        numbers = journal_numbers(files)
        if checkpoint is not None:
            files.sync_directory(CHECKPOINT)  # what is done from here on counts on it
            self.start_from(checkpoint, numbers)
        elif problems:
            raise Refused(f"no checkpoint can be read: {'; '.join(problems)}")
        else:
            self.node_id = self.new_file_id()
        self.replay([number for number in numbers if number >= self.journal_number])
        self.match_definitions()
        begin(self.definitions)
        self.write_back()
        self.count_references(persistent)
        self.drop_unknown()
        self.journal_number = max([self.journal_number, *numbers], default=0) + 1
        for _ in range(KEPT):  # each must do without the journal that goes now
            self.checkpoint_number += 1
            write_checkpoint(files, self.checkpoint(clean=False))
        for number in numbers:
            files.delete(journal_path(number))
        if numbers:
            files.sync_directory(JOURNAL)

    def warn(self, problems: list[str]) -> None:
        for problem in problems:
            self.say("error", f"recovery: {problem}")

    # -- the checkpoint

    def start_from(self, checkpoint: Checkpoint, numbers: list[int]) -> None:
        """The state as of the checkpoint."""
        self.is_new = False
        self.checkpoint_number = checkpoint.number
        self.node_id = checkpoint.node_id
        self.definitions = DurableDefinitions(checkpoint.definitions)
        self.next_message_id = checkpoint.next_message_id
        self.next_queue_id = checkpoint.next_queue_id
        if self.entry_count != checkpoint.segment_entry_count:
            self.entry_count = checkpoint.segment_entry_count
            text = f"segments have {self.entry_count} entries here, whatever the configuration says"
            self.say("warning", text)
        self.journal_number = checkpoint.journal_first
        behind = [number for number in numbers if number >= checkpoint.journal_first]
        if behind and behind[0] != checkpoint.journal_first:
            missing = journal_path(checkpoint.journal_first)
            raise Refused(f"{missing} is missing, which checkpoint {checkpoint.number} needs")
        self.clean = checkpoint.clean and not behind
        for state in checkpoint.queues:
            self.adopt(state)

    def adopt(self, state: QueueState) -> None:
        """A queue of the checkpoint; its segments are cut to what was durable then."""
        queue = self.queue(state.id)
        queue.next_position = state.next_position
        queue.delivered = state.delivered
        queue.higher = {mark.priority: mark for mark in state.marks}
        queue.size = state.size
        for segment in state.segments:
            queue.index.adopt(segment)
            path = queue.index.segments[segment.number].path
            size = self.files.size(path)
            if not self.is_same(path, segment):
                queue.gone.append(segment.number)
            elif size > segment.length:
                self.files.truncate(path, segment.length)
            elif size < segment.length:
                text = f"{path} has {max(size, 0)} of {segment.length} bytes"
                self.say("error", f"recovery: {text}; what is missing is lost")

    def is_same(self, path: str, segment: SegmentState) -> bool:
        """Is this the file that the checkpoint means? When nothing in it was alive any more it was
        deleted, and there may be another one in its place."""
        head = self.files.read(path, 0, FILE_HEADER_SIZE) if self.files.size(path) > 0 else b""
        try:
            return decode_header(head, "segment").file_id == segment.file_id
        except Corrupt:
            return False

    def renew(self, queue: RecoveredQueue) -> None:
        """Segments that are gone begin anew. The journal has all that was in a newer file, and that
        everything in the old one was acknowledged."""
        for number in queue.gone:
            segment = queue.index.segments[number]
            if segment.live:
                text = f"{segment.path} is missing, {segment.live.bit_count()} messages are lost"
                self.say("error", f"recovery: {text}")
            self.files.delete(segment.path)
            del queue.index.segments[number]

    def queue(self, queue_id: int) -> RecoveredQueue:
        """The queue of that id; a new one has nothing."""
        known = self.queues.get(queue_id)
        if known is None:
            directory = queue_directory(queue_id, durable=True)
            index = QueueIndex(queue_id, directory, self.entry_count, self.new_file_id)
            known = self.queues[queue_id] = RecoveredQueue(index)
        return known

    # -- the journal

    def replay(self, numbers: list[int]) -> None:
        """Entries in the order in which they were written."""
        if numbers:  # after a kill the last group may not be on the disk yet: first it must be
            self.files.sync(journal_path(numbers[-1]))
            self.files.sync_directory(JOURNAL)
        expected = 0
        for before, number in zip([None, *numbers], numbers, strict=False):
            found = Replay(self.files, number)
            if before is not None and number != before + 1:
                found.problems.append(f"{found.path}: the files before it are missing")
            for sequence in found.sequences:
                if expected and sequence != expected:
                    text = f"groups {expected} to {sequence - 1} are missing"
                    found.problems.append(f"{found.path}: {text}")
                expected = sequence + 1
            if found.torn and number != numbers[-1]:
                found.problems.append(f"{found.path}: its end is damaged")
            elif found.torn:
                self.say("info", f"recovery: {found.path}: the last group was never finished")
            if found.problems:
                self.warn(found.problems)
                self.put_aside(found.path)
            for entry in found.entries:
                self.apply(entry)

    def put_aside(self, path: str) -> None:
        """A copy for whoever wants to look at it."""
        self.files.make_directory(QUARANTINE)
        copy = f"{QUARANTINE}/{path.replace('/', '-')}"
        self.files.write(copy, 0, self.files.read(path, 0, self.files.size(path)))
        self.files.sync(copy)
        self.say("error", f"recovery: {path} was damaged; a copy is {copy}")

    def apply(self, entry: Entry) -> None:
        if isinstance(entry, Run):
            self.published(entry)
        elif isinstance(entry, Ack):
            if entry.queue not in self.deleted:
                queue = self.queue(entry.queue)
                for positions in entry.ranges:
                    self.acknowledged(queue, positions)
        elif isinstance(entry, Delivered):
            if entry.queue not in self.deleted:
                queue = self.queue(entry.queue)
                if not priority_at(entry.position):
                    queue.delivered = max(queue.delivered, entry.position)
        elif isinstance(entry, Definition):
            self.definitions.apply(entry.change)
        else:
            assert isinstance(entry, QueueDeleted)
            self.deleted.add(entry.queue)
            self.definitions.delete_queue(entry.queue)
            self.queues.pop(entry.queue, None)

    def published(self, run: Run) -> None:
        if run.queue in self.deleted:
            return
        queue = self.queue(run.queue)
        queue.runs.append(run)
        positions = run.positions
        for number, part in queue.index.parts(positions):
            bits = bits_of(part, number * self.entry_count)
            queue.alive[number] = queue.alive.get(number, 0) | bits
        queue.given(positions[-1])
        self.next_queue_id = max(self.next_queue_id, run.queue + 1)
        if run.contents is None:
            self.next_message_id = max(self.next_message_id, run.ids[-1] + 1)

    def acknowledged(self, queue: RecoveredQueue, positions: range) -> None:
        queue.index.acknowledge(positions)
        for number, part in queue.index.parts(positions):
            if number in queue.alive:
                queue.alive[number] &= ~bits_of(part, number * self.entry_count)
        queue.given(positions[-1])

    def match_definitions(self) -> None:
        """What is defined is there, and nothing else."""
        self.definitions.drop_loose_bindings()
        defined = self.definitions.queues
        self.queues = {key: queue for key, queue in self.queues.items() if key in defined}
        for key in defined:
            queue = self.queue(key)
            self.next_queue_id = max(self.next_queue_id, key + 1)
            if not self.clean:
                queue.all_delivered()  # who knows what was

    # -- to the segments

    def write_back(self) -> None:
        """What only the journal has goes to segments, durably."""
        for done, queue in enumerate(self.queues.values()):
            self.renew(queue)
            if done and not done % PROGRESS_EVERY:
                self.say("info", f"recovery: {done} of {len(self.queues)} queues")
            runs = [part for run in queue.runs for part in self.unwritten(queue, run)]
            queue.runs = []
            queue.alive = {}
            if runs:
                for run in runs:
                    queue.weigh(run)
                job = queue.index.write(runs)
                job.run(self.files)
                queue.index.wrote(job)
            dirty = queue.index.take_dirty()
            for path in dirty:
                self.files.sync(path)
            if dirty:
                self.files.sync_directory(queue.index.directory)

    def unwritten(self, queue: RecoveredQueue, run: Run) -> list[Run]:
        """The parts of a run that are alive and not in a segment; each position once."""
        parts: list[Run] = []
        offset = 0
        for number, part in queue.index.parts(run.positions):
            base = number * self.entry_count
            segment = queue.index.segments.get(number)
            wanted = queue.alive.get(number, 0) & bits_of(part, base)
            if segment is not None:
                wanted &= ~segment.live
            if wanted:
                queue.alive[number] &= ~wanted
                parts += picked([run.part(offset, offset + len(part))], wanted, base)
            offset += len(part)
        return parts

    # -- the message store

    def count_references(self, persistent: MessageFiles) -> None:
        """How many queues refer to each body; those that nobody has any more are reported, and
        the messages are gone."""
        counts: dict[int, int] = {}
        where: list[tuple[RecoveredQueue, Run]] = []
        for queue in self.queues.values():
            for run in self.references_of(queue):
                where.append((queue, run))
                for message_id in run.ids:
                    counts[message_id] = counts.get(message_id, 0) + 1
        found = persistent.recover(self.files, counts)
        self.warn([f"{each.path}: {each.text}" for each in found.problems])
        highest = max(persistent.highest_id, found.highest_id)
        self.next_message_id = max(self.next_message_id, highest + 1)
        missing = set(found.missing)
        if missing:
            self.say("error", f"recovery: {len(missing)} messages have no body and are dropped")
            for queue, run in where:
                for position, message_id in zip(run.positions, run.ids, strict=True):
                    if message_id in missing:
                        queue.index.acknowledge(range(position, position + 1))

    def references_of(self, queue: RecoveredQueue) -> list[Run]:
        """Entries of live messages whose bodies are in the message store."""
        found: list[Run] = []
        for segment in list(queue.index.segments.values()):
            if not segment.live:
                continue
            base = segment.number * self.entry_count
            end = base + self.entry_count
            job = IndexRead(segment, base, end, READ_BYTES, keep_bodies=False)
            job.run(self.files)
            segment.places = job.places
            queue.expiring |= any(place.has_expiry for place in job.places)
            self.warn(job.damaged)
            runs = [run for run in job.runs if run.contents is None]
            found += picked(runs, segment.live, base)
        return found

    # -- the end

    def drop_unknown(self) -> None:
        """Directories of queues that are no more."""
        for name in self.files.names(QUEUES):
            if not name.isdigit() or int(name) not in self.queues:
                self.files.delete_tree(f"{QUEUES}/{name}")
        for queue in self.queues.values():
            known = {segment.path for segment in queue.index.segments.values()}
            for name in self.files.names(queue.index.directory):
                path = f"{queue.index.directory}/{name}"
                if path not in known:
                    self.files.delete(path)
            for path in queue.index.collect(queue.index.empty()):
                self.files.delete(path)

    def checkpoint(self, clean: bool) -> Checkpoint:
        """The state now."""
        states = [
            QueueState(
                queue.index.queue_id,
                queue.next_position,
                queue.delivered,
                queue.index.states(),
                queue.size,
                [*queue.higher.values()],
            )
            for queue in self.queues.values()
        ]
        return Checkpoint(
            self.checkpoint_number,
            clean,
            self.journal_number,
            self.next_message_id,
            self.next_queue_id,
            self.node_id,
            self.definitions.encode(),
            states,
            self.entry_count,
        )
