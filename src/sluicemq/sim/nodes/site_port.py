"""The clients of one node, as each of them sees the others and the run."""

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
    """This is the site of node `number`, as its clients see it."""

    number: int
    plan: NodesPlan
    book: ClusterBook
    registers: RegisterBook
    random: Random
    known: dict[str, None]
    """The queues of which its node knows."""
    is_healing: bool
    """Are there no more faults, and is everybody to come to an end?"""
    is_leaving: bool
    """Are all to close their connections?"""

    @property
    def node(self) -> Node:
        """The node that its clients connect to, which runs."""
        raise NotImplementedError

    def found(self, queue: str) -> None:
        """Note that the node knows of this queue."""
        raise NotImplementedError

    def bound(self) -> None:
        """Note that the node knows that all queues are bound to the exchange of all."""
        raise NotImplementedError

    def life_of(self, queue: str) -> int:
        """Return the id of this queue as its node knows it; that of the next one that is declared
        there, when it is not."""
        raise NotImplementedError

    def any_queue(self) -> str:
        """Return the name of a queue that its clients use."""
        raise NotImplementedError
