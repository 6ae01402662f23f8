"""The log of a member that has others on other nodes: its messages to them, and incoming parts of a
leader's snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.group.member_log import GroupLog
from sluicemq.chain.queue.group.member_mail import MemberMail
from sluicemq.raft.messages import LivePiece, SnapshotPiece

if TYPE_CHECKING:
    from sluicemq.chain.queue.group.entry_kind import EntryKind
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.raft.messages import RaftMessage
    from sluicemq.raft.raft import Raft
    from sluicemq.raft.ready import RaftReady
    from sluicemq.replication.raft_post import RaftPost
    from sluicemq.storage.raft.codec import RaftRecord


class SharedLog(GroupLog):
    """The log of one of several members."""

    def __init__(
        self,
        store: MessageStore,
        group: int,
        owner: Actor,
        kind: EntryKind,
        raft: Raft,
        post: RaftPost,
        strand: int,
        *,
        is_born: bool,
    ) -> None:
        super().__init__(store, group, owner, kind, raft.member.log.snapshot, is_born=is_born)
        self.mail = MemberMail(store, post, group, owner, raft, strand)
        self.incoming = b""
        """The content of a leader's snapshot, as far as it has come."""
        self.installing = 0
        """The append that makes a leader's snapshot durable; 0: it is."""

    def write_records(self, ready: RaftReady, records: list[RaftRecord]) -> None:
        live: list[LivePiece] = []
        for piece in ready.pieces:
            if isinstance(piece, SnapshotPiece):
                self.incoming = self.incoming[: piece.offset] + piece.content
            else:
                live.append(piece)
        content = b""
        if ready.install is not None:
            content = self.incoming
            self.installing = ready.number
            self.last_index = ready.install.index
            self.bytes_since = sum(entry.size_bytes for entry in ready.entries)
        self.append(ready.number, records, content, live)

    def take_incoming(self) -> bytes:
        """Return the content of the snapshot that is complete now."""
        content, self.incoming = self.incoming, b""
        return content

    def send(self, messages: list[RaftMessage]) -> None:
        self.mail.send(messages)
