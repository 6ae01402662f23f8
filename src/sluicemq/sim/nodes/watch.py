"""Records events at each node of a run as they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.cluster.cluster_port import NodeDown
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from sluicemq.cluster.cluster import NodeCluster
    from sluicemq.sim.nodes.book import Outages


class LinkWatch(Actor):
    """Notes the end of each link of its node at once: it has no turns."""

    def __init__(self, cluster: NodeCluster, outages: Outages) -> None:
        super().__init__(cluster.scheduler)
        self.cluster = cluster
        self.outages = outages
        cluster.follow(self)

    def post(self, message: object) -> None:
        if isinstance(message, NodeDown):
            self.outages.links[frozenset((self.cluster.node, message.node))] += 1
