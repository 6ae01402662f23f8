"""The messages between members of groups. A message never changes after it was handed out, except
that the sender's host reads a piece's content and puts it in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluicemq.raft.entry import LogEntry, LogSnapshot


@dataclass(slots=True)
class RaftMessage:
    """A message from one member to another."""

    sender: int
    to: int
    term: int
    """The sender's term; in a pre-vote, and in its grant, the term that is asked for."""


@dataclass(slots=True)
class VoteRequest(RaftMessage):
    """A candidate asks for a vote, or, in a pre-vote, whether it would get one."""

    last_index: int
    last_term: int
    is_pre: bool
    is_forced: bool = False
    """The leader asked the candidate to take over, so that members need not be loyal to it."""


@dataclass(slots=True)
class VoteAnswer(RaftMessage):
    """A vote, or a pre-vote, is granted or refused."""

    is_granted: bool
    is_pre: bool


@dataclass(slots=True)
class AppendEntries(RaftMessage):
    """A leader sends entries; one without any asks whether the follower has the entry before."""

    previous_index: int
    previous_term: int
    entries: list[LogEntry]
    commit: int


@dataclass(slots=True)
class AppendAnswer(RaftMessage):
    """A follower tells how much of the leader's log it has on its disk, or which entry did not
    match."""

    match: int
    """Entries up to here are durable, and the same as in the leader's log."""
    refused: int = 0
    """The previous index that did not match; 0 when the entries were accepted."""
    hint_index: int = 0
    hint_term: int = 0
    """In a refusal `hint_index` is the last place where the logs may match, and this is its
    term."""


@dataclass(slots=True)
class LeaderBeat(RaftMessage):
    """A leader's heartbeat. `round` grows, so that an answer tells which heartbeat was heard."""

    commit: int
    round: int
    quiet_at: int = 0
    """Not 0: the group may fall quiet, because all members' logs end here."""


@dataclass(slots=True)
class CommitNotice(RaftMessage):
    """A leader tells which of the entries known to be durable at a follower are committed, when no
    append that would tell it follows soon. It is not answered."""

    commit: int


@dataclass(slots=True)
class BeatAnswer(RaftMessage):
    """A follower answers a heartbeat. `is_quiet`: it will not miss further heartbeats."""

    round: int
    is_quiet: bool


@dataclass(slots=True)
class SnapshotPiece(RaftMessage):
    """A piece of a snapshot's content."""

    snapshot: LogSnapshot
    offset: int
    size: int
    content: bytes = b""
    """The sender's host fills it in before the piece is sent: `size` bytes from `offset` on."""

    @property
    def is_last(self) -> bool:
        """Whether this piece completes the snapshot."""
        return self.offset + self.size == self.snapshot.size_bytes


@dataclass(slots=True)
class LivePiece(RaftMessage):
    """Some of the entries that a snapshot's content needs, sent before the content: those from the
    first behind the index `after` on. The sender's host reads them and puts them in."""

    snapshot: LogSnapshot
    after: int
    upto: int = 0
    """The host fills it in: this message and the earlier ones have all needed entries up to this
    index, which is above `after`."""
    entries: list[LogEntry] = field(default_factory=list)
    """The host fills them in; some may be trimmed to what is needed."""


@dataclass(slots=True)
class PieceAnswer(RaftMessage):
    """How much of that snapshot a follower has; the next piece begins there."""

    snapshot_index: int
    received: int
    live: int = 0
    """Entries that the content needs are here up to this index."""


@dataclass(slots=True)
class TakeOver(RaftMessage):
    """The leader asks a follower to start an election at once."""
