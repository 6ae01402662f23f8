"""The work that an event of a member causes for its host."""

from __future__ import annotations

from typing import Final

from sluicemq.raft.entry import LogEntry
from sluicemq.raft.messages import LivePiece, RaftMessage, SnapshotPiece
from sluicemq.raft.snapshot import LogSnapshot


class Read:
    """A read that may be answered when the machine has applied everything up to `index`."""

    __slots__ = ("context", "index")

    def __init__(self, context: object, index: int) -> None:
        self.context = context
        self.index = index


class RaftReady:
    """The host's work, to be done in this order; all that is to be written goes in one append,
    after all earlier ones.

    If `number` is not 0 the host calls `synced(number)` as soon as that append is durable, or calls
    it with a later number, which covers all before it.
    """

    __slots__ = (
        "committed",
        "entries",
        "install",
        "messages",
        "number",
        "pieces",
        "reads",
        "state",
        "truncate_from",
    )

    def __init__(
        self,
        number: int,
        state: tuple[int, int] | None,
        pieces: list[SnapshotPiece | LivePiece],
        install: LogSnapshot | None,
        truncate_from: int,
        entries: list[LogEntry],
        messages: list[RaftMessage],
        committed: list[LogEntry],
        reads: list[Read],
    ) -> None:
        self.number = number
        """The number of the append; 0 if there is nothing to write."""
        self.state = state
        """To be written: term and vote."""
        self.pieces = pieces
        """To be written beside the log, one after the other. Content at offset 0 begins anew, and
        so do needed entries `after` 0. Pieces are only of use in this life, and before `install`.
        """
        self.install = install
        """To be written: this complete snapshot replaces the log and the machine's state; the
        entries that its content needs have come in pieces."""
        self.truncate_from = truncate_from
        """To be written: the log is truncated from this index on; 0: it is not."""
        self.entries = entries
        """To be written, after that."""
        self.messages = messages
        """To be sent at once; they do not depend on this append."""
        self.committed = committed
        """To be applied, after what was committed before."""
        self.reads = reads
        """To be answered once their index is applied."""


NOTHING: Final = RaftReady(0, None, [], None, 0, [], [], [], [])
"""No work, as after most events of a member. It is shared: nobody changes a RaftReady."""
