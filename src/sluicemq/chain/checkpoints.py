"""Checkpoints: how old journal files become unnecessary.

    rotate   the journal begins file c; files before c - 1 are to go
    flush    queues with something in those files write what is alive and not in a segment yet
    sync     all segment files that were written to, each in the lane of its queue
    wait     until the journal has all that the queues' states know: what has left a queue may have
             made room for something that is only on its way to the journal
    save     the checkpoint says what is durable where
    delete   journal files that neither this checkpoint nor the one before needs

One at a time; when the journal has rotated meanwhile, the next one begins at once. The last one of
a broker's life flushes everything and says that it is clean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.actor import Actor
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.checkpoint import Checkpoint, QueueState, encode_queue_state, write_checkpoint
from sluicemq.storage.journal import DIRECTORY

if TYPE_CHECKING:
    from sluicemq.chain.message_store import MessageStore
    from sluicemq.chain.queue import ClassicShell, Queue
    from sluicemq.storage.entries import StreamFiles
    from sluicemq.storage.recovered_queue import RecoveredQueue

EVERYTHING = 1 << 62
"""A position behind all others."""


class Flush:
    """To a queue: write what is alive below position `upto` into segments; answer `Flushed`."""

    __slots__ = ("upto",)

    def __init__(self, upto: int) -> None:
        self.upto = upto


class Flushed:
    """From a queue: done, or the queue is deleted."""

    __slots__ = ("queue",)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue


class Durable:
    """To the message store, which gives it back to `asker` when all that was posted there before
    is durable. Never, if the storage fails."""

    __slots__ = ("asker",)

    def __init__(self, asker: Actor) -> None:
        self.asker = asker


class SegmentSync(DiskJob):
    """Makes segment files of one queue durable."""

    def __init__(self, directory: str, paths: list[str], lane: int) -> None:
        self.directory = directory
        self.paths = paths
        self.lane = lane

    def run(self, files: Files) -> None:
        for path in self.paths:
            if files.size(path) >= 0:  # it may have been deleted since
                files.sync(path)
        files.sync_directory(self.directory)


class JournalPruned(DiskJob):
    """Deletes files of the journal, the oldest first."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def run(self, files: Files) -> None:
        for path in self.paths:
            files.delete(path)
        if self.paths:
            files.sync_directory(DIRECTORY)


class CheckpointSaved(JournalPruned):
    """Writes a checkpoint, then deletes what it makes unnecessary."""

    def __init__(self, checkpoint: Checkpoint, states: list[bytes], journal: list[str]) -> None:
        super().__init__(journal)
        self.checkpoint = checkpoint
        self.states = states

    def run(self, files: Files) -> None:
        write_checkpoint(files, self.checkpoint, self.states)
        super().run(files)


