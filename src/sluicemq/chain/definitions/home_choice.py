"""The choice of the node that a queue lives on, made by the proposer before it proposes
the queue.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.metadata.changes import DeclareQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.metadata.changes import Change
    from sluicemq.metadata.state import DeclaredState
    from sluicemq.model.definitions import QueueDefinition

LOCATORS: Final = ("queue-leader-locator", "queue-master-locator")
"""The keys of policies, and with x- before them the arguments, that say which node it is to be."""

FEWEST: Final = ("balanced", "least-leaders", "min-masters")
"""The values by which it is one of those that have the fewest queues."""


def home_for(
    definition: QueueDefinition,
    state: DeclaredState,
    cluster: ClusterPort,
    proposed: Iterable[Change],
    below: Callable[[int], int],
) -> int:
    """Return the number of the node that is to have a queue: this one, unless its arguments or the
    policy that holds for it ask for another, of those that are up. `proposed` is what this node has
    proposed besides, and `below` gives a number by chance."""
    locator = "" if definition.exclusive else locator_of(definition, state)
    if locator not in (*FEWEST, "random"):
        return cluster.node
    up = [
        node
        for node in cluster.nodes
        if node == cluster.node or cluster.standing(node) is NodeStanding.UP
    ]
    if locator in FEWEST:
        counts = queues_by_home(state, proposed)
        fewest = min(counts[node] for node in up)
        up = [node for node in up if counts[node] == fewest]
    return up[below(len(up))]


def locator_of(definition: QueueDefinition, state: DeclaredState) -> str:
    """Return the locator by which the node is chosen; "" if there is none."""
    host = state.hosts.get(definition.vhost)
    policy = None
    if host is not None:
        policy = host.topology.policies.for_queue(definition.name, definition.type)
    for key in LOCATORS:
        value = definition.arguments.get(f"x-{key}")
        if isinstance(value, str):
            return value
    for key in LOCATORS if policy is not None else ():
        value = policy.definition.get(key) if policy is not None else None
        if isinstance(value, str):
            return value
    return ""


def queues_by_home(state: DeclaredState, proposed: Iterable[Change]) -> Counter[int]:
    """Return how many queues each node has, including those proposed to be there."""
    counts = Counter(queue.home for host in state.hosts.values() for queue in host.queues.values())
    counts.update(each.home for each in proposed if isinstance(each, DeclareQueue))
    return counts
