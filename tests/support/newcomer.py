"""A whole broker in simulated time that joins a cluster, as `serve --cluster-join` does."""

from __future__ import annotations

from sluicemq.cluster.joining import ClusterJoining
from sluicemq.cluster.node_file import kept_record
from sluicemq.cluster_config import ClusterConfig, listed_node
from sluicemq.kernel.actor import Scheduler
from support.linked_brokers import PORT, SECRET, Cluster, LinkedBroker


class Newcomer(LinkedBroker):
    """A node that asks the node `asks` to be let in when it starts, unless it is a member."""

    def __init__(
        self, run: Cluster, number: int, asks: int = 1, name: str = "", secret: bytes = SECRET
    ) -> None:
        self.asks = asks
        self.name = name or f"n{number}"
        self.secret = secret
        self.refusal = ""
        self.is_broker = False
        self.note = ""
        super().__init__(run, number)

    def configured(self) -> ClusterConfig:
        return ClusterConfig(
            name=self.name,
            host=self.host,
            port=PORT,
            join=(f"h{self.asks}:{PORT}",),
            secret_file="none",
        )

    def start(self) -> None:
        self.is_broker = False
        if kept_record(self.files) is not None:
            super().start()
            self.is_broker = True
            return
        self.life += 1
        self.is_running = True
        scheduler = Scheduler()
        self.drive(scheduler)
        world = self.make_world()
        addresses = [listed_node(f"h{self.asks}:{PORT}")]
        config = self.configured()
        joining = ClusterJoining(
            scheduler, world, config, self.secret, addresses, self.joined, self.refused
        )
        joining.start()
        self.wake()

    def joined(self, note: str) -> None:
        self.note = note
        life = self.life
        self.run.timeline.after(1, self.host, "is a broker", self.go_on, life)

    def go_on(self, life: object) -> None:
        if self.life == life and self.is_running:
            self.net.crash()
            self.start()

    def refused(self, sentence: str) -> None:
        self.refusal = sentence

    @property
    def is_open(self) -> bool:
        return self.is_broker and self.is_running and self.node.is_open

    @property
    def number_there(self) -> int:
        """The number that it has been given."""
        membership = self.node.membership
        assert membership is not None
        return membership.cluster.node
