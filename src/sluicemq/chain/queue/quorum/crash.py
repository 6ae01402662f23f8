"""A quorum queue whose own code has failed: it is treated like a classic queue (crash_recovery.py).

Its member of the group is sound and goes on: otherwise the node would have ended. A fresh state is
built from the newest snapshot and the log behind it; for the fresh state all publishers and
consumers are gone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sluicemq.chain.queue.crash_recovery import Crash
from sluicemq.chain.queue.fault_history import CRASHED
from sluicemq.chain.queue.group.member_messages import MemberGone
from sluicemq.chain.store.raft_answers import (
    RaftAppended,
    RaftRefused,
    RaftSettled,
    RaftSnapshotKept,
    RaftSnapshotWanted,
)
from sluicemq.errors import Corrupt
from sluicemq.kernel.disk import Files
from sluicemq.queues import commands as c
from sluicemq.queues.quorum.entry_content import EntryContent
from sluicemq.storage.queue_recovery import ReadBack
from sluicemq.storage.raft.codec import RaftSnapshot
from sluicemq.storage.raft.segment_file import raft_directory
from sluicemq.storage.raft.snapshot_file import read_raft_content

if TYPE_CHECKING:
    from sluicemq.chain.queue.quorum.shell import QuorumShell
    from sluicemq.kernel.cleanup_steps import Step
    from sluicemq.storage.raft.reading import RaftEntriesRead

FROM_STORE = (RaftAppended, RaftRefused, RaftSettled, RaftSnapshotKept, RaftSnapshotWanted)


class QuorumReadBack(ReadBack):
    """Reads the content of a group's snapshot, and entries that are not in RAM any more (None: all
    are). The results are in `content` and `found`."""

    def __init__(self, record: RaftSnapshot, entries: RaftEntriesRead | None) -> None:
        super().__init__()
        self.record = record
        self.entries = entries
        self.content = b""
        self.found: dict[int, bytes] = {}

    @property
    def is_stale(self) -> bool:
        """Tell whether the entries have to be looked up again, because their segments are gone."""
        return self.entries is not None and self.entries.is_stale

    def read(self, files: Files) -> None:
        self.content = read_raft_content(files, self.record)
        if self.entries is not None:
            self.entries.run(files)
            if self.entries.problem:
                raise Corrupt(self.entries.problem)
            self.found = self.entries.found


class QuorumCrash(Crash[Any]):
    """Stands in for a quorum queue that has failed."""

    queue: QuorumShell
    unread = "its log stays as it is"
    is_leaving = False
    """Its member has left the group: it ends once it was read back, or cannot be."""

    def failed(self) -> None:
        """Stay down; checkpoints need not wait, because they have the log."""
        self.state = CRASHED
        self.release()

    def steps(self, asked: list[object], effects: list[object]) -> list[Step]:
        queue = self.queue
        ends = [*queue.ends.values()]
        return [
            self.mark_deleted,
            partial(self.receive, asked[0] if asked else None),
            *(partial(self.ask_again, end.question) for end in ends if end.question is not None),
            *(partial(self.refuse, end.actor) for end, _ in queue.deliveries_due.got),
            *(partial(self.refuse, channel) for _, channel in queue.inspections),
            self.cancel_consumers,
            self.let_senders_go,
            self.give_memory_back,
            queue.full.open,
            queue.dead_lettering.close,
            self.vhost.topology.has_changed,
        ]

    def ask_again(self, question: c.Command) -> None:
        """Answer a request that was waiting for the queue."""
        self.receive(question)

    def release(self) -> None:
        super().release()
        if self.is_leaving:
            self.vhost.departs(self.queue.latest)

    def receive(self, message: object) -> None:
        queue = self.queue
        if isinstance(message, MemberGone) and not queue.gone:
            self.is_leaving = True
            if self.is_safe:
                self.vhost.departs(queue.latest)
        elif not isinstance(message, FROM_STORE):
            super().receive(message)
        elif queue.gone:
            pass  # its log is forgotten
        elif queue.successor is not None:
            queue.successor.post(message)
        elif isinstance(message, RaftAppended):
            queue.replicator.raft.synced(message.number)
        elif isinstance(message, RaftSnapshotKept) and queue.snapshots.taken is not None:
            queue.snapshots.kept()  # the fault may have come after that

    def settled(self, message: c.Settle) -> None:
        """Do nothing, because unacknowledged messages return to the queue."""

    @property
    def directory(self) -> str:
        return raft_directory(self.queue.id)

    def forget_log(self) -> None:
        self.queue.forget_log()

    def recovery(self) -> QuorumReadBack:
        queue = self.queue
        storage = self.store.raft
        record = storage.table.group(queue.id).snapshot_record
        missing = [
            entry.index
            for entry in queue.replicator.raft.member.log.entries
            if isinstance(entry.data, EntryContent) and not entry.data.is_there
        ]
        return QuorumReadBack(record, storage.reading(queue.id, missing) if missing else None)

    def goes_on(self, job: QuorumReadBack) -> None:
        queue, log = self.queue, self.services.world.log
        raft = queue.replicator.raft
        if raft.is_amnesiac:
            self.state = CRASHED
            text = f"{queue.title} stays down: its log was damaged, and it has no other member"
            log.write("error", text)
            return
        newest = self.store.raft.table.group(queue.id).snapshot_record
        if job.is_stale or job.record != newest:
            job = self.recovery()  # other files have replaced these meanwhile
            self.services.world.disk.submit(job, queue, queue.strand)
            return
        fresh = queue.again(job.content, job.found)
        self.vhost.replace(queue, fresh)
        text = f"{queue.title} goes on with {fresh.fifo.messages.count} messages"
        log.write("warning", text)

    def stays_down(self, job: QuorumReadBack) -> None:
        """Keep nothing, because checkpoints have the log."""
