"""Messages from a member to the others of its group, with parts that have to be read from the disk.

An entry in a segment need not be in RAM, and neither need a snapshot's content. They are read for a
lagging member and sent to it in order: reads take time, but only messages to that member wait.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Corrupt, DiskFailed, Refused
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.limits import RAFT_PIECE_BYTES
from sluicemq.queues.log_content import LogContent
from sluicemq.raft.entry import LogEntry
from sluicemq.raft.messages import AppendEntries, LivePiece, SnapshotPiece
from sluicemq.storage.raft.reading import RaftEntriesRead, RaftLiveRead
from sluicemq.storage.raft.snapshot_file import read_raft_content

if TYPE_CHECKING:
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.raft.messages import RaftMessage
    from sluicemq.raft.raft import Raft
    from sluicemq.raft.snapshot import LogSnapshot
    from sluicemq.replication.raft_post import RaftPost
    from sluicemq.storage.raft.codec import RaftSnapshot


class RaftContentRead(DiskJob):
    """Reads the content of a snapshot. `content` is None if it cannot be read, or is gone."""

    def __init__(self, record: RaftSnapshot) -> None:
        self.record = record
        self.content: bytes | None = None

    def run(self, files: Files) -> None:
        try:
            self.content = read_raft_content(files, self.record)
        except (Corrupt, Refused, DiskFailed):
            self.content = None


WITH_CONTENT: Final = (AppendEntries, LivePiece, SnapshotPiece)
"""Messages of which parts may have to be read."""
MailRead = RaftContentRead | RaftEntriesRead | RaftLiveRead


class MemberMail:
    """Sends messages for one member. Reads run in `strand` of the disk, for its `owner`."""

    def __init__(
        self,
        store: MessageStore,
        post: RaftPost,
        group: int,
        owner: Actor,
        raft: Raft,
        strand: int,
    ) -> None:
        self.store = store
        self.post = post
        self.group = group
        self.owner = owner
        self.raft = raft
        self.strand = strand
        self.piece_bytes = RAFT_PIECE_BYTES
        """The entries that a snapshot needs are sent in pieces of so many bytes, at most
        RAFT_PIECE_BYTES."""
        self.waiting: dict[int, deque[RaftMessage]] = {}
        """Unsent messages by member, the first of which waits for a read. Raft bounds what is under
        way to a member."""
        self.reading: dict[MailRead, int] = {}
        """The member that each read is for."""
        self.content: tuple[LogSnapshot, bytes] | None = None
        """The content of the snapshot that is being sent."""

    def send(self, messages: list[RaftMessage]) -> None:
        """Send messages as soon as they are complete."""
        whole: list[RaftMessage] = []
        for message in messages:
            waiting = self.waiting.get(message.to)
            if isinstance(message, WITH_CONTENT):
                if waiting is not None:
                    waiting.append(message)
                    continue
                if not self.is_whole(message):
                    self.waiting[message.to] = deque([message])
                    self.read(message)
                    continue
            whole.append(message)
        if whole:
            self.post.send(self.group, whole)
        if self.content is not None and self.content[0] not in self.raft.pinned():
            self.content = None

    def is_whole(self, message: RaftMessage) -> bool:
        """Tell whether a message can be sent now; the content of a piece is put in."""
        if isinstance(message, AppendEntries):
            return not lacking(message)
        if isinstance(message, SnapshotPiece):
            if self.content is None or self.content[0] != message.snapshot:
                return not message.size
            message.content = self.content[1][message.offset : message.offset + message.size]
        return isinstance(message, SnapshotPiece) or (
            isinstance(message, LivePiece) and message.upto > message.after
        )

    def read(self, message: RaftMessage) -> None:
        """Read what a message lacks; the member is sent unreadable data anew later."""
        storage = self.store.raft
        job: MailRead | None = None
        if isinstance(message, AppendEntries):
            job = storage.whole_reading(self.group, lacking(message))
        elif isinstance(message, LivePiece):
            size = min(self.piece_bytes, RAFT_PIECE_BYTES)
            job = storage.live_reading(self.group, message.snapshot, message.after, size)
        elif isinstance(message, SnapshotPiece):
            group = storage.table.groups.get(self.group)
            if group is not None and group.snapshot == message.snapshot:
                job = RaftContentRead(group.snapshot_record)
        if job is None:
            self.give_up(message)
        else:
            self.reading[job] = message.to
            self.owner_submit(job)

    def owner_submit(self, job: MailRead) -> None:
        self.store.services.world.disk.submit(job, self.owner, self.strand)

    def give_up(self, message: RaftMessage) -> None:
        """Drop the messages that wait for a member. Instead of a snapshot that is gone it is sent
        the next one; Raft sends other missing data again on request."""
        del self.waiting[message.to]
        if isinstance(message, SnapshotPiece):
            self.raft.send_anew(message.to)

    def close(self) -> None:
        """Drop the messages that wait for reads, because the member takes no part any more."""
        self.waiting.clear()
        self.content = None

    def was_read(self, job: MailRead) -> bool:
        """Send the messages that have waited for a read, unless they were dropped meanwhile.
        Returns False if the read was not of this object."""
        to = self.reading.pop(job, 0)
        if not to:
            return False
        waiting = self.waiting.get(to)
        if waiting is None:
            return True
        message = waiting[0]
        if isinstance(job, RaftContentRead) and job.content is not None:
            self.content = (job.record.snapshot, job.content)
        elif isinstance(job, RaftLiveRead) and isinstance(message, LivePiece):
            message.entries, message.upto = job.entries, job.upto
            if lacking(message):
                self.read(message)  # some have gone from RAM to a segment meanwhile
                return True
        elif isinstance(job, RaftEntriesRead) and isinstance(message, AppendEntries):
            message.entries = [filled(entry, job.found) for entry in message.entries]
        if not self.is_whole(message):
            self.give_up(message)
            return True
        del self.waiting[to]
        self.send([*waiting])
        return True


def lacking(message: AppendEntries | LivePiece) -> list[int]:
    """Return the indexes of a message's entries that are not in RAM."""
    return [
        entry.index
        for entry in message.entries
        if isinstance(entry.data, LogContent) and not entry.data.is_there
    ]


def filled(entry: LogEntry, found: dict[int, bytes]) -> LogEntry:
    """Return an entry with its bytes, if they were read."""
    data = found.get(entry.index)
    return entry if data is None else entry.with_data(data)
