"""queue ---write---> MESSAGE STORE: messages to the journal, bodies of large ones to files.

Writes are gathered as a `StoreGroup`, which goes to the journal with everything else that the node
makes durable then (group_commit.py). A queue gets `Written` only after the sync that covers it. A
write whose messages are removed before it is made is left out, and confirmed at once.

When the disk is full a job is tried again until there is space. Any other failure ends
all writing: nothing is written and nothing is confirmed until a restart; reads go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.store.ballast import Ballast, CreateBallast, DeleteBallast
from sluicemq.chain.store.checkpoints import Checkpoints, CheckpointSaved, SegmentSync
from sluicemq.chain.store.group_commit import Append, CommitDue, GroupCommit, HoldOver, WhenDurable
from sluicemq.chain.store.journal_seals import Idle
from sluicemq.chain.store.messages import (
    BodiesRead,
    Flushed,
    StorePaged,
    StoreRead,
    StoreRemove,
    StoreWrite,
    TryAgain,
    Written,
)
from sluicemq.chain.store.raft_ends import RAFT_JOBS
from sluicemq.chain.store.raft_storage import RaftSnapshotTaken, RaftStorage
from sluicemq.chain.store.store_group import StoreGroup, body_ids_of
from sluicemq.chain.store.store_port import StorePort
from sluicemq.flow.alarm import STORAGE
from sluicemq.flow.gate import Gate
from sluicemq.kernel.disk import SYNC_STRAND, DiskJob
from sluicemq.limits import RAFT_GROUP_BYTES, RETRY_FULL_MS, STORE_GROUP_BYTES
from sluicemq.storage.compaction import Compaction, Deletion
from sluicemq.storage.journal import GroupWrite, Journal, SealWrite
from sluicemq.storage.message_reads import ReadMessages
from sluicemq.storage.message_writes import MessageWrites
from sluicemq.storage.queue_index import READ_TRIES
from sluicemq.storage.raft.rewrite import RaftRewrite
from sluicemq.storage.raft.segment_file import RaftFilesGone, RaftSegmentWrite
from sluicemq.storage.raft.snapshot_file import RaftContentWrite

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from sluicemq.chain.services import Services
    from sluicemq.chain.store.messages import StoreClient
    from sluicemq.storage.message_files import MessageFiles
    from sluicemq.storage.raft.groups import RaftGroups

MESSAGES_STRAND: Final = 1
STRAND_JOBS = SegmentSync | RaftSegmentWrite | RaftContentWrite | RaftRewrite | RaftFilesGone
"""Jobs that say in which strand they belong: that of a queue or of a Raft group."""


class MessageStore(StorePort):
    """The message store of one node, which writes the messages of queues and tells them when these
    are durable."""

    kind = "message_store"
    is_common = True

    def __init__(
        self,
        services: Services,
        journal: Journal,
        persistent: MessageFiles,
        transient: MessageFiles,
        groups: RaftGroups,
    ) -> None:
        super().__init__(services.scheduler, services.world.clock)
        self.services = services
        self.disk = services.world.disk
        self.journal = journal
        self.persistent = persistent
        self.transient = transient
        self.durable_queues: dict[int, StoreClient] = {}
        """Those that are there after a restart, by id."""
        self.raft = RaftStorage(self, groups)
        self.checkpoints = Checkpoints(self, self.durable_queues, self.raft)
        self.ballast = Ballast(self, services.config.storage.reserve_bytes)
        self.commits = GroupCommit(self, journal)
        self.unclosed: list[StoreGroup] = []
        """The quanta that wait for the journal's next groups, in order."""
        self.group = self.new_group()
        """What comes goes there: the last of these, or an empty one while there are none."""
        self.waiting_bytes = 0
        """Bytes of the writes in all of them."""
        self.quantum_bytes = RAFT_GROUP_BYTES
        """A quantum is full when it has so many: an append to a log waits for no more."""
        self.group_bytes_max = STORE_GROUP_BYTES
        self.full = Gate(self.keeper, "writes waiting for a sync")
        self.reading: dict[ReadMessages, tuple[StoreRead, dict[int, bytes]]] = {}
        self.rereads = 0
        """Reads that have failed and will be made again after a while."""
        self.storage_failed = ""
        """Why nothing is written any more."""
        self.paged_bytes = 0
        """Transient bodies that were paged out and are in RAM until they are written."""
        self.paging_bytes = 0
        """Those that are being written."""
        self.writes = 0
        self.overtaken = 0

    @property
    def sync_runs(self) -> bool:
        return self.commits.job is not None

    @property
    def is_idle(self) -> bool:
        return self.commits.is_idle

    def commit_soon(self) -> None:
        self.commits.urgent = True
        self.schedule()

    def new_group(self) -> StoreGroup:
        """Return a group for writes after the present one is closed."""
        return StoreGroup(
            self.journal, self.checkpoints, self.persistent, self.group_closed, self.unclosed
        )

    def group_closed(self, group: StoreGroup) -> None:
        """Gather writes in another quantum from now on, and take more again if there is room."""
        assert group is self.unclosed[0], "a quantum passes another"
        del self.unclosed[0]
        self.waiting_bytes -= group.bytes
        if group is self.group:
            self.group = self.new_group()
        if self.waiting_bytes <= self.group_bytes_max:
            self.full.open()

    def gather(self, size: int = 0, *, urgent: bool = False) -> StoreGroup:
        """Return the open quantum, and have a group of the journal include it. `size` is how many
        bytes more are for the journal; `urgent` tells that somebody waits for them."""
        commits = self.commits
        if self.group.bytes >= self.quantum_bytes:
            self.group = self.new_group()
        group = self.group
        if not group.is_gathered:
            group.is_gathered = True
            self.unclosed.append(group)
            commits.add(group)
        commits.gathered_bytes += size
        commits.urgent |= urgent
        return group

    @property
    def retrying(self) -> int:
        """Return the number of jobs that wait for space on the disk."""
        return len(self.services.no_space)

    # -- the inbox

    def receive(self, message: object) -> None:
        """Handle writes, removals and reads of queues, and jobs that come back from the disk."""
        if isinstance(message, StoreWrite):
            self.write(message)
        elif isinstance(message, StoreRemove):
            self.remove(message)
        elif isinstance(message, DiskJob):
            self.done(message)
        elif isinstance(message, StoreRead):
            self.rereads -= message.tries > 0
            self.read(message)
        elif isinstance(message, StorePaged):
            self.page(message)
        elif isinstance(message, WhenDurable):
            self.commits.ask(message)
        elif isinstance(message, Append):
            self.commits.add(message)
        elif isinstance(message, CommitDue):
            self.commits.due()
        elif isinstance(message, HoldOver):
            self.commits.hold_over()
        elif isinstance(message, TryAgain):
            self.try_again(message.job)
        elif isinstance(message, Flushed):
            self.checkpoints.flushed(message)
        elif isinstance(message, Idle):
            if self.commits.seals.look(message):
                self.checkpoints.advance()
        elif isinstance(message, RaftSnapshotTaken):
            append = self.raft.take(message)
            if append is not None:
                self.commits.add(append)
        else:
            super().receive(message)

    def write(self, message: StoreWrite) -> None:
        """Add persistent messages to the next group, and give the queue back their credit."""
        batch = message.batch
        count = len(batch.contents)
        self.writes += count
        group = self.gather(batch.size, urgent=message.receipt is not None)
        group.bytes += batch.size
        self.waiting_bytes += batch.size
        group.writes.append(message)
        group.places[message.queue, message.position] = message
        if batch.first_id:
            ids = range(batch.first_id, batch.first_id + count)
            self.persistent.write_run(ids, batch.contents)
        if self.waiting_bytes > self.group_bytes_max:
            self.full.shut()
        message.inflow.settle(count, batch.size)

    def page(self, message: StorePaged) -> None:
        """Have transient bodies written into files of their own, which nobody waits for."""
        chunk = message.chunk
        assert chunk.id_base is not None
        positions = chunk.positions()
        first = positions[0] + chunk.id_base
        contents = chunk.rest()
        self.transient.write_run(range(first, first + len(contents)), contents)
        size = chunk.size()
        self.paged_bytes += size
        self.services.memory_used(size)
        message.inflow.settle(len(contents), size)

    def remove(self, message: StoreRemove) -> None:
        """Forget messages that have left a queue; those that have not been written yet are left
        out."""
        group = self.group
        ranges = message.ranges
        overtaken: list[StoreWrite] = []
        if ranges and self.unclosed:
            ranges, overtaken = self.overtake(message.queue, ranges)
        ranges = ranges + message.indexed
        if ranges:
            group.acks.setdefault(message.queue, []).extend(ranges)
            group.delivered[message.queue] = message.delivered
        buffered: Container[int] = self.persistent.buffer
        if len(self.unclosed) > 1:
            # The others may be in an earlier group than these acknowledgements.
            buffered = {i for write in overtaken for i in body_ids_of(write) if i in buffered}
        for ids in message.persistent:
            # Messages that a group has made durable stay until their removal is durable.
            group.gone_bodies += [each for each in ids if each not in buffered]
            self.persistent.remove([each for each in ids if each in buffered])
        for ids in message.transient:
            self.transient.remove(ids)
        if message.empty:
            group.collect.append(message)
        if not (group.is_gathered or group.is_empty()):
            self.gather()

    def overtake(
        self, queue: StoreClient, ranges: list[range]
    ) -> tuple[list[range], list[StoreWrite]]:
        """Cancel waiting writes whose messages have all been removed already; they are confirmed at
        once. Returns the other ranges of positions, and these writes."""
        left: list[range] = []
        overtaken: list[StoreWrite] = []
        for positions in ranges:
            rest = positions
            while rest and rest.step == 1:
                write = self.pending(queue, rest)
                if write is None:
                    break
                rest = rest[len(write.batch.contents) :]
                write.cancelled = True
                overtaken.append(write)
            self.overtaken += len(positions) - len(rest)
            if rest:
                left.append(rest)
        receipts = [write.receipt for write in overtaken if write.receipt is not None]
        if receipts:
            queue.post(Written(receipts))
        return left, overtaken

    def pending(self, queue: StoreClient, positions: range) -> StoreWrite | None:
        """Return and forget the waiting write of exactly these positions; None when
        there is none.
        """
        place = queue, positions.start
        for group in self.unclosed:
            write = group.places.get(place)
            if write is not None:
                fits = len(write.batch.contents) <= len(positions)
                return group.places.pop(place) if fits else None
        return None

    # -- group commit

    def turn_ended(self) -> None:
        """Start the next commit when something waits for one, and other work that is due."""
        if not self.storage_failed:
            self.commits.commit()
            self.page_bodies()
            for files in (self.persistent, self.transient):
                if files.table or files.doomed or files.problems:
                    self.compact(files)
        if self.checkpoints.closing:
            self.checkpoints.close_when_idle()

    def group_written(self) -> None:
        self.ballast.create_if_missing()
        self.commits.seals.watch()
        if self.journal.rotate():
            self.checkpoints.rotated()
        self.raft.ask_for_snapshots()

    # -- jobs

    def submit(self, job: DiskJob) -> None:
        strand = MESSAGES_STRAND
        if isinstance(job, (GroupWrite, SealWrite)):
            strand = SYNC_STRAND
        elif isinstance(job, STRAND_JOBS):
            strand = job.strand
            if isinstance(job, RAFT_JOBS):
                self.raft.ends.begun(job)
        self.disk.submit(job, self, strand)

    def done(self, job: DiskJob) -> None:
        """Handle a job that has come back from the disk, successful or not."""
        if isinstance(job, ReadMessages):
            self.was_read(job)
            return
        if isinstance(job, CreateBallast | DeleteBallast):
            self.ballast.done(job)
            return
        if job.failure is not None:
            self.failed(job)
            return
        self.services.has_space(job)
        if isinstance(job, GroupWrite):
            self.commits.written()
        elif isinstance(job, MessageWrites):
            self.transient.finished(job)
            self.services.memory_used(-self.paging_bytes)
            self.paging_bytes = 0
        elif isinstance(job, Compaction | Deletion):
            owner = self.owner_of(job)
            more = owner.compacted(job)
            if more is not None:
                self.submit(more)
        elif isinstance(job, (SegmentSync, RaftSegmentWrite)):
            if isinstance(job, RaftSegmentWrite):
                self.raft.settled(job)
            self.checkpoints.synced()
        elif isinstance(job, RaftContentWrite):
            self.commits.add(self.raft.content_written(job))
        elif isinstance(job, RaftRewrite):
            self.raft.rewritten(job)
        elif isinstance(job, CheckpointSaved):
            self.checkpoints.saved(job)
        if isinstance(job, RAFT_JOBS):
            self.raft.ends.came_back(job)

    def owner_of(self, job: Compaction | Deletion) -> MessageFiles:
        return self.persistent if job.directory == self.persistent.directory else self.transient

    def failed(self, job: DiskJob) -> None:
        """Try a failed job again later if there was no space for it; after any other failure write
        nothing any more."""
        failure = job.failure
        assert failure is not None
        if failure.is_full and isinstance(job, SealWrite):
            return  # it only helps, and the next group takes its place
        if failure.is_full and not isinstance(job, SegmentSync):
            job.failure = None
            if self.is_in_vain(job):
                self.done(job)
                return
            self.services.no_space_for(job)
            self.ballast.delete()
            self.checkpoints.make_room(for_group=job is self.commits.job)
            self.try_later(job)
        else:
            self.fail_storage(str(failure))
            if job is self.commits.job:
                self.commits.refuse(also_committing=True)

    def try_later(self, job: DiskJob) -> None:
        self.services.world.clock.call_after(RETRY_FULL_MS, self, TryAgain(job))

    def try_again(self, job: DiskJob) -> None:
        """Give a job to the disk again, unless it is in vain now."""
        if not isinstance(job, RAFT_JOBS):
            self.submit(job)
        elif self.is_in_vain(job):
            self.done(job)
        else:
            self.disk.submit(job, self, job.strand)  # it was under way all the time

    def is_in_vain(self, job: DiskJob) -> bool:
        """Tell whether what a job would write is to be deleted at once."""
        return isinstance(job, RAFT_JOBS) and self.raft.ends.is_in_vain(job)

    def fail_storage(self, reason: str) -> None:
        """Write nothing any more, because the disk cannot be trusted. `reason` is for people. A
        second call does nothing."""
        if self.storage_failed:
            return
        self.storage_failed = f"storage has failed ({reason}); restart the broker"
        self.services.world.log.write(
            "error", f"{self.storage_failed}: nothing is written any more"
        )
        self.services.alarms.raise_alarm(STORAGE, self.storage_failed)
        self.commits.refuse(also_committing=False)
        self.schedule()  # a stop waits for nothing any more

    # -- bodies

    def page_bodies(self) -> None:
        """Write the bodies that were paged out since the last such job."""
        if not self.paged_bytes:
            return
        job = self.transient.take_job()
        if job is not None:
            self.paging_bytes, self.paged_bytes = self.paged_bytes, 0
            self.disk.submit(job, self, MESSAGES_STRAND)
        elif not self.transient.buffer:
            self.services.memory_used(-self.paged_bytes)  # all removed before they were written
            self.paged_bytes = 0

    def compact(self, files: MessageFiles) -> None:
        """Have garbage in these files collected in the background, and log the problems that they
        have found."""
        for problem in files.problems:
            self.services.world.log.write("error", f"message store: {problem}")
        files.problems.clear()
        while (job := files.compaction()) is not None:
            self.disk.submit(job, self, MESSAGES_STRAND)

    def read(self, message: StoreRead) -> None:
        """Answer the queue with the bodies of a chunk: at once if all are in RAM, else after a job
        has read them."""
        chunk = message.chunk
        assert chunk.id_base is not None
        positions = chunk.positions()
        if not positions:
            return
        ids = [position + chunk.id_base for position in positions]
        durable = message.queue.is_durable and chunk.traits.persistent
        files = self.persistent if durable else self.transient
        contents, job = files.find(ids)
        if job is None:
            message.queue.post(BodiesRead(chunk, contents))
            return
        self.reading[job] = (message, contents)
        self.disk.submit(job, self, MESSAGES_STRAND)

    def was_read(self, job: ReadMessages) -> None:
        """Pass on the bodies that were found. A failed read is tried again READ_TRIES times; bodies
        that are missing after that, or damaged, are lost."""
        message, contents = self.reading.pop(job)
        durable = message.queue.is_durable and message.chunk.traits.persistent
        files = self.persistent if durable else self.transient
        files.done_reading(job)
        contents.update(job.contents)
        unread = str(job.failure) if job.failure is not None else job.unread
        if unread and message.tries < READ_TRIES:
            message.tries += 1
            self.rereads += 1
            self.services.world.clock.call_after(RETRY_FULL_MS, self, message)
            return
        if unread or job.missing:
            what = unread or f"{len(job.missing)} bodies are damaged"
            text = f"{message.queue.title}: messages were lost in reading them: {what}"
            self.services.world.log.write("error", text)
        message.queue.post(BodiesRead(message.chunk, contents))

    # -- for people

    def info(self) -> dict[str, dict[str, object]]:
        """Return sections of figures, by title, for the status that users see."""
        sections: dict[str, dict[str, object]] = {
            "Message store": {
                "messages_written": self.writes,
                "writes_overtaken": self.overtaken,
                "storage_failed": self.storage_failed or "no",
            },
            "Journal": {
                "file": self.journal.number,
                "files": self.journal.number - self.journal.first + 1,
                "bytes_written": self.journal.bytes,
                "groups_synced": self.commits.groups,
                "checkpoints": self.checkpoints.count,
            },
        }
        for files in (self.persistent, self.transient):
            sections[f"Message store, {files.kind}"] = dict(figures_of(files))
        return sections


def figures_of(files: MessageFiles) -> Iterable[tuple[str, int]]:
    """Yield the names and values of the figures of the files of one kind."""
    yield "files", len(files.table)
    yield "bytes", files.total_bytes
    yield "valid_bytes", files.valid_bytes
    yield "writes", files.writes
    yield "reads", files.reads
    yield "overtaken", files.overtaken
    yield "deduplicated", files.deduplicated
    yield "compactions", files.compactions
