"""What is written down at each node of a run as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.cluster.cluster_port import NodeDown
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from sluicemq.cluster.cluster import NodeCluster
    from sluicemq.sim.nodes.book import Outages


class LinkWatch(Actor):
    """Notes each end of a link that its node hears of, at once: it has no turns."""

    def __init__(self, cluster: NodeCluster, outages: Outages) -> None:
        super().__init__(cluster.scheduler)
        self.cluster = cluster
        self.outages = outages
        cluster.follow(self)

    def post(self, message: object) -> None:
        if isinstance(message, NodeDown):
            self.outages.links[frozenset((self.cluster.node, message.node))] += 1
