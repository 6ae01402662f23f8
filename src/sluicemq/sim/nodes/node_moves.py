"""An operator who has nodes join the cluster, and removes some that are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.broker.member_plans import quorum_queues
from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.kernel.address import node_of
from sluicemq.metadata.changes import RemoveNode
from sluicemq.sim.nodes.node_groups import members_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from sluicemq.sim.nodes.host import NodeHost
    from sluicemq.sim.nodes.newcomer import Newcomer


class NodeMoves:
    """The operator's moves. `hosts` have nodes that belong to the cluster, as far as they know;
    `make` makes the host of a joining node on the machine of that number."""

    def __init__(
        self,
        hosts: list[NodeHost],
        random: Random,
        make: Callable[[int], Newcomer],
    ) -> None:
        self.hosts = hosts
        self.random = random
        self.make = make
        self.machines = len(hosts)
        """The number of machines there have been."""
        self.joins_left = random.choice((1, 1, 2))
        self.ends_left = random.choice((0, 1, 1, 2))
        """At most this many more nodes are removed."""
        self.forgotten: dict[int, int] = {}
        """The machines of nodes that the operator has removed, by number of the node."""
        self.newcomers: list[Newcomer] = []
        """Newcomers that have never been brokers."""

    def join(self) -> str:
        """Have a node join, on a new machine or on one whose removed node has ended; return what
        was done, "" for nothing."""
        if self.joins_left and not self.newcomers:
            self.joins_left -= 1
            used = [each.machine for each in self.hosts]
            free = [each for each in self.forgotten.values() if each not in used]
            self.machines += 1
            newcomer = self.make(self.random.choice([self.machines, *free]))
            self.newcomers.append(newcomer)
            newcomer.start()
            return f"{newcomer.name} is to join"
        for each in self.newcomers:
            if each.is_asking:
                each.crash_asking(power=self.random.random() < 0.5)
                return f"{each.name} crashes while it asks"
            if not each.is_running:
                each.start()
                return f"{each.name} starts again"
        return ""

    def began(self, host: NodeHost) -> None:
        """Note that the node of a machine begins a life."""
        if host not in self.hosts:
            self.hosts.append(host)
            self.newcomers = [each for each in self.newcomers if each is not host]

    def forget(self) -> str:
        """Have a node removed that is down and not needed; return the request."""
        able = [each for each in self.hosts if each.moves and each.is_open and not each.is_stopping]
        lost = [each for each in self.hosts if not each.is_running or each.lost_files is not None]
        lost = [each for each in lost if each.number not in self.forgotten]
        if not (able and lost and self.ends_left):
            return ""
        host, victim = self.random.choice(able), self.random.choice(lost)
        cluster = host.membership.cluster
        member = cluster.roster.members.get(victim.number)
        is_down = cluster.standing(victim.number) is NodeStanding.DOWN
        if member is None or not (member.home and is_down and self._is_spared(victim)):
            return ""
        self.ends_left -= 1
        self.forgotten[victim.number] = victim.machine
        change = RemoveNode(member.number, member.name, member.home.hex())
        host.node.broker.agreement.propose(change)
        return f"{host.name} is asked to forget node {victim.number} of {victim.name}"

    def _is_spared(self, victim: NodeHost) -> bool:
        """Tell whether each group has a majority without this node and the removed ones, as far as
        any member knows its group."""
        gone = {victim.number, *self.forgotten}
        for host in self.hosts:
            for _, raft, _ in members_of(host.node):
                nodes = [node_of(each) for each in raft.configuration.voters]
                if sum(each not in gone for each in nodes) <= len(nodes) // 2:
                    return False
        return True

    def heal(self) -> None:
        """Start the nodes that have yet to join."""
        for each in self.newcomers:
            each.cpu.healed = each.disk.healed = True
            if not (each.is_asking or each.is_running):
                each.start()

    def unfinished(self) -> str:
        """Return a node that has not joined, or not left, yet; "" without one."""
        for each in self.newcomers:
            return f"{each.name} has not joined"
        for host in self.hosts:
            if not host.is_open:
                continue
            state = host.node.broker.agreement.state
            gone = state.nodes.removed
            if host.number in gone:
                return f"{host.name} goes on, and was removed"
            for declared in quorum_queues(state):
                if any(node_of(name) in gone for name in declared.members):
                    return f"{declared.definition.name} has a member on a node that was removed"
        return ""
