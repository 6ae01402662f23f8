"""Adds and removes members of quorum queues and moves leaders, while clients use the queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.broker.member_plans import quorum_queues
from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.kernel.address import node_of
from sluicemq.metadata.changes import AddMember, MoveLeader, RemoveMember

if TYPE_CHECKING:
    from random import Random

    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.node import Node
    from sluicemq.sim.nodes.host import NodeHost

Moves = tuple[type[AddMember | RemoveMember | MoveLeader], ...]

ANY_MOVE: Final[Moves] = (AddMember, AddMember, RemoveMember, RemoveMember, MoveLeader)
NO_REMOVAL: Final[Moves] = (AddMember, AddMember, MoveLeader)


def ask_for_a_move(hosts: list[NodeHost], random: Random, moves: Moves = ANY_MOVE) -> str:
    """Have an operator at an open node ask to add or remove a member of a queue, or to move its
    leader, and return the request; "" when no node is open. Impossible moves are refused."""
    able = [host for host in hosts if host.moves and host.is_open and not host.is_stopping]
    if not able:
        return ""
    host = random.choice(able)
    broker = host.node.broker
    queues = [*quorum_queues(broker.agreement.state)]
    if not queues:
        return ""
    declared = random.choice(queues)
    change = random.choice(moves)
    node = random.choice(hosts).number
    definition = declared.definition
    broker.agreement.propose(change(definition.vhost, definition.name, declared.id, node))
    return f"{host.name} is asked for {change.__name__} of {definition.name} at node {node}"


def unmoved(hosts: list[NodeHost]) -> str:
    """Return a quorum queue that does not have its declared members yet, and where; ""
    without one.
    """
    for host in hosts:
        for declared in quorum_queues(host.node.broker.agreement.state):
            if declared.leaving:
                return f"{host.name} knows of members of {declared.definition.name} that leave"
            if hindrance := as_declared(host.node, declared):
                return f"{host.name} has {hindrance} of {declared.definition.name}"
    return ""


def as_declared(node: Node, declared: DeclaredQueue) -> str:
    """Return how a quorum queue on a node differs from its declaration; "" if it does not."""
    assert node.membership is not None
    vhost = node.broker.vhosts["/"]
    queue = vhost.queues[declared.definition.name]
    is_member = node.membership.cluster.node in map(node_of, declared.members)
    if isinstance(queue, SharedShell) != is_member or declared.id in vhost.aside:
        return "not the member"
    if isinstance(queue, SharedShell):
        configuration = queue.raft.configuration
        if {*configuration.voters} != {*declared.members} or configuration.learners:
            return f"a group of {configuration}"
    return ""
