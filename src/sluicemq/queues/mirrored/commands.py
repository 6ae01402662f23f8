"""What an entry of a mirrored queue's log says: what has become of the master's messages, by their
positions, and who is in sync.

Members are named by their ids in the Raft group.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from sluicemq.storage.entries import Run


class WriteMessages(NamedTuple):
    """Says that these messages are in the queue, at positions without a gap. One that was read has
    no contents: these are in the bytes of the entry."""

    run: Run


class RemoveMessages(NamedTuple):
    """Says that the messages at these positions have left the queue for good."""

    positions: tuple[range, ...]


class MarkDelivered(NamedTuple):
    """Says that messages below `position`, in its row, may have been delivered."""

    position: int


class BeginMastership(NamedTuple):
    """Says that a member serves the queue from now on, and so has all of it. It is the first thing
    that a master has agreed on."""

    member: int


class JoinMirror(NamedTuple):
    """Says that a confirm waits for this mirror, too, from now on."""

    member: int


class DropMirror(NamedTuple):
    """Says that no confirm waits for this mirror any more, and for people why."""

    member: int
    reason: str


class HoldMirror(NamedTuple):
    """Says that this mirror is not to be sent what is in the queue now: it gets what comes, when
    all of that has gone."""

    member: int


class ReleaseMirror(NamedTuple):
    """Says that this mirror is held no more: it is sent what there is, or is to be none."""

    member: int


MirrorCommand: TypeAlias = (
    WriteMessages
    | RemoveMessages
    | MarkDelivered
    | BeginMastership
    | JoinMirror
    | DropMirror
    | HoldMirror
    | ReleaseMirror
)


class InSyncChanged(NamedTuple):
    """Says that the in-sync set is another one: its members, the eldest first, and for people what
    has happened."""

    members: tuple[int, ...]
    event: str


class MirrorFree(NamedTuple):
    """Says that a mirror that was held may be sent the queue now."""

    member: int


MirrorEffect: TypeAlias = InSyncChanged | MirrorFree
