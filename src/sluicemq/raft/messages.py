"""The messages between members of groups. A message never changes after it was handed out, except
that the sender's host reads a piece's content and puts it in.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluicemq.compiling import mypyc_attr
from sluicemq.raft.entry import LogEntry
from sluicemq.raft.snapshot import LogSnapshot


@mypyc_attr(acyclic=True)
class RaftMessage:
    """A message from one member to another. `term` is the sender's; in a pre-vote, and in its
    grant, the term that is asked for."""

    __slots__ = ("sender", "term", "to")

    def __init__(self, sender: int, to: int, term: int) -> None:
        self.sender = sender
        self.to = to
        self.term = term

    def values(self) -> tuple[object, ...]:
        """Return all fields, in the order of the arguments of its class."""
        return self.sender, self.to, self.term

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and isinstance(other, RaftMessage)
            and other.values() == self.values()
        )

    def __hash__(self) -> int:
        return hash((self.sender, self.to, self.term))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.values()}"


class VoteRequest(RaftMessage):
    """A candidate asks for a vote, or, in a pre-vote, whether it would get one."""

    __slots__ = ("is_forced", "is_pre", "last_index", "last_term")

    def __init__(
        self,
        sender: int,
        to: int,
        term: int,
        last_index: int,
        last_term: int,
        is_pre: bool,
        is_forced: bool = False,
    ) -> None:
        super().__init__(sender, to, term)
        self.last_index = last_index
        self.last_term = last_term
        self.is_pre = is_pre
        self.is_forced = is_forced
        """The leader asked the candidate to take over, so that members need not be loyal to it."""

    def values(self) -> tuple[object, ...]:
        ends = self.sender, self.to, self.term
        return *ends, self.last_index, self.last_term, self.is_pre, self.is_forced


class VoteAnswer(RaftMessage):
    """A vote, or a pre-vote, is granted or refused."""

    __slots__ = ("is_granted", "is_pre")

    def __init__(self, sender: int, to: int, term: int, is_granted: bool, is_pre: bool) -> None:
        super().__init__(sender, to, term)
        self.is_granted = is_granted
        self.is_pre = is_pre

    def values(self) -> tuple[object, ...]:
        return self.sender, self.to, self.term, self.is_granted, self.is_pre


@mypyc_attr(acyclic=True)
class AppendEntries(RaftMessage):
    """A leader sends entries; one without any asks whether the follower has the entry before."""

    __slots__ = ("commit", "entries", "previous_index", "previous_term")

    def __init__(
        self,
        sender: int,
        to: int,
        term: int,
        previous_index: int,
        previous_term: int,
        entries: list[LogEntry],
        commit: int,
    ) -> None:
        super().__init__(sender, to, term)
        self.previous_index = previous_index
        self.previous_term = previous_term
        self.entries = entries
        self.commit = commit

    def values(self) -> tuple[object, ...]:
        ends = self.sender, self.to, self.term
        return *ends, self.previous_index, self.previous_term, self.entries, self.commit


@mypyc_attr(acyclic=True)
class AppendAnswer(RaftMessage):
    """A follower tells how much of the leader's log it has on its disk, or which entry did not
    match."""

    __slots__ = ("hint_index", "hint_term", "match", "refused")

    def __init__(
        self,
        sender: int,
        to: int,
        term: int,
        match: int,
        refused: int = 0,
        hint_index: int = 0,
        hint_term: int = 0,
    ) -> None:
        super().__init__(sender, to, term)
        self.match = match
        """Entries up to here are durable, and the same as in the leader's log."""
        self.refused = refused
        """The previous index that did not match; 0 when the entries were accepted."""
        self.hint_index = hint_index
        self.hint_term = hint_term
        """In a refusal `hint_index` is the last place where the logs may match, and this is its
        term."""

    def values(self) -> tuple[object, ...]:
        ends = self.sender, self.to, self.term
        return *ends, self.match, self.refused, self.hint_index, self.hint_term


