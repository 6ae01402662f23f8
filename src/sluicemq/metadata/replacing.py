"""The declared state of a node that has missed too much: a snapshot of another member takes its
place, and the followers are told of every difference between the two.

Objects that others hold stay what they are: the state, its tables, the topologies of virtual hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.metadata.codec import RECORDS
from sluicemq.metadata.events import (
    ExchangeRemoved,
    MembersChanged,
    NodeAdded,
    NodeRemoved,
    QueueAdded,
    QueueRemoved,
    RecordDeleted,
    RecordUpserted,
    VhostClosed,
)
from sluicemq.metadata.snapshot import declared_exchanges, declared_queues

if TYPE_CHECKING:
    from sluicemq.metadata.events import DeclaredQueue, Event
    from sluicemq.metadata.state import DeclaredState
    from sluicemq.metadata.vhost_state import VhostState
    from sluicemq.model.record import DefinitionRecord


def replace_state(state: DeclaredState, newer: DeclaredState) -> list[Event]:
    """Have `state` be what `newer` is, which nobody uses any more. Returns what has happened on the
    way, in an order in which it can be followed: what is gone, virtual hosts last; then what is
    new, virtual hosts first."""
    gone, new = differences(state, newer)
    for kind, table in state.records.items():
        table.clear()
        table.update(newer.records[kind])
    for name in [name for name in state.hosts if name not in newer.hosts]:
        del state.hosts[name]
    hosts = {name: taken_over(state.hosts.get(name), host) for name, host in newer.hosts.items()}
    state.hosts.clear()
    state.hosts.update(hosts)
    state.next_queue_id = newer.next_queue_id
    state.incarnations = newer.incarnations
    state.proposed = newer.proposed
    state.nodes.added = newer.nodes.added
    state.nodes.removed = newer.nodes.removed
    state.problems += newer.problems
    state.revision += 1
    return [*gone, *new]


def taken_over(known: VhostState | None, newer: VhostState) -> VhostState:
    """The virtual host as it is in `newer`: the one that is known, if any, with its topology."""
    if known is None:
        return newer
    known.topology.become(newer.topology)
    known.queues, known.holding, known.lives = newer.queues, newer.holding, newer.lives
    known.is_closed = newer.is_closed
    return known


def differences(old: DeclaredState, newer: DeclaredState) -> tuple[list[Event], list[Event]]:
    """Return what is gone, and what is new or has changed."""
    gone: list[Event] = []
    new: list[Event] = []
    for kind in reversed(RECORDS):
        before, after = old.records[kind.KIND], newer.records[kind.KIND]
        gone += (RecordDeleted(each) for key, each in before.items() if key not in after)
    for name, host in old.hosts.items():
        other = newer.hosts.get(name)
        gone[:0] = removed(host, other)
        if other is not None and other.is_closed and not host.is_closed:
            new.append(VhostClosed(name))
    records = [each for kind in RECORDS for each in upserted(old, newer, kind)]
    new[:0] = [RecordUpserted(each) for each in records]
    for name, host in newer.hosts.items():
        known = queues_by_id(old.hosts.get(name))
        for each in declared_queues(host):
            was = known.get(each.id)
            if was is None:
                new.append(QueueAdded(each))
            elif (was.members, was.leaving) != (each.members, each.leaving):
                new.append(MembersChanged(each))
    nodes, others = old.nodes, newer.nodes
    gone += [NodeRemoved(each) for n, each in others.removed.items() if n not in nodes.removed]
    new += [NodeAdded(each) for n, each in others.added.items() if n not in nodes.added]
    return gone, new


def upserted(
    old: DeclaredState, newer: DeclaredState, kind: type[DefinitionRecord]
) -> list[DefinitionRecord]:
    """Return the records of a kind that are new or have changed."""
    before, after = old.records[kind.KIND], newer.records[kind.KIND]
    return [each for key, each in after.items() if before.get(key) != each]


def removed(host: VhostState, newer: VhostState | None) -> list[Event]:
    """Return what of a virtual host is gone."""
    queues = queues_by_id(newer)
    events: list[Event] = [
        QueueRemoved(each) for each in declared_queues(host) if each.id not in queues
    ]
    if newer is not None:  # else its exchanges go with it
        exchanges = newer.topology.exchanges
        events += (
            ExchangeRemoved(each) for each in declared_exchanges(host) if each.name not in exchanges
        )
    return events


def queues_by_id(host: VhostState | None) -> dict[int, DeclaredQueue]:
    """Return all queues of a virtual host, including those that hold messages back; none if there
    is no such host."""
    return {} if host is None else {each.id: each for each in declared_queues(host)}
