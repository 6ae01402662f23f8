"""The state of the running broker as rows: the entry point for `sluicemq ctl`.

Each row is read when it is made; nothing is gathered beforehand and nothing is kept. There may be
very many rows, so they are made in pieces, each with the units of work it has cost (see
`Actor.begin`): the rows of one answer are of different moments, and each is true of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isinf
from typing import TYPE_CHECKING, Any, Final

from sluicemq import __version__
from sluicemq.errors import Refused
from sluicemq.manage import storage_view
from sluicemq.manage.chain_view import chain
from sluicemq.manage.command import Given
from sluicemq.manage.lists import LISTS, is_at_home, queues, readers
from sluicemq.manage.tables import DEFAULTS
from sluicemq.model.definitions import DEFAULT_VHOST

if TYPE_CHECKING:
    from sluicemq.broker.broker import Broker
    from sluicemq.node import Node

Row = dict[str, Any]

TOTALS: Final = (
    "connections_opened",
    "channels_opened",
    "published",
    "confirmed",
    "nacked",
    "returned",
    "dropped",
    "delivered",
    "acknowledged",
    "faults",
)
"""Counters of the broker, in the order in which a message meets them."""

LOOK_WORK: Final = 1
"""Units of work that it costs to check an object, whether it gets a row or not."""

ROW_WORK: Final = 3
COLUMNS_PER_UNIT: Final = 3
"""Columns of a row that are made for a unit."""

TABLES: Final = ("arguments", "client_properties")
"""Columns that clients may fill with very large values."""

VALUES_PER_UNIT: Final = 4
"""Values in these tables that are converted for JSON for a unit of work."""

STATUS_WORK: Final = 100
"""Units of work that the row of `status` costs besides the counting."""


def pieces(
    node: Node, command: str, arguments: Mapping[str, Any], found: list[Row]
) -> Iterator[int]:
    """Put the answer to `command` into `found`, in pieces. Raises CommandRefused at once when there
    is no such command, column or virtual host."""
    if command in LISTS:
        return list_rows(node, command, arguments, found)
    single = SINGLE.get(command)
    if single is None:
        raise Refused(f"unknown command {command}")
    return single(node, found)


def list_rows(
    node: Node, command: str, arguments: Mapping[str, Any], found: list[Row]
) -> Iterator[int]:
    """Put the chosen columns of each object on a list into `found`, in pieces."""
    given = Given(arguments)
    name = given.text("vhost", "") or DEFAULT_VHOST
    vhost = node.broker.vhosts.get(name)
    if vhost is None:
        raise Refused(f"Virtual host '{name}' does not exist")
    items, columns = LISTS[command]
    wanted = given.texts("columns") or DEFAULTS[command]
    for column in wanted:
        if column not in columns:
            raise Refused(f"{command} has no column {column}; it has: {' '.join(columns)}")
    chosen = [(column, columns[column]) for column in wanted]
    return filling(items(node.broker, vhost), chosen, found)


def filling(
    items: Iterable[Any], chosen: Sequence[tuple[str, Callable[[Any], Any]]], found: list[Row]
) -> Iterator[int]:
    """Put a row for each item into `found`; a row is a piece."""
    row_work = ROW_WORK + len(chosen) // COLUMNS_PER_UNIT
    tables = [name for name, _ in chosen if name in TABLES]
    for item in items:
        if item is None:
            yield LOOK_WORK
            continue
        row = {name: value(item) for name, value in chosen}
        found.append(row)
        yield row_work + sum(values_in(row[name]) for name in tables) // VALUES_PER_UNIT


def values_in(cell: object) -> int:
    """Return how many values a table or array has, including those in nested ones; 0 for anything
    else."""
    if isinstance(cell, dict):
        return len(cell) + sum(map(values_in, cell.values()))
    if isinstance(cell, list):
        return len(cell) + sum(map(values_in, cell))
    return 0


def status(node: Node, found: list[Row]) -> Iterator[int]:
    """Put the facts about the broker, its limits, alarms and totals into `found`, by sections."""
    broker = node.broker
    totals = BrokerTotals()
    yield from totals.count(broker)
    counters = broker.counters
    counted = broker.world.disk.counters()
    row = {
        "Broker": {
            "product": "SluiceMQ",
            "version": __version__,
            "uptime_seconds": (broker.world.clock.wall_ms() - node.started_ms) // 1000,
            "vhosts": len(broker.vhosts),
        },
        "Listeners": {f"listener {index}": url for index, url in enumerate(node.urls, 1)},
        "Memory": memory(node),
        "Disk": storage_view.disk(node.monitor, node.config.storage.data_dir),
        "Alarms": dict(broker.alarms.reasons) or {"none": ""},
        "Flow control": flow(node),
        "Totals": {
            "connections": len(broker.connections),
            "channels": totals.channels,
            "queues": broker.queue_count,
            "consumers": totals.consumers,
            "messages_ready": totals.ready,
            "messages_unacknowledged": totals.unacked,
        },
        "Since the start": {name: getattr(counters, name) for name in TOTALS},
        **broker.store.info(),
        "I/O": storage_view.io(counted),
        "File handles": storage_view.file_handles(counted),
    }
    found.append(row)
    yield STATUS_WORK


class BrokerTotals:
    """Sums over everything that this node has itself, for `status`; the totals of all nodes of a
    cluster count nothing twice."""

    def __init__(self) -> None:
        self.channels = 0
        self.consumers = 0
        self.ready = 0
        self.unacked = 0

    def count(self, broker: Broker) -> Iterator[int]:
        """Count connections and queues; each is a piece."""
        for reader in readers(broker):
            self.channels += 0 if reader is None else len(reader.channels)
            yield LOOK_WORK
        for vhost in [*broker.vhosts.values()]:
            for queue in queues(broker, vhost):
                if queue is not None and is_at_home(queue):
                    depth = queue.machine.depth
                    self.consumers += depth.consumers
                    self.ready += depth.ready
                    self.unacked += depth.unacked
                yield LOOK_WORK


def memory(node: Node) -> Row:
    """Return the memory alarm's two figures and its limit, and where paging begins, in bytes; and
    how many seconds' worth of messages queues may keep now."""
    monitor = node.monitor
    limit = monitor.alarm.limit_bytes
    duration = monitor.retargeting.duration_s
    return {
        "resident_bytes": monitor.resident_bytes,
        "accounted_bytes": node.broker.accounted_bytes,
        "limit_bytes": limit,
        "paging_bytes": int(limit * node.config.memory.vm_memory_high_watermark_paging_ratio),
        "queue_duration_seconds": "infinity" if isinf(duration) else round(duration, 3),
    }


def flow(node: Node) -> Row:
    """Return the figures of flow control that are in force, and those of publishers held back."""
    profile = node.broker.profile
    credit = profile.credit_flow_default_credit
    store = profile.msg_store_credit_disc_bound
    facts: Row = {
        "profile": profile.name,
        "credit_flow_default_credit": f"{credit.initial},{credit.more_after}",
        "msg_store_credit_disc_bound": f"{store.initial},{store.more_after}",
    }
    budget = node.broker.budget
    if budget is not None:
        facts["active_links"] = budget.active
        facts["links"] = budget.links
        facts["budget_messages"] = budget.messages
        facts["budget_bytes"] = budget.bytes
    pacer = node.broker.pacer
    if pacer is not None:
        facts["publishers_held"] = pacer.is_held
        facts["publishers_held_count"] = pacer.held_count
        facts["publishers_held_ms"] = pacer.held_ns(node.broker.world.clock.now_ns()) // 1_000_000
        facts["queues_lag_messages"] = pacer.lag
        facts["queues_under_way_messages"] = pacer.under_way
    return facts


SINGLE: Final[dict[str, Callable[[Node, list[Row]], Iterator[int]]]] = {
    "status": status,
    "chain": chain,
}
"""The commands that answer with a single row."""
