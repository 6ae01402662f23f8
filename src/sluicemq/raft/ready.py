"""The work that an event of a member causes for its host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sluicemq.raft.entry import LogEntry, LogSnapshot
from sluicemq.raft.messages import LivePiece, RaftMessage, SnapshotPiece


@dataclass(slots=True)
class Read:
    """A read that may be answered when the machine has applied everything up to `index`."""

    context: object
    index: int


@dataclass(slots=True)
class RaftReady:
    """The host's work, to be done in this order; all that is to be written goes in one append,
    after all earlier ones.

    If `number` is not 0 the host calls `synced(number)` as soon as that append is durable, or calls
    it with a later number, which covers all before it.
    """

    number: int
    """The number of the append; 0 if there is nothing to write."""
    state: tuple[int, int] | None
    """To be written: term and vote."""
    pieces: list[SnapshotPiece | LivePiece]
    """To be written beside the log, one after the other. Content at offset 0 begins anew, and so do
    needed entries `after` 0. Pieces are only of use in this life, and before `install`."""
    install: LogSnapshot | None
    """To be written: this complete snapshot replaces the log and the machine's state; the entries
    that its content needs have come in pieces."""
    truncate_from: int
    """To be written: the log is truncated from this index on; 0: it is not."""
    entries: list[LogEntry]
    """To be written, after that."""
    messages: list[RaftMessage]
    """To be sent at once; they do not depend on this append."""
    committed: list[LogEntry]
    """To be applied, after what was committed before."""
    reads: list[Read]
    """To be answered once their index is applied."""


NOTHING: Final = RaftReady(0, None, [], None, 0, [], [], [], [])
"""No work, as after most events of a member. It is shared: nobody changes a RaftReady."""
