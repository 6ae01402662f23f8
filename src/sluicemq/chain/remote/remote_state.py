"""What this node knows of a queue on another one: that it exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.queues.commands import FIRST_TERM
from sluicemq.queues.machine import Depth, QueueView

if TYPE_CHECKING:
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.queues.consumers import Consumer


class NoConsumers:
    """Stands for consumers that are known elsewhere."""

    count = 0

    def __init__(self, single_active: bool) -> None:
        self.single_active = single_active

    def all(self) -> list[Consumer]:
        return []


class RemoteState(QueueView[NoConsumers]):
    """The state of a queue on another node: who has requests there, and the link for
    the answers."""

    def __init__(self, definition: QueueDefinition) -> None:
        self.depth = Depth()
        is_single = definition.arguments.get("x-single-active-consumer") is True
        self.consumers = NoConsumers(is_single)
        self.deleted = False
        self.begin_term(FIRST_TERM)
