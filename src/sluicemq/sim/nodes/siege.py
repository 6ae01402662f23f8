"""Takes a majority of the mirrors of a queue, for so long that another mirror goes on without them.

a mirror that is to be left is cut off, or crashes, so that it falls behind
the others crash, are stopped, freeze or are cut off, and the first one is back
when a mirror serves the queue, the others are back, with what they had
"""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.broker.member_plans import queues_with_members
from sluicemq.chain.queue.mirrored.member import MirrorMember
from sluicemq.kernel.address import node_of
from sluicemq.sim.nodes.mirror_policies import unmirrored
from sluicemq.sim.nodes.node_groups import members_of
from sluicemq.sim.records import promise

if TYPE_CHECKING:
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.sim.cluster.net import PipeNetwork
    from sluicemq.sim.nodes.host import NodeHost
    from sluicemq.sim.nodes.nemesis import NodesNemesis
    from sluicemq.sim.nodes.plan import NodesPlan
    from sluicemq.sim.nodes.promotions import Promotions
    from sluicemq.sim.nodes.site import ClientSite

LAGS_MS: Final = (0, 300, 1000, 2500)
"""How long a mirror that is to be left is down before."""
CUT_OFF_MS: Final = 12_000
"""How long it is cut off instead: until the master goes on without it."""
REIGNS_MS: Final = (0, 500, 2000)
"""How long it serves before the others are back."""


class Siege:
    """The siege of one queue, which is chosen from those that a policy lets go on."""

    def __init__(
        self,
        plan: NodesPlan,
        network: PipeNetwork,
        hosts: list[NodeHost],
        sites: dict[int, ClientSite],
        nemesis: NodesNemesis,
        promotions: Promotions,
    ) -> None:
        self.plan = plan
        self.network = network
        self.hosts = hosts
        self.sites = sites
        self.nemesis = nemesis
        self.promotions = promotions
        self.random = random = Random(f"siege {plan.seed}")
        self.queue = random.choice(plan.promoting)
        self.lag_ms = random.choice(LAGS_MS)
        self.reign_ms = random.choice(REIGNS_MS)
        self.left: list[NodeHost] = []
        """The hosts that are left."""
        self.taken: list[NodeHost] = []

    def unready(self) -> str:
        """Return why the siege cannot begin; "" when the queue has its mirrors."""
        if any(not site.is_up for site in self.sites.values()):
            return "not all nodes know all queues"
        return unmirrored(self.hosts)

    @property
    def declared(self) -> DeclaredQueue:
        """The queue, as nodes have agreed on it."""
        state = self.hosts[0].node.broker.agreement.state
        return next(
            each for each in queues_with_members(state) if each.definition.name == self.queue
        )

    def begin(self) -> None:
        """Choose the nodes that are taken, mostly that of the master, and have one of the others
        fall behind."""
        nodes = [node_of(each) for each in self.declared.members]
        self.random.shuffle(nodes)
        serving = [node for node in nodes if self._serves(self._host(node), self.declared.id)]
        if self.random.random() < 0.8:
            nodes.sort(key=lambda node: node not in serving)
        taken = nodes[: (len(nodes) + 1) // 2]
        promise(len(taken) <= (len(self.hosts) - 1) // 2, "there are too many mirrors for a siege")
        self.taken = [self._host(node) for node in taken]
        self.left = [host for host in self.hosts if host not in self.taken]
        if self.lag_ms:
            last = self._host(self.random.choice(nodes[len(taken) :]))
            if self.random.random() < 0.8:
                last.crash(power=self.random.random() < 0.5)
                self.nemesis.note("crashes", f"{last.name} crashes, and falls behind")
            else:
                self._part([last], f"{last.name} is cut off, and falls behind")
                self.lag_ms = CUT_OFF_MS

    def _host(self, node: int) -> NodeHost:
        return next(host for host in self.hosts if host.number == node)

    def strike(self) -> None:
        """Take the nodes, and bring back the one that has fallen behind."""
        self.nemesis.heal()
        for host in self.left:
            if not host.is_running:
                host.start()
        for host in self.taken:
            self.random.choice(
                (self._crash, self._crash, self._stop, self._freeze, self._part_taken)
            )(host)
        self.promotions.in_reach = frozenset(host.number for host in self.left)

    def _crash(self, host: NodeHost) -> None:
        host.crash(power=self.random.random() < 0.5)
        self.nemesis.note("crashes", f"{host.name} crashes for long")

    def _stop(self, host: NodeHost) -> None:
        self.sites[host.number].node_stops()
        host.stop()
        self.nemesis.note("stops", f"{host.name} stops for long")

    def _freeze(self, host: NodeHost) -> None:
        host.freeze()
        self.nemesis.note("freezes", f"{host.name} freezes for long")

    def _part_taken(self, _: NodeHost) -> None:
        self._part(self.taken, "the nodes with most mirrors are cut off for long")

    def _part(self, hosts: list[NodeHost], line: str) -> None:
        """Cut these hosts off from the others."""
        some = {host.name for host in hosts}
        ways = permutations([host.name for host in self.hosts], 2)
        self.network.cut({way: None for way in ways if (way[0] in some) != (way[1] in some)})
        self.nemesis.note("cuts", line)

    def _serves(self, host: NodeHost, queue_id: int) -> bool:
        """Tell whether a host has the master of a queue, as far as it knows."""
        return host.is_running and any(
            group == queue_id and isinstance(member, MirrorMember) and member.served_term
            for group, _, member in members_of(host.node)
        )

    def unserved(self) -> str:
        """Return a queue that a mirror could serve, and nobody serves on the nodes that are left;
        "" without one."""
        for declared in queues_with_members(self.left[0].node.broker.agreement.state):
            name = declared.definition.name
            is_served = any(self._serves(host, declared.id) for host in self.left)
            if name in self.plan.promoting and not is_served:
                return f"nobody serves {name} on the nodes that are left"
        return ""

    def end(self) -> None:
        """Bring back what was taken, in any order; what is still stopping comes later."""
        self.promotions.in_reach = frozenset()
        self.nemesis.heal()
        self.random.shuffle(self.taken)
        for host in self.taken:
            if host.is_frozen:
                host.thaw()
            elif not host.is_running:
                host.start()
