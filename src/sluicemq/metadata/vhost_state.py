"""What is declared in one virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.routing.delayed import holding_queue, is_holding
from sluicemq.routing.topology import Topology

if TYPE_CHECKING:
    from sluicemq.metadata.changes import Life
    from sluicemq.metadata.events import DeclaredQueue


class VhostState:
    """What is declared in one virtual host. `holding` are the queues that keep messages back for
    exchanges, by id: of one whose exchange has gone there may still be an older one. `lives` has
    the exchanges that are not durable and belong to another life than ONLY_LIFE."""

    __slots__ = ("holding", "is_closed", "lives", "queues", "topology")

    def __init__(self, name: str) -> None:
        self.topology = Topology(name)
        self.queues: dict[str, DeclaredQueue] = {}
        self.holding: dict[int, DeclaredQueue] = {}
        self.lives: dict[str, Life] = {}
        self.is_closed = False

    def held_for(self, exchange: str) -> DeclaredQueue | None:
        """The queue that keeps messages back for that exchange now; None when there is none."""
        name = holding_queue(exchange)
        found = [each for each in self.holding.values() if each.definition.name == name]
        return found[-1] if found else None


def find_queue(host: VhostState, name: str, queue_id: int) -> DeclaredQueue | None:
    """The queue of that name, unless it is another one by now; None when there is none."""
    queue = host.holding.get(queue_id) if is_holding(name) else host.queues.get(name)
    return queue if queue is not None and queue.id == queue_id else None
