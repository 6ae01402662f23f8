"""What this node knows of a queue of another one: that it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.queues.commands import FIRST_TERM
from sluicemq.queues.machine import Depth, QueueView

if TYPE_CHECKING:
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.queues.consumers import Consumer


class NoConsumers:
    """Stands for the consumers of a queue that are known elsewhere."""

    count = 0

    def __init__(self, single_active: bool) -> None:
        self.single_active = single_active

    def all(self) -> list[Consumer]:
        return []


class RemoteState(QueueView[NoConsumers]):
    """The state of a queue that another node has: who has asked for something, and over which link
    it hears of it."""

    def __init__(self, definition: QueueDefinition) -> None:
        self.depth = Depth()
        is_single = definition.arguments.get("x-single-active-consumer") is True
        self.consumers = NoConsumers(is_single)
        self.deleted = False
        self.begin_term(FIRST_TERM)
