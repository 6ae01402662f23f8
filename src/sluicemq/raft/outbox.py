"""Outgoing messages of a member. What a message states must be durable first, so some wait for a
sync.
"""

from __future__ import annotations

from sluicemq.raft.messages import RaftMessage


class Outbox:
    """Messages that may be sent, and those that wait for a numbered append."""

    __slots__ = ("free", "held", "synced_number")

    def __init__(self) -> None:
        self.free: list[RaftMessage] = []
        self.held: list[tuple[int, RaftMessage]] = []
        """Messages that wait, in order of arrival."""
        self.synced_number = 0

    def send(self, message: RaftMessage, after: int) -> None:
        """Release a message once the append `after` is durable; at once if it is."""
        if after <= self.synced_number:
            self.free.append(message)
        else:
            self.held.append((after, message))

    def synced(self, number: int) -> list[RaftMessage]:
        """Take out the messages that waited for appends up to this one; the caller checks and frees
        them."""
        self.synced_number = number
        due = [message for after, message in self.held if after <= number]
        if due:
            self.held = [(after, message) for after, message in self.held if after > number]
        return due

    def take(self) -> list[RaftMessage]:
        """Take the messages that may be sent now."""
        taken, self.free = self.free, []
        return taken
