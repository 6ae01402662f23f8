"""This node's view of a quorum queue, for code that inspects queues of any type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.queues.consumer_table import ConsumerTable
from sluicemq.queues.consumers import rank
from sluicemq.queues.machine import Depth, QueueView

if TYPE_CHECKING:
    from sluicemq.queues.consumers import Consumer
    from sluicemq.queues.quorum.fifo import Fifo


class LocalConsumers(ConsumerTable):
    """The consumers whose channels are on this node."""

    def __init__(self) -> None:
        self.single_active = False
        self.members: dict[Consumer, None] = {}
        """The consumers in order of arrival."""

    @property
    def count(self) -> int:
        return len(self.members)

    def all(self) -> list[Consumer]:
        return sorted(self.members, key=rank)


class LocalState(QueueView[LocalConsumers]):
    """The depth and the consumers of a quorum queue, in life `term` of its shell."""

    def __init__(self, term: int) -> None:
        self.begin_term(term)
        self.depth = Depth()
        self.consumers = LocalConsumers()
        self.deleted = False

    def look_at(self, fifo: Fifo) -> None:
        """Copy the depth from the state."""
        depth, messages = self.depth, fifo.messages
        depth.ready = messages.count
        depth.ready_bytes = messages.bytes
        depth.unacked = messages.out
        depth.unacked_bytes = messages.out_bytes
        depth.persistent = messages.count + messages.out
        depth.consumers = len(self.consumers.members)
        self.consumers.single_active = fifo.consumers.single_active
