"""queue ---jobs---> QUEUE STORAGE: a queue's files, and its messages in the message store.

It is a part of the queue's actor, and works for the `Stored` side of its state. The shell calls

    write, remove    for effects, as they become real; `send_removed` when all of a turn have
    turn_ended       at the end of each turn: page out, load, flush, one job of the index at a time
    hold_up          after that: publishers wait while memory is tight and the disk is behind
    receive          for its messages: completed jobs, bodies, checkpoints
    finish           when the queue is deleted; its files go when that is durable

Checkpoints ask for `checkpoint_state` and `dirty_files` in turns of the message store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from sluicemq.chain.queue.queue import FilesGone
from sluicemq.chain.store.messages import (
    BodiesRead,
    Collect,
    Flush,
    Flushed,
    Forgotten,
    StorePaged,
    StoreQueueDeleted,
    StoreRead,
    StoreRemove,
    StoreWrite,
    TryAgain,
)
from sluicemq.compiling import mypyc_attr
from sluicemq.flow.gate import Gate
from sluicemq.limits import PAGE_OUT_BYTES, RETRY_FULL_MS, TIGHT_RATIO
from sluicemq.storage.checkpoint import encode_queue_state
from sluicemq.storage.queue_index import READ_TRIES, IndexRead, IndexWrite

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.classic.stored import Stored
    from sluicemq.queues.effects import Deleted, Remove, Write
    from sluicemq.storage.entries import Run


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueStorage:
    """Handles the files of one queue, whose state is `stored`, and its messages in the message
    store."""

    def __init__(self, queue: Queue, stored: Stored) -> None:
        self._queue = ref(queue)
        self.stored = stored
        self.services = queue.services
        self.store = queue.store
        self.to_store, self.store_inflow = self.services.store_link(queue, self.store)
        self.paging = Gate(queue.keeper, "paging out")
        self.removed: StoreRemove | None = None
        """The removals that the message store hears of at the end of the turn."""
        self.flush_upto = 0
        """A checkpoint waits for messages below this position; 0: none does."""
        self.flush_from = 0
        """Of the messages in order, those below this position were already checked for it."""

    @property
    def queue(self) -> Queue:
        """Return the queue whose storage this is. This must not hold a reference to it: a deleted
        queue is freed at once."""
        queue = self._queue()
        assert queue is not None, "a queue's storage without the queue"
        return queue

    def receive(self, message: object) -> bool:
        """Handle a message if it is for the storage. Returns whether it was."""
        if isinstance(message, (IndexWrite, IndexRead)):
            self.job_done(message)
        elif isinstance(message, BodiesRead):
            self.say_lost(self.stored.got_bodies(message.chunk, message.contents))
        elif isinstance(message, Flush):
            self.flush_upto = message.upto
            self.flush_from = 0
            self.stored.bound(message.upto)
        elif isinstance(message, Collect):
            self.collect(message.empty)
        elif isinstance(message, Forgotten):
            self.queue.forgotten = True
            self.delete_files()
        elif isinstance(message, TryAgain):
            self.try_again(message.job)
        elif isinstance(message, FilesGone):
            self.files_gone(message)
        else:
            return False
        return True

    # -- effects

    def write(self, effect: Write) -> None:
        """Send persistent messages to the message store, over the credited link."""
        batch = effect.batch
        self.to_store.spend(len(batch.contents))
        self.store.post(
            StoreWrite(
                self.queue,
                batch,
                effect.receipt,
                effect.position,
                self.store_inflow,
                effect.expiry,
            )
        )

    def remove(self, effect: Remove) -> None:
        """Gather messages that have left the queue, neighbours joined; they are posted once at the
        end of the turn."""
        removed = self.removed
        if removed is None:
            removed = self.removed = self.removal()
        if effect.durable:
            positions = effect.positions
            ranges = removed.indexed if effect.indexed else removed.ranges
            last = ranges[-1] if ranges else positions
            if last.stop == positions.start and last.step == positions.step == 1:
                positions = range(ranges.pop().start, positions.stop)
            ranges.append(positions)
            removed.delivered = self.stored.delivered
        if effect.ids is not None:
            (removed.persistent if effect.durable else removed.transient).append(effect.ids)

    def removal(self) -> StoreRemove:
        """Make an empty StoreRemove of this queue, as of now."""
        return StoreRemove(self.queue, self.stored.delivered)

    def send_removed(self) -> None:
        """Post to the message store the removals gathered in this turn, if there are any."""
        if self.removed is not None:
            self.store.post(self.removed)
            self.removed = None

    # -- at the end of a turn

    def turn_ended(self) -> None:
        """Pass bodies that leave RAM to the message store, and the next job to the disk."""
        if not self.flush_upto and self.stored.is_at_rest():
            return
        if self.stored.to_store_count:
            self.page_bodies()
        self.work_on_disk()

    def store_is_full(self) -> bool:
        """Tell whether the storage has failed, or the credit to the message store is spent, or will
        be by the messages about to be sent. Then nothing more is paged out to it."""
        return self.to_store.credit <= self.stored.to_store_count or bool(self.store.storage_failed)

    def page_bodies(self) -> None:
        """Send transient bodies that leave RAM to the message store, over the credited link."""
        for chunk in self.stored.take_to_store():
            self.to_store.spend(chunk.left())
            self.store.post(StorePaged(chunk, self.store_inflow))

    def work_on_disk(self) -> None:
        """Submit the next job of the index, if none is under way, and ask for bodies beside it."""
        stored = self.stored
        index = stored.index
        writing = not self.store.storage_failed
        if index.has_empty:
            self.let_segments_go()
        for chunk in stored.dead_bodies_wanted():
            self.ask_for(chunk)
        if not self.flush_upto and not stored.needs_disk():
            return
        hungry = stored.hungry()
        for chunk in stored.bodies_wanted(hungry):
            self.ask_for(chunk)
        if index.busy:
            return
        job: IndexWrite | IndexRead | None = None
        if self.flush_upto and writing:
            job = self.flush()
        if job is None:
            job = stored.next_job(hungry, writing=writing)
        if job is not None:
            self.submit(job)

    def ask_for(self, chunk: Chunk) -> None:
        """Have the bodies of a chunk read."""
        self.store.post(StoreRead(self.queue, chunk))

    def flush(self) -> IndexWrite | None:
        """Return a write job for the next part of what a checkpoint waits for; None when all of it
        is written."""
        stored = self.stored
        runs: list[Run] = []
        size = 0
        for chunk, in_order in stored.unsaved(self.flush_upto, self.flush_from):
            if in_order:
                self.flush_from = chunk.positions().start
            for run in stored.runs_of(chunk):
                runs.append(run)
                size += sum(run.sizes)
            if size >= PAGE_OUT_BYTES:
                break
        if runs:
            return stored.index.write(runs)
        self.flushed()
        return None

    def flushed(self) -> None:
        """Tell the store that the checkpoint need not wait for this queue any more."""
        self.flush_upto = self.flush_from = 0
        self.store.post(Flushed(self.queue))

    def hold_up(self) -> None:
        """Make publishers to this queue wait while memory is tight and the disk is behind."""
        gate = self.paging
        if gate.is_shut:
            if not self.is_behind() or self.services.memory_pressure < TIGHT_RATIO:
                gate.open()
        elif self.services.memory_pressure >= TIGHT_RATIO and self.is_behind():
            gate.shut()

    def is_behind(self) -> bool:
        """Tell whether a page-out is under way that will wake this queue when it is done."""
        stored = self.stored
        if self.store.storage_failed or not isinstance(stored.index.job, IndexWrite):
            return False
        return stored.is_paging_out

    # -- jobs

    def submit(self, job: DiskJob) -> None:
        """Submit a job to the queue's own strand of the disk; it comes back to the queue."""
        queue = self.queue
        self.services.world.disk.submit(job, queue, queue.strand)

    def job_done(self, job: IndexWrite | IndexRead) -> None:
        """Continue after the disk has done a job, or failed to. A write without space is repeated
        until there is some; a read that has failed, a few times."""
        if isinstance(job, IndexWrite):
            self.written(job)
            return
        failure = job.failure
        title = self.queue.title
        log = self.services.world.log
        if failure is not None and job.tries < READ_TRIES:
            job.failure = None
            if job.tries == 1:
                log.write("warning", f"{title}: {failure}; trying again")
            self.later(job)
            return
        if failure is not None:
            job.damaged.append(str(failure))
        if job.epoch < 0:
            self.sought(job)
        else:
            lost = self.stored.loaded(job)
            for text in job.damaged:
                log.write("error", f"{title}: {text}")
            self.say_lost(lost)

    def written(self, job: IndexWrite) -> None:
        """Continue after a write job. Any failure but a full disk ends all writing."""
        failure = job.failure
        if failure is None:
            self.services.has_space(job)
            self.stored.wrote(job)
            self.store.checkpoints.touch(self.queue)
        elif failure.is_full:
            job.failure = None
            self.services.no_space_for(job)
            self.store.ballast.delete()
            self.later(job)
        else:
            self.stored.give_up(job)
            self.store.fail_storage(str(failure))

    def later(self, job: DiskJob) -> None:
        """Try a job again after RETRY_FULL_MS milliseconds."""
        self.services.world.clock.call_after(RETRY_FULL_MS, self.queue, TryAgain(job))

    def try_again(self, job: DiskJob) -> None:
        """Submit a job again that failed a while ago. A deleted queue's write is dropped: nobody
        needs it, and its directory may be gone."""
        if isinstance(job, IndexWrite) and self.stored.deleted:
            self.services.has_space(job)
            self.stored.give_up(job)
        else:
            self.submit(job)

    def sought(self, job: IndexRead) -> None:
        """Tell the message store which bodies of purged messages on the disk are not needed any
        more."""
        removed = self.removal()
        for run in self.stored.sought(job):
            (removed.persistent if run.traits.persistent else removed.transient).append(run.ids)
        self.store.post(removed)
        self.delete_files()

    def say_lost(self, lost: list[range]) -> None:
        """Log the positions of messages that could not be read back, and are lost; does nothing if
        there are none."""
        if lost:
            count = sum(map(len, lost))
            where = ", ".join(f"{each[0]}-{each[-1]}" for each in lost[:10])
            text = f"{self.queue.title}: {count} messages are lost, at positions {where}"
            self.services.world.log.write("error", text)

    # -- segments

    def let_segments_go(self) -> None:
        """Have segments deleted in which no message is alive; the last checkpoint may count on them
        until the acknowledgements are durable."""
        empty = self.stored.index.empty()
        if self.queue.is_durable:
            removed = self.removal()
            removed.empty = empty
            self.store.post(removed)
        else:
            self.collect(empty)

    def collect(self, empty: list[tuple[int, int]]) -> None:
        """Delete these segments, if no message in them is alive."""
        paths = self.stored.index.collect(empty)
        if paths and not self.stored.deleted:
            self.store.checkpoints.touch(self.queue)
            self.submit(FilesGone(paths))

    def delete_files(self) -> None:
        """Delete the queue's files, if the queue is deleted, and no job reads them any more."""
        if not self.queue.forgotten or self.stored.is_seeking:
            return
        index = self.stored.index
        if index.sequence or index.segments:
            self.submit(FilesGone([], index.directory))

    def files_gone(self, job: FilesGone) -> None:
        """Log it when files could not be deleted; leaving them does no harm."""
        if job.failure is not None:
            text = f"{self.queue.title}: cannot delete unused files yet: {job.failure}"
            self.services.world.log.write("warning", text)

    # -- checkpoints

    def checkpoint_state(self) -> bytes:
        """Return the queue's part of a checkpoint, when the journal has everything from
        the queue."""
        return encode_queue_state(self.stored.state())

    def dirty_files(self) -> tuple[str, list[str]]:
        """Return the queue's directory, and the segments in it that were written since the last
        call."""
        index = self.stored.index
        return index.directory, index.take_dirty()

    # -- the end

    def finish(self, answer: Deleted) -> None:
        """Have the deletion of the queue made durable, and then answered, and let its files go."""
        queue = self.queue
        self.to_store.detach()
        self.store_inflow.detach()
        self.store.checkpoints.forget(queue)
        if self.flush_upto:
            self.flushed()
        if queue.is_durable:
            self.store.post(StoreQueueDeleted(queue, answer))
            return
        queue.forgotten = True
        if answer.channel is not None:
            answer.channel.post(answer)
        self.delete_files()
