"""Which acknowledgements cannot have been lost.

An ack is *processed* when a question asked after it on the same channel is answered. It is *sure*
when a persistent message that was sent after that is confirmed: whatever the broker writes, it
writes in order. A message with a sure ack never comes again, however the broker ends; one whose ack
is not sure may, flagged (`History` looks after that).
"""

from __future__ import annotations

from sluicemq.sim.history import promise
from sluicemq.sim.messages import MessageId


class SureAcks:
    """All queues of a run together."""

    def __init__(self) -> None:
        self.processed: list[tuple[str, MessageId]] = []
        self.sure: set[tuple[str, MessageId]] = set()
        self.sure_end = 0
        """Index into `processed`: what is before has gone to `sure`."""
        self.acked = 0
        """All there were, sure or not."""

    def process(self, queue: str, messages: list[MessageId]) -> None:
        """The broker has handled the acks of these."""
        self.processed += [(queue, message) for message in messages]

    @property
    def mark(self) -> int:
        """To be remembered with a message that is sent now."""
        return len(self.processed)

    def confirm(self, mark: int) -> None:
        """A message sent at that mark is durable."""
        if mark > self.sure_end:
            self.sure.update(self.processed[self.sure_end : mark])
            self.sure_end = mark

    def look(self, queue: str, message: MessageId) -> None:
        """The message is delivered."""
        promise((queue, message) not in self.sure, message, "comes from", queue, "after its ack")
