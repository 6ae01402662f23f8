"""The declared state again: from what files say of it, or from another member's snapshot.

Everything found is taken as it is. Another version may have had other rules for declarations, and
there is nobody to whom a refusal could go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import convert

from sluicemq.errors import Corrupt, ProtocolViolation
from sluicemq.metadata.changes import ONLY_LIFE, AddNode, Life, Number, RemoveNode
from sluicemq.metadata.codec import (
    BROKEN,
    RECORDS,
    binding_of,
    declared_exchange_of,
    declared_queue_of,
)
from sluicemq.metadata.events import DeclaredQueue
from sluicemq.metadata.state import DeclaredState
from sluicemq.model.nesting import read_kept

if TYPE_CHECKING:
    from sluicemq.metadata.tables import DurableTables


def restored(tables: DurableTables, next_queue_id: int) -> DeclaredState:
    """The state of a broker that finds these tables at its start. What of them makes no sense to
    this version and can be done without is in `problems`. Corrupt when they do not fit together,
    such as an exchange in a virtual host that there is not: no broker leaves that behind."""
    try:
        return state_from(tables, next_queue_id)
    except (ProtocolViolation, KeyError) as error:
        raise Corrupt(f"definitions that do not fit together: {error}") from error


def state_from(tables: DurableTables, next_queue_id: int) -> DeclaredState:
    """The same, but raises ProtocolViolation or KeyError."""
    state = DeclaredState()
    state.next_queue_id = next_queue_id
    for record in RECORDS:
        for each in tables.records[record.KIND].values():
            state.restore_record(each)
    state.apply_policies()
    for exchange in tables.exchanges.values():
        state.hosts[exchange.vhost].topology.declare_exchange(exchange)
    for queue_id, queue in tables.queues.items():
        home, members = tables.homes.get(queue_id, 0), tables.members.get(queue_id, ())
        leaving, born = tables.leaving.get(queue_id, ()), tables.born.get(queue_id, members)
        places = home, members, leaving, born
        state.restore_queue(DeclaredQueue(queue_id, queue, ONLY_LIFE, *places))
    for binding in tables.bindings.values():
        state.hosts[binding.vhost].topology.bind(binding)
    return state


def restored_from_snapshot(data: bytes) -> DeclaredState:
    """Return the state in a snapshot that a member has sent. Raises Corrupt when it is
    malformed.
    """
    try:
        everything, _ = read_kept(data)
        return state_of(everything)
    except (*BROKEN, ProtocolViolation) as error:
        raise Corrupt(f"a snapshot of the definitions that does not parse: {error}") from error


def state_of(everything: dict[str, Any]) -> DeclaredState:
    """Return the state that a snapshot describes. Raises one of BROKEN when it describes none."""
    state = DeclaredState()
    state.next_queue_id = convert(everything["next_queue_id"], Number)
    state.incarnations = dict(convert(everything["incarnations"], list[Life]))
    state.proposed = dict(convert(everything["proposed"], list[tuple[Number, Number]]))
    added = convert(everything.get("added", []), list[AddNode])
    removed = convert(everything.get("removed", []), list[RemoveNode])
    state.nodes.added = {each.number: each for each in added}
    state.nodes.removed = {each.number: each for each in removed}
    for record in RECORDS:
        for each in everything[record.TABLE]:
            state.restore_record(record.of(each))
    state.apply_policies()
    for fields in everything["exchanges"]:
        declared = declared_exchange_of(fields)
        exchange = declared.definition
        host = state.hosts[exchange.vhost]
        host.topology.declare_exchange(exchange)
        if not exchange.durable and declared.life != ONLY_LIFE:
            host.lives[exchange.name] = declared.life
    for fields in everything["queues"]:
        queue = declared_queue_of(fields)
        places = queue.home, queue.members, queue.leaving, queue.born or queue.members
        known = DeclaredQueue(queue.queue_id, queue.definition, queue.life, *places)
        state.restore_queue(known)
    for fields in everything["bindings"]:
        binding = binding_of(fields)
        state.hosts[binding.vhost].topology.bind(binding)
    for name in convert(everything["closed"], list[str]):
        state.hosts[name].is_closed = True
    return state