@mypyc_attr(acyclic=True)
class LeaderBeat(RaftMessage):
    """A leader's heartbeat. `round` grows, so that an answer tells which heartbeat was heard."""

    __slots__ = ("commit", "quiet_at", "round")

    def __init__(
        self, sender: int, to: int, term: int, commit: int, round_: int, quiet_at: int = 0
    ) -> None:
        super().__init__(sender, to, term)
        self.commit = commit
        self.round = round_
        self.quiet_at = quiet_at
        """Not 0: the group may fall quiet, because all members' logs end here."""

    def values(self) -> tuple[object, ...]:
        return self.sender, self.to, self.term, self.commit, self.round, self.quiet_at


@mypyc_attr(acyclic=True)
class CommitNotice(RaftMessage):
    """A leader tells which of the entries known to be durable at a follower are committed, when no
    append that would tell it follows soon. It is not answered."""

    __slots__ = ("commit",)

    def __init__(self, sender: int, to: int, term: int, commit: int) -> None:
        super().__init__(sender, to, term)
        self.commit = commit

    def values(self) -> tuple[object, ...]:
        return self.sender, self.to, self.term, self.commit


@mypyc_attr(acyclic=True)
class BeatAnswer(RaftMessage):
    """A follower answers a heartbeat. `is_quiet`: it will not miss further heartbeats."""

    __slots__ = ("is_quiet", "round")

    def __init__(self, sender: int, to: int, term: int, round_: int, is_quiet: bool) -> None:
        super().__init__(sender, to, term)
        self.round = round_
        self.is_quiet = is_quiet

    def values(self) -> tuple[object, ...]:
        return self.sender, self.to, self.term, self.round, self.is_quiet


class SnapshotPiece(RaftMessage):
    """A piece of a snapshot's content."""

    __slots__ = ("content", "offset", "size", "snapshot")

    def __init__(
        self,
        sender: int,
        to: int,
        term: int,
        snapshot: LogSnapshot,
        offset: int,
        size: int,
        content: bytes = b"",
    ) -> None:
        super().__init__(sender, to, term)
        self.snapshot = snapshot
        self.offset = offset
        self.size = size
        self.content = content
        """The sender's host fills it in before the piece is sent: `size` bytes from `offset` on."""

    def values(self) -> tuple[object, ...]:
        return self.sender, self.to, self.term, self.snapshot, self.offset, self.size, self.content

    @property
    def is_last(self) -> bool:
        """Whether this piece completes the snapshot."""
        return self.offset + self.size == self.snapshot.size_bytes


class LivePiece(RaftMessage):
    """Some of the entries that a snapshot's content needs, sent before the content: those from the
    first behind the index `after` on. The sender's host reads them and puts them in."""

    __slots__ = ("after", "entries", "snapshot", "upto")

    def __init__(
        self,
        sender: int,
        to: int,
        term: int,
        snapshot: LogSnapshot,
        after: int,
        upto: int = 0,
        entries: Iterable[LogEntry] = (),
    ) -> None:
        super().__init__(sender, to, term)
        self.snapshot = snapshot
        self.after = after
        self.upto = upto
        """The host fills it in: this message and the earlier ones have all needed entries up to
        this index, which is above `after`."""
        self.entries = [*entries]
        """The host fills them in; some may be trimmed to what is needed."""

    def values(self) -> tuple[object, ...]:
        return self.sender, self.to, self.term, self.snapshot, self.after, self.upto, self.entries


class PieceAnswer(RaftMessage):
    """How much of that snapshot a follower has; the next piece begins there."""

    __slots__ = ("live", "received", "snapshot_index")

    def __init__(
        self, sender: int, to: int, term: int, snapshot_index: int, received: int, live: int = 0
    ) -> None:
        super().__init__(sender, to, term)
        self.snapshot_index = snapshot_index
        self.received = received
        self.live = live
        """Entries that the content needs are here up to this index."""

    def values(self) -> tuple[object, ...]:
        return self.sender, self.to, self.term, self.snapshot_index, self.received, self.live


class TakeOver(RaftMessage):
    """The leader asks a follower to start an election at once."""

    __slots__ = ()