class Checkpoints(Actor):
    """The procedure, for one message store."""

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store.scheduler)
        self.store = store
        self.number = 0
        self.node_id = b""
        self.count = 0
        self.cut = 0
        """The journal file that the checkpoint under way begins at; 0: none is under way."""
        self.saved_cut = 0
        """That of the last one."""
        self.flushing: dict[Queue, None] = {}
        self.syncing = 0
        """Jobs, and the message store, that a checkpoint whose snapshot was taken waits for."""
        self.touched: dict[ClassicShell, None] = {}
        """Queues that have changed since the last snapshot."""
        self.held: dict[Queue, None] = {}
        """Queues that are being read back after a fault."""
        self.states: dict[int, bytes] = {}
        """Of all durable queues, as of the last snapshot."""
        self.streams: list[StreamFiles] = []
        """Of all streams, as of the last snapshot."""
        self.definitions = b""
        self.closing = False
        self.closed = False

    def touch(self, queue: ClassicShell) -> None:
        """Its state is not what it was at the last snapshot; of a deleted one nothing is said."""
        if not queue.machine.deleted:
            self.touched[queue] = None

    def forget(self, queue: ClassicShell) -> None:
        """It is deleted: the next one says nothing of it."""
        self.touched.pop(queue, None)

    def hold(self, queue: Queue) -> None:
        """Nothing that this queue says of itself is to be believed: no checkpoint is made before it
        has been read back, but for one whose snapshot has been taken."""
        self.held[queue] = None
        if self.flushing:
            self.flushing[queue] = None

    def keep(self, queue: ClassicShell, found: RecoveredQueue) -> None:
        """It was read back and does not change any more."""
        marks = [*found.higher.values()]
        self.states[queue.id] = encode_queue_state(
            QueueState(
                queue.id,
                found.next_position,
                found.delivered,
                found.index.states(),
                found.size,
                marks,
            )
        )

    def release(self, queue: Queue) -> None:
        """It is what checkpoints say, or is deleted. One under way hears `Flushed` besides."""
        self.held.pop(queue, None)

    def rotated(self) -> None:
        """The journal has rotated. Two files stay as they are."""
        store = self.store
        cut = store.journal.number - 1
        if self.cut or store.sealed or cut <= max(self.saved_cut, store.journal.first):
            return
        marks = store.journal.marks_before(cut)
        self._start(cut, {queue: upto for queue, upto in marks.items() if upto})

    def close(self) -> None:
        """The broker stops, and everybody has left: flush everything."""
        self.closing = True
        self.store.group.urgent = True
        self.store.schedule()

    def close_when_idle(self) -> None:
        """At the end of each turn of the store while the broker is closing."""
        store = self.store
        if self.closed:
            return
        if store.sealed:
            self.closed = True
        elif not self.cut and store.commit is None and store.group.is_empty():
            queues = store.broker.durable_queues
            marks = dict.fromkeys(queues, EVERYTHING)
            store.journal.next_file()  # should something come after the snapshot, it is in there
            self._start(store.journal.number, marks)

    def _start(self, cut: int, marks: dict[int, int]) -> None:
        self.cut = cut
        self.flushing.update(dict.fromkeys(self.held))
        for queue_id, upto in marks.items():
            queue = self.store.broker.durable_queues.get(queue_id)
            if queue is not None:
                self.flushing[queue] = None
                queue.post(Flush(upto))
        if not self.flushing:
            self._sync()

    def flushed(self, message: Flushed) -> None:
        """One queue less to wait for."""
        if self.flushing.pop(message.queue, self) is None and not self.flushing:
            self._sync()

    def _sync(self) -> None:
        """Take the snapshot, and make durable what it says."""
        broker = self.store.broker
        for queue in [*self.touched]:
            index = queue.machine.backing.index
            if queue.machine.deleted or not queue.definition.durable:
                continue
            self.states[queue.id] = encode_queue_state(state_of(queue))
            paths = index.take_dirty()
            if paths:
                self.syncing += 1
                self.store.submit(SegmentSync(index.directory, paths, queue.lane))
        self.touched = {}
        self.states = {
            key: state for key, state in self.states.items() if key in broker.durable_queues
        }
        queues = broker.durable_queues.values()
        self.streams = [files for queue in queues if (files := queue.stream_files()) is not None]
        self.definitions = broker.definitions.encode()
        self._leave_out_what_is_saved()
        self.syncing += 1
        self.store.post(Durable(self))

    def _leave_out_what_is_saved(self) -> None:
        """When the broker stops, its streams have written to the journal while they were flushed;
        all of that is in the snapshot, so the journal may go."""
        store = self.store
        journal = store.journal
        idle = store.commit is None and store.group.is_empty()
        is_last = self.closing and self.cut == journal.number
        if is_last and idle and journal.offset and not journal.marks[journal.number]:
            journal.next_file()
            self.cut = journal.number

    def receive(self, message: object) -> None:
        """The journal has what the snapshot knows."""
        assert isinstance(message, Durable)
        self.synced()

    def synced(self) -> None:
        """One thing less to wait for."""
        self.syncing -= 1
        if not self.syncing:
            self._save()

    def make_room(self) -> None:
        """The journal has no space for a group, perhaps the one that a checkpoint waits for. Files
        that would go with that one go before it: the last one does not need them, and the one
        before it is for the case that the last is damaged."""
        if self.cut:
            paths = self.store.journal.files_before(self.saved_cut)
            if paths:
                self.store.submit(JournalPruned(paths))

    def _save(self) -> None:
        store = self.store
        if store.sealed:
            return  # the one before goes on to count
        self.number += 1
        checkpoint = Checkpoint(
            self.number,
            self.closing and self.cut == store.journal.number,
            self.cut,
            store.broker.next_message_id,
            store.broker.next_queue_id,
            self.node_id,
            self.definitions,
            [],
            store.broker.entry_count,
            self.streams,
        )
        paths = store.journal.files_before(self.saved_cut)
        store.submit(CheckpointSaved(checkpoint, list(self.states.values()), paths))

    def saved(self, job: CheckpointSaved) -> None:
        """It counts from now on."""
        self.count += 1
        self.saved_cut = job.checkpoint.journal_first
        self.store.journal.forget_before(self.saved_cut)
        self.cut = 0
        if job.checkpoint.clean:
            self.closed = True
        elif not self.closing:
            self.rotated()


def state_of(queue: ClassicShell) -> QueueState:
    """What a checkpoint says about a queue, when the journal has all that the queue has said."""
    machine = queue.machine
    depth = machine.depth
    mark, *others = machine.marks()
    return QueueState(
        queue.id,
        mark.next,
        mark.delivered,
        machine.backing.index.states(),
        depth.ready_bytes + depth.unacked_bytes,
        others,
    )
