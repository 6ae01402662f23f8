"""What the message store tells the owner of a Raft member about the group's log."""

from __future__ import annotations


class RaftAppended:
    """Sent to the owner of a Raft member: its append `number`, and all before it, are durable."""

    __slots__ = ("group", "number")

    def __init__(self, group: int, number: int) -> None:
        self.group = group
        self.number = number


class RaftSettled:
    """Sent to the actor that made the last append of a Raft group: entries up to the index `top`
    are durable in segments and can be read from there, as far as the log still has them. So their
    data need not stay in memory."""

    __slots__ = ("group", "top")

    def __init__(self, group: int, top: int) -> None:
        self.group = group
        self.top = top


class RaftSnapshotWanted:
    """Sent to the actor that made the last append of a Raft group: a checkpoint will soon have to
    write entries of the group to a segment, except those that a snapshot replaces before that."""

    __slots__ = ()


class RaftRefused:
    """Sent to the owner of a Raft member: its append `number` will never be durable, because the
    storage has failed; `reason` is for users."""

    __slots__ = ("group", "number", "reason")

    def __init__(self, group: int, number: int, reason: str) -> None:
        self.group = group
        self.number = number
        self.reason = reason


class RaftSnapshotKept:
    """Sent to the owner of a Raft member: its snapshot at `index` is durable and counts, so that
    the log may begin behind it; or it came too late to count, because a leader's has overtaken it.
    """

    __slots__ = ("group", "index")

    def __init__(self, group: int, index: int) -> None:
        self.group = group
        self.index = index
