"""channel ---batch---> STREAM ---append---> its own files; deliveries go back to channels.

A stream does not use the message store: it writes its log itself, in groups, and confirms when the
sync that covers them is over. Reads run beside it, in another strand of the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.local_queue import LocalQueue
from sluicemq.chain.queue.queue import FilesGone, Leaving, PolicyChanged
from sluicemq.chain.store.group_commit import CommitDue
from sluicemq.chain.store.messages import (
    Flush,
    Flushed,
    Forgotten,
    StoreQueueDeleted,
    StoreStreamFiles,
    TryAgain,
)
from sluicemq.flow.credit import Grant
from sluicemq.flow.gate import Gate
from sluicemq.limits import (
    GROUP_WAIT_MS,
    RETENTION_LOOK_MS,
    RETRY_FULL_MS,
    SEAL_AFTER_MS,
    STREAM_BACKLOG_BYTES,
    STREAM_SEGMENT_BYTES,
    STREAM_SEGMENT_MIN_BYTES,
    UNHURRIED_GROUP_BYTES,
)
from sluicemq.queues.commands import COMMANDS, FIRST_TERM, Down, Publish
from sluicemq.queues.effects import DeadLetter, Deleted, Deliver, Remove, Write
from sluicemq.queues.settings import settings_of
from sluicemq.queues.stream.machine import Stream
from sluicemq.storage.entries import StreamFiles
from sluicemq.storage.records import FILE_HEADER_SIZE
from sluicemq.storage.stream_log import StreamCommit, StreamDrop, StreamLog
from sluicemq.storage.stream_reads import StreamRead

if TYPE_CHECKING:
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import EffectivePolicy
    from sluicemq.queues.commands import Command
    from sluicemq.queues.effects import Effect
    from sluicemq.storage.stream_recovery import StreamRecovery

READ_STRAND_STEP: Final = 2
"""Reads of a stream do not queue behind its syncs."""


class LookAtAge:
    """Tells a stream to check for data that is too old; only the last one sent counts."""

    __slots__ = ()


class LookAtEnd:
    """Tells a stream that it may be idle: it ended at offset `end` a while ago."""

    __slots__ = ("end",)

    def __init__(self, end: int) -> None:
        self.end = end


class StreamShell(LocalQueue[Stream]):
    """The shell around a stream: it handles credit and its files, and makes effects real."""

    has_state = False

    def __init__(
        self,
        vhost: VhostPort,
        definition: QueueDefinition,
        queue_id: int,
        term: int = FIRST_TERM,
    ) -> None:
        super().__init__(vhost, definition, queue_id)
        services = vhost.services
        self.clock = services.world.clock
        self.read_strand = self.strand + READ_STRAND_STEP
        self.full = Gate(self.keeper, "writes waiting for a sync")
        self.log = StreamLog(queue_id, services.file_id)
        self.machine = Stream(self.title, self.log, services.stream_cache, term)
        self.replicator = self.replicate()
        self.commit_is_due = False
        """The waiting messages have waited long enough."""
        self.timer_runs = False
        """A CommitDue is on its way."""
        self.flushing = False
        """A stopping broker waits until everything is durable."""
        self.age_look: LookAtAge | None = None
        self.told_end = 0
        """The journal knows that everything below this offset must be there."""
        self.watching = False
        """A `LookAtEnd` is on its way."""
        self.configure(self.policy)

    @property
    def takes_enveloped(self) -> bool:
        return False

    def recover(self, found: StreamRecovery) -> None:
        """Begin at the start of the node with the recovered log."""
        self.adopt(found)
        self.told_end = self.log.next_offset
        self.retain()

    def adopt(self, found: StreamRecovery) -> None:
        """Use the recovered log; all of it is durable."""
        self.log.recovered(found.segments, found.next_offset)
        self.machine.count()
        self.machine.cached_from = self.log.durable_end

    def again(self, found: StreamRecovery) -> StreamShell:
        """Make the stream that takes its place after a fault, with what was read back."""
        fresh = StreamShell(self.vhost, self.definition, self.id, self.machine.term + 1)
        fresh.adopt(found)
        return fresh

    def configure(self, policy: EffectivePolicy | None) -> None:
        """Use the settings that follow from the arguments and this policy, from now on; None: no
        policy applies."""
        settings = settings_of(self.definition.arguments, policy.definition if policy else {})
        self.settings = settings
        wanted = settings.max_segment_bytes
        self.log.segment_bytes = max(
            STREAM_SEGMENT_BYTES if wanted is None else wanted, STREAM_SEGMENT_MIN_BYTES
        )
        self.age_look = None
        if settings.max_age_ms is not None:
            self.age_look = LookAtAge()
            self.clock.call_after(RETENTION_LOOK_MS, self, self.age_look)

    # -- the inbox

    def receive(self, message: object) -> None:
        """Handle publishes over a credited link, commands from channels, and completed jobs of the
        disk."""
        if isinstance(message, Publish):
            self.enqueue(message)
        elif isinstance(message, COMMANDS):
            if isinstance(message, Down):
                self.upstream.pop(message.channel, None)
            self.machine.wall_ms = self.clock.wall_ms()
            self.replicator.submit(message)
        elif isinstance(message, StreamCommit):
            self.written(message)
        elif isinstance(message, StreamRead):
            self.was_read(message)
        elif isinstance(message, StoreStreamFiles):
            self.files_told(message)
        elif isinstance(message, Grant):
            message.outflow.refill(message.amount)
            self.machine.window_opened(message.outflow)
        else:
            self.receive_rare(message)

    def receive_rare(self, message: object) -> None:
        """Handle messages of timers, policies and the message store, and those about the end."""
        if isinstance(message, CommitDue):
            self.timer_runs = False
            self.commit_is_due = True
        elif isinstance(message, LookAtAge):
            if message is self.age_look:
                self.retain()
                self.clock.call_after(RETENTION_LOOK_MS, self, message)
        elif isinstance(message, Leaving):
            self.leave_some()
        elif isinstance(message, LookAtEnd):
            self.look_at_end(message)
        elif isinstance(message, PolicyChanged):
            self.configure(message.policy)
            self.retain()
        elif isinstance(message, TryAgain):
            if self.machine.deleted:
                self.give_up(message.job)
            else:
                self.services.world.disk.submit(message.job, self, self.strand)
        elif isinstance(message, Flush):
            self.flushing = True
        elif isinstance(message, Forgotten):
            self.forgotten = True
            self.services.world.disk.submit(FilesGone([], self.log.directory), self, self.strand)
        elif isinstance(message, (StreamDrop, FilesGone)):
            if message.failure is not None:
                text = f"{self.title}: cannot delete unused files yet: {message.failure}"
                self.services.world.log.write("warning", text)
        else:
            self.machine.wall_ms = self.clock.wall_ms()
            if not self.replicator.receive(message):
                super().receive(message)

    def enqueue(self, publish: Publish) -> None:
        """Append a batch. Publishers get no more credit while too much waits for a sync."""
        if self.refused_messages is None:
            self.take_in(publish)
        else:
            self.take_in_part(publish, self.refused_messages)
        self.linked(publish)

    def applied(self, command: Command) -> None:
        """Shut the gate for publishers when too much waits for a sync, which is known only after a
        command is done."""
        super().applied(command)
        if self.log.unsynced_bytes > STREAM_BACKLOG_BYTES:
            self.full.shut()

    def turn_ended(self) -> None:
        """Deliver what consumers can take, begin the writes and reads that are due, account for the
        memory."""
        machine = self.machine
        machine.serve(self.effects)
        self.commit()
        for job in machine.next_reads():
            self.services.world.disk.submit(job, self, self.read_strand)
        self.effects_real()
        self.replicator.turn_ended()
        if self.flushing and not self.log.unsynced_bytes:
            self.flushed()
        footprint = self.log.unsynced_bytes
        if footprint != self.accounted:
            machine.depth.footprint = footprint
            self.services.memory_used(footprint - self.accounted)
            self.accounted = footprint

    def make_real(self, effect: Effect) -> None:
        if isinstance(effect, Deliver):
            self.delivered += len(effect.contents)
        elif isinstance(effect, Deleted):
            self.leave(effect)
            return
        assert not isinstance(effect, (DeadLetter, Write, Remove)), "a stream keeps its messages"
        if effect.channel is not None:
            effect.channel.post(effect)
            self.at = None

    # -- the disk

    def commit(self) -> None:
        """Begin to write the next group, when somebody waits for it, it is large, or it has waited
        long."""
        log = self.log
        if log.job is not None or not log.waiting or self.store.storage_failed:
            return
        urgent = self.commit_is_due or self.flushing or self.machine.is_waited_for
        if not urgent and log.waiting_bytes < UNHURRIED_GROUP_BYTES:
            if not self.timer_runs:
                self.timer_runs = True
                self.clock.call_after(GROUP_WAIT_MS, self, CommitDue())
            return
        self.commit_is_due = False
        self.machine.wall_ms = self.clock.wall_ms()
        job = self.machine.commit()
        if job is not None:
            self.services.world.disk.submit(job, self, self.strand)

    def written(self, job: StreamCommit) -> None:
        """Go on after a group was written, or was not. After anything but a lack of space nothing
        is written any more, and what is in the group is never confirmed."""
        if job.failure is None:
            self.services.has_space(job)
            if job.is_new and not self.machine.deleted:
                segment = job.segment
                first = self.log.segments[0].first if self.log.segments else segment.first
                files = StreamFiles(self.id, first, segment.first, segment.first, FILE_HEADER_SIZE)
                self.store.post(StoreStreamFiles(self, files, job, urgent=True))
            else:
                self.committed(job)
        elif self.machine.deleted:
            self.give_up(job)
        elif job.may_be_tried_again:
            job.failure = None
            self.services.no_space_for(job)
            self.store.ballast.delete()
            self.clock.call_after(RETRY_FULL_MS, self, TryAgain(job))
        else:
            self.store.fail_storage(str(job.failure))

    def committed(self, job: StreamCommit) -> None:
        """Confirm a durable group, after the journal knows that its file must exist."""
        self.machine.committed(job, self.effects)
        if self.log.unsynced_bytes <= STREAM_BACKLOG_BYTES:
            self.full.open()
        self.retain()
        self.watch_end()

    def files_told(self, message: StoreStreamFiles) -> None:
        """Continue with what waited until the journal knew which files must exist."""
        self.told_end = max(self.told_end, message.files.end)
        job = message.job
        if isinstance(job, StreamCommit):
            self.committed(job)
        elif job is not None and not self.machine.deleted:
            self.services.world.disk.submit(job, self, self.strand)

    def stream_files(self) -> StreamFiles | None:
        """Return which files must exist after a restart; None when there are none, or it is not
        known yet after a fault."""
        if self.crash is not None:
            return self.crash.files
        log = self.log
        if not log.segments:
            return None
        last = log.segments[-1]
        first = log.segments[0].first
        return StreamFiles(self.id, first, last.first, log.durable_end, last.size)

    def watch_end(self) -> None:
        """Plan to check after SEAL_AFTER_MS milliseconds whether the stream has fallen idle, unless
        the journal knows its end."""
        if not self.watching and self.told_end < self.log.durable_end:
            self.watching = True
            self.clock.call_after(SEAL_AFTER_MS, self, LookAtEnd(self.log.durable_end))

    def look_at_end(self, message: LookAtEnd) -> None:
        """Tell the journal where the log ends when nothing has come for a while: damage or loss
        before that point is then not a torn tail."""
        self.watching = False
        files = self.stream_files()
        if message.end != self.log.durable_end:
            self.watch_end()
        elif files is not None and not self.machine.deleted:
            self.store.post(StoreStreamFiles(self, files, None))

    def give_up(self, job: DiskJob) -> None:
        """Drop a write that waits for space, because the stream was deleted before
        there was any."""
        self.services.has_space(job)
        self.log.give_up()

    def was_read(self, job: StreamRead) -> None:
        """Let a reader continue with what was read, and log damage."""
        self.machine.was_read(job)
        for text in self.machine.said:
            self.services.world.log.write("error", f"{self.title}: {text}")
        self.machine.said.clear()

    def retain(self) -> None:
        """Delete data that is too old or too much, in whole segments."""
        settings = self.settings
        if self.machine.deleted or (settings.max_age_ms is None and not settings.has_limit):
            return
        self.machine.wall_ms = self.clock.wall_ms()
        dropped = self.machine.retain(settings.max_age_ms, settings.max_length_bytes)
        if dropped:
            job = StreamDrop(self.log.directory, [segment.path for segment in dropped])
            files = self.stream_files()
            assert files is not None, "the last segment stays"
            self.store.post(StoreStreamFiles(self, files, job))

    # -- ends

    def flushed(self) -> None:
        """Tell the store that everything is durable, so that the broker may stop."""
        self.flushing = False
        self.store.post(Flushed(self))

    def finish(self, answer: Deleted) -> None:
        self.age_look = None
        self.full.open()
        if self.flushing:
            self.flushed()
        self.store.post(StoreQueueDeleted(self, answer))
