"""What members of a group say to one another. A message is never changed after it was given out,
but for the content of a piece, which the sender's host reads and puts in."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluicemq.raft.entry import LogEntry, LogSnapshot


@dataclass(slots=True)
class RaftMessage:
    """From one member to another."""

    sender: int
    to: int
    term: int
    """The sender's term; of a pre-vote, and of its granting, the term that is asked for."""


@dataclass(slots=True)
class VoteRequest(RaftMessage):
    """A candidate asks for a vote, or, for a pre-vote, whether it would get one."""

    last_index: int
    last_term: int
    is_pre: bool
    is_forced: bool = False
    """The leader asked the candidate to take over, so that nobody need be loyal to it."""


@dataclass(slots=True)
class VoteAnswer(RaftMessage):
    """A vote, or a pre-vote, is granted or refused."""

    is_granted: bool
    is_pre: bool


@dataclass(slots=True)
class AppendEntries(RaftMessage):
    """A leader sends entries, or asks with none of them whether the one before is there."""

    previous_index: int
    previous_term: int
    entries: list[LogEntry]
    commit: int


@dataclass(slots=True)
class AppendAnswer(RaftMessage):
    """What a follower has on its disk of what the leader's log has, or what it did not accept."""

    match: int
    """All up to here is durable and the same as in the leader's log."""
    refused: int = 0
    """The previous index that did not match; 0 when the entries were accepted."""
    hint_index: int = 0
    hint_term: int = 0
    """Of a refusal: where the logs may match at the latest, and the term there."""


@dataclass(slots=True)
class LeaderBeat(RaftMessage):
    """A leader is there. `round` grows, so that an answer tells which heartbeat it heard."""

    commit: int
    round: int
    quiet_at: int = 0
    """Not 0: the group may fall quiet, for all members' logs end here."""


@dataclass(slots=True)
class CommitNotice(RaftMessage):
    """A leader says what is committed of that which it knows to be durable at a follower, when no
    append comes soon that would say it. It is not answered."""

    commit: int


@dataclass(slots=True)
class BeatAnswer(RaftMessage):
    """A follower follows. `is_quiet`: it will not miss further heartbeats."""

    round: int
    is_quiet: bool


@dataclass(slots=True)
class SnapshotPiece(RaftMessage):
    """A part of a snapshot's content."""

    snapshot: LogSnapshot
    offset: int
    size: int
    content: bytes = b""
    """Put in by the sender's host before the piece is sent: `size` bytes from `offset` on."""

    @property
    def is_last(self) -> bool:
        """Whether the snapshot is whole with it."""
        return self.offset + self.size == self.snapshot.size_bytes


@dataclass(slots=True)
class LivePiece(RaftMessage):
    """A part of the entries that the content of a snapshot needs, which come before the content:
    from the first behind the index `after` on. The sender's host reads them and puts them in."""

    snapshot: LogSnapshot
    after: int
    upto: int = 0
    """Put in: all that is needed up to this index, which is above `after`, is in here or in what
    came before."""
    entries: list[LogEntry] = field(default_factory=list)
    """Put in: some of them may have been trimmed to what is needed."""


@dataclass(slots=True)
class PieceAnswer(RaftMessage):
    """How much of that snapshot a follower has; that is where the next piece begins."""

    snapshot_index: int
    received: int
    live: int = 0
    """It has what the content needs up to this index."""


@dataclass(slots=True)
class TakeOver(RaftMessage):
    """The leader asks a follower to be elected at once."""
