"""The declared state as bytes: the durable part for checkpoints, all of it for another member.

Both are one JSON object with the tables of `tables.py`. The one with everything has queues,
exchanges and bindings that are not durable among the others, and besides

    "next_queue_id", "closed": [names of virtual hosts], "incarnations": [[node, incarnation]],
    "proposed": [[node, number of the last proposal of that life which was decided]],
    "added": [[number, name, address, home]], "removed": [[number, name, home]]: nodes of a cluster
              that have come and gone since it was founded
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import astuple

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
    from sluicemq.metadata.joined_nodes import JoinedNodes
    from sluicemq.metadata.record_tables import RecordTables
    from sluicemq.metadata.vhost_state import VhostState
    from sluicemq.model.definitions import BindingDefinition, ExchangeDefinition


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
            (
                "queues",
                queues,
                lambda each: queue_fields(
                    each.id, each.definition, each.home, each.members, each.leaving, each.born
                ),
            ),
            ("bindings", bindings, fields_of),
        ]
    )


def snapshot_pieces(
    records: RecordTables,
    hosts: dict[str, VhostState],
    next_queue_id: int,
    incarnations: dict[int, int],
    proposed: dict[int, int],
    nodes: JoinedNodes,
) -> Iterator[bytes]:
    """Everything, a part after the other: as it is when this is called. Two members that have
    applied the same changes have the same bytes. Each part has at most PIECE_RECORDS records."""
    exchanges: list[DeclareExchange] = []
    queues: list[DeclareQueue] = []
    bindings: list[BindingDefinition] = []
    for host in hosts.values():
        lives = host.lives
        exchanges += (
            DeclareExchange(each, lives.get(each.name, ONLY_LIFE))
            for each in declared_exchanges(host)
        )
        queues += (
            DeclareQueue(
                each.definition,
                queue_id=each.id,
                life=each.life,
                home=each.home,
                members=each.members,
                leaving=each.leaving,
                born=each.born,
            )
            for each in declared_queues(host)
        )
        bindings += host.topology.all_bindings()
    closed = [name for name, host in hosts.items() if host.is_closed]
    return encoded_tables(
        [
            *record_rows(records),
            ("exchanges", exchanges, lambda each: as_json(each)["exchange"]),
            ("queues", queues, lambda each: as_json(each)["queue"]),
            ("bindings", bindings, fields_of),
            ("closed", closed, str),
            ("incarnations", [*incarnations.items()], list),
            ("proposed", [*proposed.items()], list),
            ("added", [*nodes.added.values()], astuple),
            ("removed", [*nodes.removed.values()], astuple),
        ],
        {"next_queue_id": next_queue_id},
    )


def declared_exchanges(host: VhostState) -> Iterator[ExchangeDefinition]:
    """Those that not every virtual host has."""
    for name, exchange in host.topology.exchanges.items():
        if name not in PREDECLARED:
            yield exchange.definition


def declared_queues(host: VhostState) -> Iterator[DeclaredQueue]:
    """Those that clients see, then those that hold messages back."""
    yield from host.queues.values()
    yield from host.holding.values()
