"""The declared state as bytes: the durable part for checkpoints, all of it for another member.

Both are one JSON object with the tables of `tables.py`. The one with everything has queues,
exchanges and bindings that are not durable among the others, and besides

    "next_queue_id", "closed": [names of virtual hosts], "incarnations": [[node, incarnation]],
    "proposed": [[node, number of the last proposal of that life which was decided]]
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluicemq.metadata.changes import ONLY_LIFE, DeclareExchange, DeclareQueue
from sluicemq.metadata.codec import (
    as_json,
    encoded_tables,
    fields_of,
    queue_fields,
)
from sluicemq.metadata.tables import record_rows
from sluicemq.routing.topology import PREDECLARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.metadata.record_tables import RecordTables
    from sluicemq.metadata.vhost_state import VhostState
    from sluicemq.model.definitions import ExchangeDefinition


def checkpoint_pieces(records: RecordTables, hosts: list[VhostState]) -> Iterator[bytes]:
    """What is durable, a part after the other: as it is when this is called. Each part has at most
    PIECE_RECORDS records."""
    exchanges = [each for host in hosts for each in declared_exchanges(host) if each.durable]
    queues = [each for host in hosts for each in declared_queues(host) if each.definition.durable]
    bindings = [each for host in hosts for each in host.topology.durable_bindings.values()]
    return encoded_tables(
        [
            *record_rows(records),
            ("exchanges", exchanges, fields_of),
            ("queues", queues, lambda each: queue_fields(each.id, each.definition, each.home)),
            ("bindings", bindings, fields_of),
        ]
    )


def snapshot(
    records: RecordTables,
    hosts: dict[str, VhostState],
    next_queue_id: int,
    incarnations: dict[int, int],
    proposed: dict[int, int],
) -> bytes:
    """Everything. Two members that have applied the same changes have the same bytes."""
    exchanges: list[Any] = []
    queues: list[Any] = []
    bindings: list[Any] = []
    for host in hosts.values():
        for exchange in declared_exchanges(host):
            life = host.lives.get(exchange.name, ONLY_LIFE)
            exchanges.append(as_json(DeclareExchange(exchange, life))["exchange"])
        for queue in declared_queues(host):
            change = DeclareQueue(
                queue.definition, queue_id=queue.id, life=queue.life, home=queue.home
            )
            queues.append(as_json(change)["queue"])
        bindings += map(fields_of, host.topology.all_bindings())
    everything = {
        **{name: [*map(encoded, rows)] for name, rows, encoded in record_rows(records)},
        "exchanges": exchanges,
        "queues": queues,
        "bindings": bindings,
        "next_queue_id": next_queue_id,
        "closed": [name for name, host in hosts.items() if host.is_closed],
        "incarnations": [*map(list, incarnations.items())],
        "proposed": [*map(list, proposed.items())],
    }
    return json.dumps(everything).encode()


def declared_exchanges(host: VhostState) -> Iterator[ExchangeDefinition]:
    """Those that not every virtual host has."""
    for name, exchange in host.topology.exchanges.items():
        if name not in PREDECLARED:
            yield exchange.definition


def declared_queues(host: VhostState) -> Iterator[DeclaredQueue]:
    """Those that clients see, then those that hold messages back."""
    yield from host.queues.values()
    yield from host.holding.values()
