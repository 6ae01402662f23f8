"""Checkpoints: how old journal files become unnecessary.

    rotate   the journal begins file c; files before c - 1 are to be deleted
    flush    queues with entries in those files write living messages that are not in a segment yet
    look     at each queue that has changed: its state; its segment files are synced, each in the
             strand of its queue; then at the files of streams, at Raft groups, the entries of which
             are written to segments, each group in its strand; then at the definitions
    wait     until the journal has all that was seen: what has left a queue may have made room for
             something that is only on its way to the journal
    save     the checkpoint says what is durable where
    delete   journal files that neither this checkpoint nor the one before needs, but for one that
             the journal uses again

All of that is done in pieces, because there may be very many queues. So their states are not of one
moment: each includes at least its queue's entries in the files before c - 1, and later entries are
in the files that stay, which are replayed over it. The definitions are of one moment, after all
states.

There is one checkpoint at a time; when the journal has rotated meanwhile, the next one begins at
once. The last one of a broker's life flushes everything and is marked as clean.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from sluicemq.chain.store.group_commit import WhenDurable
from sluicemq.chain.store.messages import Flush
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.checkpoint import Checkpoint, encode_queue_state, write_checkpoint
from sluicemq.storage.journal import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sluicemq.chain.store.messages import Flushed, StoreClient
    from sluicemq.chain.store.raft_storage import RaftStorage
    from sluicemq.chain.store.store_port import StorePort
    from sluicemq.storage.entries import StreamFiles
    from sluicemq.storage.queue_replica import QueueReplica

EVERYTHING = 1 << 62
"""A position behind all others."""

MARK_WORK: Final = 1
TELL_WORK: Final = 4
LOOK_WORK: Final = 10
DEFINITIONS_WORK: Final = 200
"""Units of work that a piece of the definitions costs."""


class SegmentSync(DiskJob):
    """Makes segment files of one queue durable."""

    def __init__(self, directory: str, paths: list[str], strand: int) -> None:
        self.directory = directory
        self.paths = paths
        self.strand = strand

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
    """Writes a checkpoint, then deletes the files that it makes unnecessary, but for `spare`, which
    the journal may use again then; "" for none."""

    def __init__(
        self, checkpoint: Checkpoint, states: list[bytes], journal: list[str], spare: str
    ) -> None:
        super().__init__(journal)
        self.spare = spare
        self.checkpoint = checkpoint
        self.states = states

    def run(self, files: Files) -> None:
        write_checkpoint(files, self.checkpoint, self.states)
        super().run(files)


class Checkpoints(Actor):
    """Makes the checkpoints of one message store, one at a time."""

    def __init__(
        self, store: StorePort, durable_queues: Mapping[int, StoreClient], raft: RaftStorage
    ) -> None:
        super().__init__(store.scheduler)
        self.store = store
        self.raft = raft
        self.durable_queues = durable_queues
        self.number = 0
        self.node_id = b""
        self.count = 0
        self.cut = 0
        """The journal file that the checkpoint under way begins at; 0: none is under way."""
        self.saved_cut = 0
        """The journal file that the last checkpoint begins at."""
        self.flushing: dict[StoreClient, None] = {}
        self.telling = False
        """True while not all queues that have something to flush were told so."""
        self.again = False
        """True when a queue has had a fault while the checkpoint looked at it, so that what was
        seen of it is of no use."""
        self.looked = False
        """True when everything was looked at, and the journal has what was seen."""
        self.syncing = 0
        """The number of syncs that are under way."""
        self.touched: dict[StoreClient, None] = {}
        """The queues that have changed since they were looked at."""
        self.held: dict[StoreClient, None] = {}
        """The queues that are being read back after a fault."""
        self.states: dict[int, bytes] = {}
        """The states of all durable queues, as they were last seen."""
        self.streams: list[StreamFiles] = []
        """The files of all streams, as they were last seen."""
        self.definitions = b""
        self.seen_sequence = 0
        """The number of the journal's last group before the checkpoint began to look."""
        self.closing = False
        self.closed = False

    def touch(self, queue: StoreClient) -> None:
        """Note that the state of a queue has changed since it was last seen; a deleted queue is
        left out."""
        if queue.has_state and not queue.is_deleted:
            self.touched[queue] = None

    def forget(self, queue: StoreClient) -> None:
        """Leave a deleted queue out of the next checkpoint."""
        self.touched.pop(queue, None)

    def hold(self, queue: StoreClient) -> None:
        """Distrust the state of this queue, which has had a fault: no checkpoint is made before it
        has been read back, except one that has seen all queues already."""
        self.held[queue] = None
        self.again = True
        if self.telling or self.flushing:
            self.flushing[queue] = None

    def keep(self, queue: StoreClient, found: QueueReplica) -> None:
        """Use the state in which a queue was found when it was read back, because it does not
        change any more."""
        self.states[queue.id] = encode_queue_state(found.state())

    def release(self, queue: StoreClient) -> None:
        """Stop holding up checkpoints for a queue, which can be trusted again or is deleted. A
        checkpoint under way gets `Flushed` besides."""
        self.held.pop(queue, None)

    def rotated(self) -> None:
        """Begin a checkpoint if there is reason for one, because the journal has rotated; its last
        two files stay as they are."""
        store = self.store
        cut = store.journal.number - 1
        if self.cut or store.storage_failed or cut <= max(self.saved_cut, store.journal.first):
            return
        self._start(cut, store.journal.marks_before(cut))

    def advance(self) -> None:
        """Begin a checkpoint though the journal has not rotated, when nothing else is being done
        and files wait for further checkpoints before they are deleted."""
        store = self.store
        if self.raft.superseded and not (self.cut or self.closing or store.storage_failed):
            cut = max(self.saved_cut, store.journal.first, store.journal.number - 1)
            self._start(cut, store.journal.marks_before(cut))

    def close(self) -> None:
        """Begin to flush everything: the broker stops, and all clients have left."""
        self.closing = True
        self.store.commit_soon()

    def close_when_idle(self) -> None:
        """Begin the last checkpoint when nothing is on its way to the journal. Called at the end of
        each turn of the store while the broker is closing."""
        store = self.store
        if self.closed:
            return
        if store.storage_failed:
            self.closed = True
        elif not self.cut and store.is_idle:
            queues = self.durable_queues
            for queue in queues.values():
                self.touch(queue)  # even a delivery may have been a change
            marks = dict.fromkeys(queues, EVERYTHING)
            store.journal.next_file()  # whatever comes after that goes there
            self._start(store.journal.number, [marks])

    def _start(self, cut: int, marks: Iterable[dict[int, int]]) -> None:
        """Begin the checkpoint that needs the journal from file `cut` on. `marks` tells what has to
        be flushed, as Journal.marks has it of each file."""
        self.cut = cut
        self.flushing.update(dict.fromkeys(self.held))
        self.telling = True
        self.begin(self._tell(marks))

    def _tell(self, marks: Iterable[dict[int, int]]) -> Iterator[int]:
        """Have the queues flush, one of them in each piece, and yield its work."""
        ends: dict[int, int] = {}
        for each in marks:
            for queue_id, upto in each.items():
                ends[queue_id] = max(upto, ends.get(queue_id, 0))
                yield MARK_WORK
        queues = self.durable_queues
        for queue_id, upto in ends.items():
            queue = queues.get(queue_id)
            if queue is not None and upto:
                self.flushing[queue] = None
                queue.post(Flush(upto))
                yield TELL_WORK
        self.telling = False
        if not self.flushing:
            yield from self._look()

    def flushed(self, message: Flushed) -> None:
        """Note that a queue has flushed; after the last one look at all queues."""
        was_last = self.flushing.pop(message.queue, self) is None and not self.flushing
        if was_last and not self.telling:
            self.begin(self._look())

    def _look(self) -> Iterator[int]:
        """Look at everything, have it made durable, and yield the work of each piece. If a queue
        has a fault meanwhile, look once more when that is read back."""
        store = self.store
        self.seen_sequence = store.journal.sequence if store.is_idle else 0
        self.again = True
        while self.again:
            self.again = False
            for work in chain(self._see_queues(), self._see_streams(), self._see_groups()):
                yield work
                if store.storage_failed:
                    return  # the one before remains valid
            if self.held:
                self.flushing.update(dict.fromkeys(self.held))
                return
        pieces = []
        for piece in store.services.definitions.pieces():
            pieces.append(piece)
            yield DEFINITIONS_WORK
        self.definitions = b"".join(pieces)
        store.post(WhenDurable(self))

    def _see_queues(self) -> Iterator[int]:
        """Take the states of queues that have changed before it began, one of them in each piece,
        and yield its work; later changes are for the next checkpoint."""
        for queue in [*self.touched]:
            if self.touched.pop(queue, self) is not None:
                continue  # it was deleted meanwhile, or has had a fault
            if queue.is_deleted or not queue.is_durable:
                continue
            self.states[queue.id] = queue.checkpoint_state()
            directory, paths = queue.dirty_files()
            if paths:
                self.syncing += 1
                self.store.submit(SegmentSync(directory, paths, queue.strand))
            yield LOOK_WORK + LOOK_WORK * len(paths)
        durable = self.durable_queues
        for queue_id in [*self.states]:
            if queue_id not in durable:
                del self.states[queue_id]
            yield MARK_WORK

    def _see_streams(self) -> Iterator[int]:
        """Take the names of the files of all streams, one queue in each piece, and yield its
        work."""
        self.streams = []
        for queue in [*self.durable_queues.values()]:
            files = queue.stream_files()
            if files is not None:
                self.streams.append(files)
            yield MARK_WORK

    def _see_groups(self) -> Iterator[int]:
        """Take the states of Raft groups, one of them in each piece, and yield its work; committed
        entries in files that are to be deleted are written to segments meanwhile."""
        for job in self.raft.see(self.cut):
            if job is not None:
                self.syncing += 1
                self.store.submit(job)
            yield LOOK_WORK

    def _leave_out_what_is_saved(self) -> None:
        """Begin a new file of the journal when the broker stops and everything before it was seen:
        streams have written to the journal while they were flushed, and these entries may go."""
        store = self.store
        journal = store.journal
        idle = store.is_idle and journal.sequence == self.seen_sequence
        is_last = self.closing and self.cut == journal.number
        if is_last and idle and journal.offset and not journal.marks[journal.number]:
            journal.next_file()
            self.cut = journal.number

    def receive(self, message: object) -> None:
        """Save the checkpoint when nothing else is in its way, because the journal has everything
        that was seen."""
        assert isinstance(message, WhenDurable)
        self.looked = True
        self._leave_out_what_is_saved()
        self._save_if_durable()

    def synced(self) -> None:
        """Note that the segment files of one queue are durable."""
        self.syncing -= 1
        self._save_if_durable()

    def make_room(self, for_group: bool) -> None:
        """Delete the spare file of the journal, because something has no space; `for_group` also
        those that would go with the checkpoint under way, before it: the journal has no space for a
        group, perhaps the one that the checkpoint waits for. The last checkpoint does not need
        them; the one before it is only for the case that the last is damaged."""
        journal = self.store.journal
        paths = journal.take_spare()
        if for_group and self.cut:
            paths += journal.files_before(self.saved_cut)
        if paths:
            self.store.submit(JournalPruned(paths))

    def _save_if_durable(self) -> None:
        """Write the checkpoint, when nothing is in its way any more."""
        store = self.store
        if self.syncing or not self.looked or store.storage_failed:
            return
        self.looked = False
        self.number += 1
        checkpoint = Checkpoint(
            self.number,
            self.closing and self.cut == store.journal.number,
            self.cut,
            store.services.next_message_id,
            store.services.definitions.next_queue_id,
            self.node_id,
            self.definitions,
            [],
            store.services.entry_count,
            self.streams,
            [*self.raft.states.values()],
        )
        journal = store.journal
        paths = journal.files_before(self.saved_cut)
        if self.closing:
            paths = journal.take_spare() + paths
        spare = "" if self.closing or journal.spare or not paths else paths.pop()
        store.submit(CheckpointSaved(checkpoint, [*self.states.values()], paths, spare))

    def saved(self, job: CheckpointSaved) -> None:
        """Use the checkpoint from now on, and begin the next one if the journal has rotated
        meanwhile."""
        assert job.checkpoint.journal_first >= self.saved_cut, "a checkpoint of less than the last"
        self.count += 1
        self.saved_cut = job.checkpoint.journal_first
        self.store.journal.forget_before(self.saved_cut)
        self.store.journal.spare = job.spare or self.store.journal.spare
        self.raft.saved()
        self.cut = 0
        if job.checkpoint.clean:
            self.closed = True
        elif not self.closing:
            self.rotated()
            if self.store.is_idle:
                self.advance()
