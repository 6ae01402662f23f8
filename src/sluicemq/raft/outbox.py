"""Messages on their way out of a member. What a message says must be durable before it is said, so
some wait for a sync."""

from __future__ import annotations

from sluicemq.raft.messages import RaftMessage


class Outbox:
    """Messages that may be sent, and those that wait for an append with the number of it."""

    __slots__ = ("free", "held", "synced_number")

    def __init__(self) -> None:
        self.free: list[RaftMessage] = []
        self.held: list[tuple[int, RaftMessage]] = []
        """In the order in which they came."""
        self.synced_number = 0

    def send(self, message: RaftMessage, after: int) -> None:
        """Give a message out once the append `after` is durable; at once if it is."""
        if after <= self.synced_number:
            self.free.append(message)
        else:
            self.held.append((after, message))

    def synced(self, number: int) -> list[RaftMessage]:
        """The messages that waited for appends up to this one, which the caller looks at and
        frees."""
        self.synced_number = number
        due = [message for after, message in self.held if after <= number]
        if due:
            self.held = [(after, message) for after, message in self.held if after > number]
        return due

    def take(self) -> list[RaftMessage]:
        """What may be sent now."""
        taken, self.free = self.free, []
        return taken
