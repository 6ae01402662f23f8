"""The interface of a node's site to its clients: the other clients and the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.sim.peer import PeerStage

if TYPE_CHECKING:
    from random import Random

    from sluicemq.node import Node
    from sluicemq.sim.nodes.book import ClusterBook
    from sluicemq.sim.nodes.plan import NodesPlan
    from sluicemq.sim.nodes.registers import RegisterBook


class SitePort(PeerStage):
    """The site of node `number`, as its clients see it."""

    number: int
    plan: NodesPlan
    book: ClusterBook
    registers: RegisterBook
    random: Random
    known: dict[str, None]
    """The queues that its node knows."""
    is_healing: bool
    """True when there are no more faults, and all clients are to finish."""
    is_leaving: bool
    """True when all clients are to close their connections."""

    @property
    def node(self) -> Node:
        """Return the running node that its clients connect to."""
        raise NotImplementedError

    def found(self, queue: str) -> None:
        """Note that the node knows of this queue."""
        raise NotImplementedError

    def bound(self) -> None:
        """Note that the node knows that all queues are bound to the exchange of all."""
        raise NotImplementedError

    def life_of(self, queue: str) -> int:
        """Return the id of this queue as its node knows it; if it does not, the id of the next
        queue declared there."""
        raise NotImplementedError

    def any_queue(self) -> str:
        """Return the name of a queue that its clients use."""
        raise NotImplementedError
