"""A node on its way into its cluster: from what is configured and what its data directory says to
its links, and to being a member. It does what the machine of founding.py says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.cluster.cluster import NodeCluster
from sluicemq.cluster.cluster_port import FOUNDING, NodeDown, NodeUp, PeerMessage
from sluicemq.cluster.founding import (
    BrokenFounding,
    ClusterFounding,
    ClusterKept,
    FoundedCluster,
    FoundingCommand,
    FoundingEffect,
    FoundingProblem,
    FoundingSaid,
    JoinCluster,
    KeepCluster,
    MemberHeard,
    MemberLost,
    SayFounding,
    decode_founding,
    encode_founding,
)
from sluicemq.cluster.introduction import TOKEN_BYTES
from sluicemq.cluster.members import Member
from sluicemq.cluster.node_file import NodeFile, WriteNodeFile, begin_life
from sluicemq.cluster.node_path import is_there
from sluicemq.errors import Refused
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluicemq.cluster.bounds import LinkBounds
    from sluicemq.cluster_config import ClusterConfig
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import World


class ClusterMembership(Actor):
    """This node, of a cluster with the configured nodes, which share the secret. `is_used` says
    that the data directory has something in it that a broker has stored. Raises Refused when that
    broker was alone, or another node; Corrupt; DiskFailed."""

    def __init__(
        self,
        scheduler: Scheduler,
        world: World,
        config: ClusterConfig,
        secret: bytes,
        is_used: bool,
        bounds: LinkBounds | None = None,
    ) -> None:
        super().__init__(scheduler)
        if is_used and not is_there(world.disk.files):
            raise Refused(
                "cluster.nodes is set, and the broker of this data directory has run alone: only a"
                " node with a new data directory can become part of a cluster; nothing was changed"
            )
        self.world = world
        self.addresses = config.addresses
        name, number = config.own_name, config.own_number
        self.book = begin_life(world, "", name, number, self.addresses)
        members = [
            Member(each, listed.host, listed.port, listed.name)
            for each, listed in enumerate(config.listed, start=1)
            if each != number
        ]
        self.book.recall(members)
        self.cluster = NodeCluster(
            scheduler, world, self.book.card, secret, members, self.book, bounds
        )
        new_id = world.dice.token(TOKEN_BYTES).hex()
        founded = founded_as_kept(self.book)
        self.founding = ClusterFounding(self.book.own, self.addresses, new_id, founded)
        self._waiting: list[Callable[[], None]] = []
        """Who waits for this node to be a member."""
        self.cluster.handle(FOUNDING, self)
        self.cluster.follow(self)

    @property
    def is_member(self) -> bool:
        """Tell whether the node belongs to its cluster, durably."""
        return self.founding.is_member

    @property
    def cluster_id(self) -> str:
        """Return the id of the cluster that this node is a member of; "": of none yet."""
        founded = self.founding.founded
        return founded.cluster if founded is not None and self.is_member else ""

    @property
    def founders(self) -> list[int]:
        """Return the numbers of the nodes that have founded the cluster of this one."""
        founded = self.founding.founded
        assert founded is not None, "a node without a cluster"
        return [each.node for each in founded.members]

    def when_member(self, function: Callable[[], None]) -> None:
        """Call the function once this node is a member; at once if it is."""
        if self.is_member:
            function()
        else:
            self._waiting.append(function)

    def start(self) -> None:
        """Connect to the others, and be connected to, from now on."""
        card = self.book.card
        state = f"member of the cluster {self.cluster_id}"
        if not self.is_member:
            state = "of no cluster yet"
            if waits_for := self.founding.waits_for:
                named = [f"node {each} at {self.addresses[each - 1]}" for each in waits_for]
                state = f"{state}; it waits for {', '.join(named)}"
        self.world.log.write("info", f"this is {card}, {state}")
        self.cluster.start_links()
        self._do(self.founding.begin())

    def receive(self, message: object) -> None:
        if isinstance(message, PeerMessage):
            self._said(message)
        elif isinstance(message, NodeUp):
            self._take(MemberHeard(message.node))
        elif isinstance(message, NodeDown):
            self._take(MemberLost(message.node))
        elif isinstance(message, WriteNodeFile):
            self._written(message)

    def _said(self, message: PeerMessage) -> None:
        node = message.source.node
        try:
            said = decode_founding(message.payload)
        except BrokenFounding as error:
            link = self.cluster.peers[node].up
            if link is not None:
                link.broken(str(error))
            return
        self._take(FoundingSaid(node, said))

    def _written(self, job: WriteNodeFile) -> None:
        if job.failure is not None:
            raise job.failure  # who it belongs to is not known any more: the next start finds out
        self._take(ClusterKept())

    def _take(self, command: FoundingCommand) -> None:
        self._do(self.founding.apply(command))

    def _do(self, effects: Iterable[FoundingEffect]) -> None:
        for effect in effects:
            if isinstance(effect, SayFounding):
                self.cluster.send(effect.node, FOUNDING, encode_founding(effect.message))
            elif isinstance(effect, KeepCluster):
                founded = effect.founded
                self.book.join(founded.cluster, founded.nodes, founded.members, self)
            elif isinstance(effect, JoinCluster):
                self._join(effect.founded)
            else:
                assert isinstance(effect, FoundingProblem)
                self.world.log.write("error", effect.sentence)

    def _join(self, founded: FoundedCluster) -> None:
        self.cluster.join(founded.cluster)
        names = ", ".join(each.name for each in founded.members)
        text = f"this node is a member of the cluster {founded.cluster} of {names}"
        self.world.log.write("info", text)
        waiting, self._waiting = self._waiting, []
        for function in waiting:
            function()


def founded_as_kept(book: NodeFile) -> FoundedCluster | None:
    """Return the cluster as this node's file has it; None when it belongs to none."""
    record = book.record
    if not record.cluster:
        return None
    members = sorted([book.own, *record.members], key=lambda each: each.node)
    return FoundedCluster(record.cluster, record.nodes, members)
