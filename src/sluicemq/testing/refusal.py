"""Queues that reject the next messages, to test what publishers do then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.actor import StandIn
from sluicemq.model.batch import part_of
from sluicemq.queues.commands import Publish
from sluicemq.queues.effects import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.queue.queue import Queue
    from sluicemq.kernel.actor import Actor


class Refusal(StandIn):
    """Removes the next messages from the inboxes of queues before the queues have their turns, and
    rejects them to publishers with confirms."""

    def __init__(self) -> None:
        self.left = 0
        """How many messages are to be refused yet, in all."""
        self.queues: set[Queue] = set()
        """The queues that this stands in for."""

    def begin(self, left: int, queues: Iterator[Queue]) -> None:
        """Reject the next `left` messages to these queues; all others pass."""
        self.left = left
        for queue in self.queues:
            if queue.stand_in is self:
                queue.stand_in = None
        self.queues = {queue for queue in queues if left and queue.stand_in is None}
        for queue in self.queues:
            queue.stand_in = self

    def take_turn(self, actor: Actor) -> None:
        queue = next(each for each in self.queues if each is actor)
        queue.stand_in = None
        queue.inbox = [*self.passed(queue)]
        queue.run_turn()
        if self.left and queue.stand_in is None:
            queue.stand_in = self

    def passed(self, queue: Queue) -> Iterator[object]:
        """Yield the contents of the inbox without rejected messages. Of a batch the last ones are
        rejected: only then can the others be confirmed."""
        for message in queue.inbox:
            if not self.left or not isinstance(message, Publish):
                yield message
                continue
            size = len(message.batch.contents)
            kept = max(0, size - self.left)
            self.refuse(queue, message, kept)
            if kept:
                batch = part_of(message.batch, 0, kept)
                yield Publish(batch, message.link, message.first_seq, message.confirm)

    def refuse(self, queue: Queue, publish: Publish, kept: int) -> None:
        """Reject all messages of a batch except the first `kept`, as if the queue had
        handled them.
        """
        batch, link = publish.batch, publish.link
        refused = part_of(batch, kept, len(batch.contents))
        count = len(refused.contents)
        self.left -= count
        queue.published += count
        queue.upstream[link.sender] = link
        link.taken(count, refused.size)
        if publish.confirm:
            link.sender.post(Rejected(link, publish.first_seq, kept, count))
