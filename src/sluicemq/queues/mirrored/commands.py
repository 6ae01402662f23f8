"""The commands of a mirrored queue's log: the outcome of the master's messages, by their positions,
and the in-sync set.

Members are named by their ids in the Raft group.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from sluicemq.queues.by_value import ByValue
from sluicemq.storage.entries import Run


class WriteMessages(ByValue):
    """Puts these messages in the queue, at positions without a gap. A decoded command has no
    contents: these are in the bytes of the entry."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run

    def values(self) -> tuple[object, ...]:
        return (self.run,)


class RemoveMessages(ByValue):
    """Removes the messages at these positions from the queue for good."""

    __slots__ = ("positions",)

    def __init__(self, positions: tuple[range, ...]) -> None:
        self.positions = positions

    def values(self) -> tuple[object, ...]:
        return (self.positions,)


class MarkDelivered(ByValue):
    """Notes that messages below `position`, in its row, may have been delivered."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def values(self) -> tuple[object, ...]:
        return (self.position,)


class BeginMastership(NamedTuple):
    """Makes a member the master, which has all committed messages. It is a master's
    first command.
    """

    member: int


class JoinMirror(NamedTuple):
    """Makes confirms wait for this mirror, too, from now on."""

    member: int


class DropMirror(NamedTuple):
    """Makes confirms wait for this mirror no more, for a reason that users see."""

    member: int
    reason: str


class HoldMirror(NamedTuple):
    """Holds a mirror: it is not sent the messages in the queue, and is added when these
    are gone.
    """

    member: int


class ReleaseMirror(NamedTuple):
    """Ends the hold of a mirror: it is sent the queue's messages, or is to be no mirror."""

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
    """Tells that the in-sync set has changed: its members, the eldest first, and the event for
    users."""

    members: tuple[int, ...]
    event: str


class MirrorFree(NamedTuple):
    """Tells that a held mirror may be sent the queue now."""

    member: int


MirrorEffect: TypeAlias = InSyncChanged | MirrorFree
