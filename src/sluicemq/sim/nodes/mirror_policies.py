"""The policies of the mirrored queues of a run: set before they are declared, and one often
changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sluicemq.broker.member_plans import queues_with_members
from sluicemq.metadata.changes import UpsertRecord
from sluicemq.model.policies import Policy

if TYPE_CHECKING:
    from random import Random

    from sluicemq.node import Node
    from sluicemq.sim.nodes.host import NodeHost
    from sluicemq.sim.nodes.plan import NodesPlan

FIRST: Final[dict[str, Any]] = {"ha-mode": "all"}


def are_set(node: Node, plan: NodesPlan) -> bool:
    """Tell whether a node has the policies."""
    host = node.broker.definitions.hosts.get("/")
    return host is not None and len(host.topology.policies) > bool(plan.promoting)


def set_policies(node: Node, plan: NodesPlan) -> None:
    """Have an operator at a node set the first policy, and another one for the queues that go on
    with what a mirror has that is left."""
    set_policy(node, FIRST)
    if plan.promoting:
        definition = {
            "ha-mode": "exactly",
            "ha-params": plan.promoting_mirrors,
            "ha-promote-on-failure": "always",
            "ha-promote-on-shutdown": "always",
        }
        names = f"^({'|'.join(plan.promoting)})$"
        policy = Policy("/", "promoting", names, "queues", definition, 1)
        node.broker.agreement.propose(UpsertRecord(policy))


def set_policy(node: Node, definition: dict[str, Any]) -> None:
    """Have an operator at a node set the policy."""
    policy = Policy("/", "mirrors", "^mirrored", "queues", definition)
    node.broker.agreement.propose(UpsertRecord(policy))


def ask_for_mirrors(hosts: list[NodeHost], random: Random) -> str:
    """Have an operator at an open node ask for other mirrors, and return the request; "" when no
    node is open."""
    able = [host for host in hosts if host.moves and host.is_open and not host.is_stopping]
    if not able:
        return ""
    host = random.choice(able)
    names = [each.name for each in hosts]
    definition = random.choice(
        (
            FIRST,
            {"ha-mode": "exactly", "ha-params": 1 + random.randrange(3)},
            {"ha-mode": "nodes", "ha-params": random.sample(names, 1 + random.randrange(2))},
        )
    )
    if random.random() < 0.3:
        definition = definition | {"ha-sync-mode": "manual"}
    set_policy(host.node, definition)
    return f"{host.name} is asked for mirrors: {definition}"


def unmirrored(hosts: list[NodeHost]) -> str:
    """Return a mirrored queue that is not as its policy wants it yet, and where; "" without one."""
    for host in hosts:
        broker = host.node.broker
        for declared in queues_with_members(broker.agreement.state):
            mirrored = broker.vhosts["/"].mirrored
            if not declared.is_mirrored or mirrored is None:
                continue
            name = declared.definition.name
            if declared.leaving:
                return f"{host.name} knows of members of {name} that leave"
            member = mirrored.members.get(declared.id)
            if member is not None and member.served_term:
                configuration, held = member.raft.configuration, {*member.mirror.in_sync.held}
                if {*configuration.voters} | held != {*declared.members} or configuration.learners:
                    return f"{host.name} has a group of {configuration} of {name}"
                if {*member.in_sync} != member.mirrors - held:
                    return f"{host.name} has {member.in_sync} in sync of {name}"
                break
        else:
            continue
    masters = {
        member.id
        for host in hosts
        if (mirrored := host.node.broker.vhosts["/"].mirrored) is not None
        for member in mirrored.members.values()
        if member.served_term
    }
    state = hosts[0].node.broker.agreement.state
    for declared in queues_with_members(state):
        if declared.is_mirrored and declared.id not in masters:
            return f"nobody serves {declared.definition.name}"
    return ""
