"""The choice of the nodes on which a declared queue has mirrors, by its policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from sluicemq.metadata.changes import DeclareQueue
from sluicemq.model.mirroring import mirror_nodes, mirroring_of, voting_nodes
from sluicemq.model.queue_types import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluicemq.metadata.state import DeclaredState


def mirrored(
    change: DeclareQueue,
    state: DeclaredState,
    nodes: Sequence[int],
    name_of: Callable[[int], str],
) -> DeclareQueue:
    """Return the declaration of a queue, which has a home, with its members if a policy wants
    mirrors of it. The home is one of them; others are chosen in turn, by a number that grows with
    the queues. Only queues that last have mirrors."""
    definition = change.definition
    host = state.hosts.get(definition.vhost)
    kind = TYPES.get(definition.type)
    if host is None or kind is None or not kind.has_mirrors or not definition.durable:
        return change
    policy = host.topology.policies.for_queue(definition.name, definition.type)
    mirroring = mirroring_of(policy.definition) if policy is not None else None
    if mirroring is None or change.members:
        return change
    others = [node for node in nodes if node != change.home]
    start = state.next_queue_id % len(others) if others else 0
    order = [change.home, *others[start:], *others[:start]]
    chosen = mirror_nodes(mirroring, order, name_of)
    return replace(change, home=chosen[0], members=voting_nodes(chosen, order))
