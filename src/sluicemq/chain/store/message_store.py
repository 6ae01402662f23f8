"""queue ---write---> MESSAGE STORE: group commit of the journal, bodies of large messages.

What comes in while a group is being synced is the next group: one record of the journal, with the
large bodies it refers to in the files of the message store. A queue hears `Written` only after the
sync that covers it. A write that is overtaken by its message's removal is never made, and confirmed
at once (spec 6.4). Groups that nobody waits for are written after a while, or when they are large.

When the disk is full a group is tried again until there is space. Any other failure seals the
storage: nothing is written and nothing is confirmed until a restart; reads go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.store.checkpoints import Checkpoints, CheckpointSaved, SegmentSync
from sluicemq.chain.store.journal_seals import Idle, JournalSeals
from sluicemq.chain.store.messages import (
    BodiesRead,
    Collect,
    Defined,
    Durable,
    Flushed,
    Forgotten,
    StoreDefinition,
    StorePaged,
    StoreQueueDeleted,
    StoreRead,
    StoreRemove,
    StoreStreamFiles,
    StoreWrite,
)
from sluicemq.chain.store.port import StorePort
from sluicemq.chain.store.reserve import GiveUp, LayAside, Reserve
from sluicemq.chain.store.store_group import Group
from sluicemq.flow.alarm import STORAGE
from sluicemq.flow.gate import Gate
from sluicemq.kernel.disk import SYNC_LANE, DiskJob
from sluicemq.limits import (
    GROUP_WAIT_MS,
    RETRY_FULL_MS,
    STORE_GROUP_BYTES,
    UNHURRIED_GROUP_BYTES,
)
from sluicemq.queues.commands import Receipt, Written
from sluicemq.storage.compaction import Compaction, Deletion
from sluicemq.storage.entries import (
    Run,
    encode_ack,
    encode_definition,
    encode_deliver,
    encode_queue_deleted,
    encode_run,
    encode_stream_files,
)
from sluicemq.storage.journal import GroupCommit, Journal, SealWrite
from sluicemq.storage.message_reads import ReadMessages
from sluicemq.storage.message_writes import MessageWrites
from sluicemq.storage.queue_index import READ_TRIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.services import Services
    from sluicemq.chain.store.messages import StoreClient
    from sluicemq.storage.message_files import MessageFiles

MESSAGES_LANE: Final = 1


class Hurry:
    """Time to write a group that nobody waits for; or to try again what the disk had no space for
    (`job`)."""

    __slots__ = ("job",)

    def __init__(self, job: DiskJob | None = None) -> None:
        self.job = job


class MessageStore(StorePort):
    """One per node. `durable` False: nothing outlives the process, so nothing is journalled."""

    kind = "message_store"
    is_common = True

    def __init__(
        self,
        services: Services,
        journal: Journal,
        persistent: MessageFiles,
        transient: MessageFiles,
    ) -> None:
        super().__init__(services.scheduler, services.world.clock)
        self.services = services
        self.disk = services.world.disk
        self.journal = journal
        self.persistent = persistent
        self.transient = transient
        self.checkpoints = Checkpoints(self)
        self.reserve = Reserve(self, services.config.storage.reserve_bytes)
        self.group = Group()
        self.committing = Group()
        self.commit: GroupCommit | None = None
        self.group_bytes_max = STORE_GROUP_BYTES
        self.full = Gate(self.keeper, "writes waiting for a sync")
        self.reading: dict[ReadMessages, tuple[StoreRead, dict[int, bytes]]] = {}
        self.rereads = 0
        """Reads that have failed and will be made again after a while."""
        self.hurrying = False
        self.sealing = JournalSeals(self)
        self.sealed = ""
        """Why nothing is written any more."""
        self.paged_bytes = 0
        """Transient bodies that were paged out and are in RAM until they are written."""
        self.paging_bytes = 0
        """Those that are being written."""
        self.writes = 0
        self.syncs = 0
        self.overtaken = 0

    @property
    def sync_runs(self) -> bool:
        return self.commit is not None

    @property
    def is_idle(self) -> bool:
        return self.commit is None and self.group.is_empty()

    def commit_soon(self) -> None:
        self.group.urgent = True
        self.schedule()

    @property
    def retrying(self) -> int:
        """Jobs that wait for space."""
        return len(self.services.no_space)

    # -- the inbox

    def receive(self, message: object) -> None:
        """Writes, removals and reads from queues; jobs that come back from the disk."""
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
        elif isinstance(message, StoreDefinition | StoreQueueDeleted):
            self.define(message)
        elif isinstance(message, Hurry):
            self.hurry(message)
        elif isinstance(message, Flushed):
            self.checkpoints.flushed(message)
        elif isinstance(message, Durable):
            self.when_durable(message)
        elif isinstance(message, StoreStreamFiles):
            self.group.streams.append(message)
            self.group.urgent |= message.urgent
        elif isinstance(message, Idle):
            self.sealing.look(message)
        else:
            super().receive(message)

    def write(self, message: StoreWrite) -> None:
        """Into the next group."""
        batch = message.batch
        count = len(batch.contents)
        self.writes += count
        group = self.group
        group.bytes += batch.size
        group.writes.append(message)
        group.places[message.queue, message.position] = message
        if message.receipt is not None:
            group.urgent = True
        if batch.first_id:
            ids = range(batch.first_id, batch.first_id + count)
            self.persistent.write_run(ids, batch.contents)
        if group.bytes > self.group_bytes_max:
            self.full.shut()
        message.inflow.settle(count, batch.size)

    def page(self, message: StorePaged) -> None:
        """Transient bodies: into their own files, which nobody waits for."""
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
        """What has not been written yet need not be."""
        group = self.group
        ranges = message.ranges
        if ranges and group.writes:
            ranges = self.overtake(message.queue, ranges)
        ranges = ranges + message.indexed
        if ranges:
            group.acks.setdefault(message.queue, []).extend(ranges)
            group.delivered[message.queue] = message.delivered
        buffered = self.persistent.buffer
        for ids in message.persistent:
            # What a group has made durable stays until it is durable that it may go.
            group.bodies += [each for each in ids if each not in buffered]
            self.persistent.remove([each for each in ids if each in buffered])
        for ids in message.transient:
            self.transient.remove(ids)
        if message.empty:
            group.collect.append(message)

    def overtake(self, queue: StoreClient, ranges: list[range]) -> list[range]:
        """Cancel the writes of this group whose messages have all gone already; they are confirmed
        at once. Returns the other ranges."""
        left: list[range] = []
        receipts: list[Receipt] = []
        for positions in ranges:
            rest = positions
            while rest and rest.step == 1:
                write = self.pending(queue, rest)
                if write is None:
                    break
                rest = rest[len(write.batch.contents) :]
                write.cancelled = True
                if write.receipt is not None:
                    receipts.append(write.receipt)
            self.overtaken += len(positions) - len(rest)
            if rest:
                left.append(rest)
        if receipts:
            queue.post(Written(receipts))
        return left

    def pending(self, queue: StoreClient, positions: range) -> StoreWrite | None:
        """The write of the group that begins where these begin and has no others. It is forgotten
        there."""
        places = self.group.places
        write = places.get((queue, positions.start))
        if write is None or len(write.batch.contents) > len(positions):
            return None
        return places.pop((queue, positions.start))

    def when_durable(self, message: Durable) -> None:
        """Answer with the group that has the last of what has come before."""
        group = self.group
        if group.is_empty():
            group = self.committing
        else:
            group.urgent = True
        if group is self.committing and self.commit is None:
            message.asker.post(message)
        else:
            group.asked.append(message)

    def define(self, message: StoreDefinition | StoreQueueDeleted) -> None:
        if self.sealed:
            if message.channel is not None:
                message.channel.post(Defined(self.sealed))
            return
        self.group.definitions.append(message)
        self.group.urgent |= message.channel is not None

    # -- group commit

    def turn_ended(self) -> None:
        """Start the next commit when something waits for one; see to what else there is to do."""
        if not self.sealed:
            self.commit_group()
            self.page_bodies()
            self.compact(self.persistent)
            self.compact(self.transient)
        if self.checkpoints.closing:
            self.checkpoints.close_when_idle()

    def commit_group(self) -> None:
        group = self.group
        if self.commit is not None or group.is_empty():
            return
        if not group.urgent and group.bytes < UNHURRIED_GROUP_BYTES:
            if not self.hurrying:
                self.hurrying = True
                self.services.world.clock.call_after(GROUP_WAIT_MS, self, Hurry())
            return
        parts = self.entries(group)
        self.committing = group
        self.group = Group()
        self.full.open()
        messages = self.persistent.take_job()
        if not parts and messages is None:
            self.committed()
            return
        if parts:
            self.commit = self.journal.group(parts)
        else:
            self.commit = GroupCommit("", 0, b"", 0)
        self.commit.messages = messages
        self.syncs += 1
        self.disk.submit(self.commit, self, SYNC_LANE)

    def entries(self, group: Group) -> list[bytes]:
        """What the group says. Definitions first, in order: messages need their queues, and what is
        said of a queue that is deleted already is of no interest."""
        parts: list[bytes] = []
        journal = self.journal
        for definition in group.definitions:
            if isinstance(definition, StoreDefinition):
                encode_definition(parts, definition.change)
            else:
                encode_queue_deleted(parts, definition.queue.id)
        for write in group.writes:
            if not write.cancelled:
                run = run_of(write)
                encode_run(parts, run)
                journal.mark(run.queue, run.first + run.count)
        for queue, ranges in group.acks.items():
            encode_ack(parts, queue.id, ranges)
            encode_deliver(parts, queue.id, group.delivered[queue])
            journal.mark(queue.id, 0)
            self.checkpoints.touch(queue)
        for stream in group.streams:
            encode_stream_files(parts, stream.files)
        return parts

    def committed(self) -> None:
        """The group is durable: tell everybody, in order of writing."""
        group = self.committing
        self.committing = Group()
        self.commit = None
        by_queue: dict[StoreClient, list[Receipt]] = {}
        for write in group.writes:
            self.checkpoints.touch(write.queue)
            if write.receipt is not None and not write.cancelled:
                by_queue.setdefault(write.queue, []).append(write.receipt)
        for queue, receipts in by_queue.items():
            queue.post(Written(receipts))
        for definition in group.definitions:
            channel = definition.channel
            if isinstance(definition, StoreQueueDeleted):
                definition.queue.post(Forgotten())
                if channel is not None:
                    channel.post(definition.answer)
            elif channel is not None:
                channel.post(Defined())
        self.persistent.remove(group.bodies)
        for stream in group.streams:
            stream.queue.post(stream)
        for removed in group.collect:
            removed.queue.post(Collect(removed.empty))
        for asked in group.asked:
            asked.asker.post(asked)
        self.reserve.look()
        self.sealing.watch()
        if self.journal.rotate():
            self.checkpoints.rotated()

    def hurry(self, message: Hurry) -> None:
        """A group has waited long enough; or there may be space again."""
        if message.job is not None:
            self.submit(message.job)
        else:
            self.hurrying = False
            self.group.urgent = not self.group.is_empty()

    # -- jobs

    def submit(self, job: DiskJob) -> None:
        lane = MESSAGES_LANE
        if isinstance(job, GroupCommit | SealWrite):
            lane = SYNC_LANE
        elif isinstance(job, SegmentSync):
            lane = job.lane
        self.disk.submit(job, self, lane)

    def done(self, job: DiskJob) -> None:
        """A job has come back."""
        if isinstance(job, ReadMessages):
            self.was_read(job)
            return
        if isinstance(job, LayAside | GiveUp):
            self.reserve.done(job)
            return
        if job.failure is not None:
            self.failed(job)
            return
        self.services.has_space(job)
        if isinstance(job, GroupCommit):
            if job.messages is not None:
                self.persistent.finished(job.messages)
            self.committed()
        elif isinstance(job, MessageWrites):
            self.transient.finished(job)
            self.services.memory_used(-self.paging_bytes)
            self.paging_bytes = 0
        elif isinstance(job, Compaction | Deletion):
            owner = self.owner_of(job)
            more = owner.compacted(job)
            if more is not None:
                self.submit(more)
        elif isinstance(job, SegmentSync):
            self.checkpoints.synced()
        elif isinstance(job, CheckpointSaved):
            self.checkpoints.saved(job)

    def owner_of(self, job: Compaction | Deletion) -> MessageFiles:
        return self.persistent if job.directory == self.persistent.directory else self.transient

    def failed(self, job: DiskJob) -> None:
        """No space: later. Anything else: never again."""
        failure = job.failure
        assert failure is not None
        if failure.is_full and isinstance(job, SealWrite):
            return  # it is a help only, and its place is the next group's
        if failure.is_full and not isinstance(job, SegmentSync):
            job.failure = None
            self.services.no_space_for(job)
            self.reserve.give_up()
            if job is self.commit:
                self.checkpoints.make_room()
            self.try_later(job)
        else:
            self.seal(str(failure))
            if job is self.commit:
                self.refuse(self.committing)

    def try_later(self, job: DiskJob) -> None:
        self.services.world.clock.call_after(RETRY_FULL_MS, self, Hurry(job))

    def seal(self, reason: str) -> None:
        """The disk cannot be trusted any more."""
        if self.sealed:
            return
        self.sealed = f"storage has failed ({reason}); restart the broker"
        self.services.world.log.write("error", f"{self.sealed}: nothing is written any more")
        self.services.alarms.raise_alarm(STORAGE, self.sealed)
        self.refuse(self.group)
        self.schedule()  # a stop waits for nothing any more

    def refuse(self, group: Group) -> None:
        """It will never be written: whoever has asked for a change hears that. No other answer is
        given, and nothing is confirmed."""
        for definition in group.definitions:
            if definition.channel is not None:
                definition.channel.post(Defined(self.sealed))
        group.definitions.clear()

    # -- bodies

    def page_bodies(self) -> None:
        """Write what was paged out since the last such job."""
        job = self.transient.take_job()
        if job is not None:
            self.paging_bytes, self.paged_bytes = self.paged_bytes, 0
            self.disk.submit(job, self, MESSAGES_LANE)
        elif self.paged_bytes and not self.transient.buffer:
            self.services.memory_used(-self.paged_bytes)  # all removed before they were written
            self.paged_bytes = 0

    def compact(self, files: MessageFiles) -> None:
        """Garbage, in the background."""
        for problem in files.problems:
            self.services.world.log.write("error", f"message store: {problem}")
        files.problems.clear()
        while (job := files.compaction()) is not None:
            self.disk.submit(job, self, MESSAGES_LANE)

    def read(self, message: StoreRead) -> None:
        """From RAM, or by a job."""
        chunk = message.chunk
        assert chunk.id_base is not None
        positions = chunk.positions()
        if not positions:
            return
        ids = [position + chunk.id_base for position in positions]
        durable = message.queue.is_durable and chunk.persistent
        files = self.persistent if durable else self.transient
        contents, job = files.find(ids)
        if job is None:
            message.queue.post(BodiesRead(chunk, contents))
            return
        self.reading[job] = (message, contents)
        self.disk.submit(job, self, MESSAGES_LANE)

    def was_read(self, job: ReadMessages) -> None:
        """Hand over what was found. What the disk has failed to read is tried again; what is
        missing after that, or damaged, is lost."""
        message, contents = self.reading.pop(job)
        durable = message.queue.is_durable and message.chunk.persistent
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
            text = f"{message.queue.title}: messages lost in reading them back: {what}"
            self.services.world.log.write("error", text)
        message.queue.post(BodiesRead(message.chunk, contents))

    # -- for people

    def info(self) -> dict[str, dict[str, object]]:
        """Sections of figures, for status."""
        sections: dict[str, dict[str, object]] = {
            "Message store": {
                "messages_written": self.writes,
                "writes_overtaken": self.overtaken,
                "sealed": self.sealed or "no",
            },
            "Journal": {
                "file": self.journal.number,
                "files": self.journal.number - self.journal.first + 1,
                "bytes_written": self.journal.bytes,
                "groups_synced": self.syncs,
                "checkpoints": self.checkpoints.count,
            },
        }
        for files in (self.persistent, self.transient):
            sections[f"Message store, {files.kind}"] = dict(figures_of(files))
        return sections


def run_of(write: StoreWrite) -> Run:
    """A write as an entry of the journal."""
    batch = write.batch
    contents = batch.contents
    count = len(contents)
    sizes = [len(contents[0])] * count if batch.even else list(map(len, contents))
    return Run(
        queue=write.queue.id,
        first=write.position,
        step=1,
        count=count,
        address=batch.address,
        number=batch.number,
        even=batch.even,
        persistent=True,
        contents=None if batch.first_id else contents,
        sizes=sizes,
        first_id=batch.first_id,
        expiry=write.expiry,
    )


def figures_of(files: MessageFiles) -> Iterable[tuple[str, int]]:
    """What there is in the files of one kind."""
    yield "files", len(files.table)
    yield "bytes", files.total_bytes
    yield "valid_bytes", files.valid_bytes
    yield "writes", files.writes
    yield "reads", files.reads
    yield "overtaken", files.overtaken
    yield "deduplicated", files.deduplicated
    yield "compactions", files.compactions
