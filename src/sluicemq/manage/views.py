"""The running broker as rows: the one entry for `sluicemq ctl`, and later for the HTTP API.

Everything is read at the moment of asking, a row after the other; nothing is gathered beforehand
and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isinf
from typing import TYPE_CHECKING, Any, Final

from sluicemq import __version__
from sluicemq.errors import Refused
from sluicemq.manage import storage_view
from sluicemq.manage.chain_view import chain
from sluicemq.manage.command import Given
from sluicemq.manage.lists import LISTS
from sluicemq.manage.tables import DEFAULTS
from sluicemq.model.definitions import DEFAULT_VHOST

if TYPE_CHECKING:
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


def rows(node: Node, command: str, arguments: Mapping[str, Any]) -> Iterator[Row]:
    """What `command` answers, each row made when it is asked for. Refused at once: there is no such
    command, column or virtual host."""
    if command in LISTS:
        return list_rows(node, command, arguments)
    single = SINGLE.get(command)
    if single is None:
        raise Refused(f"there is no command {command}")
    return iter((single(node),))


def list_rows(node: Node, command: str, arguments: Mapping[str, Any]) -> Iterator[Row]:
    """The chosen columns of everything that is on a list now."""
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
    return ({name: value(item) for name, value in chosen} for item in tuple(items(vhost)))


def status(node: Node) -> Row:
    """What the broker is, its limits, alarms and totals, in sections."""
    broker = node.broker
    depths = [queue.machine.depth for queue in broker.all_queues()]
    counters = broker.counters
    counted = broker.world.disk.counters()
    return {
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
            "channels": sum(len(reader.channels) for reader in broker.connections.values()),
            "queues": broker.queue_count,
            "consumers": sum(depth.consumers for depth in depths),
            "messages_ready": sum(depth.ready for depth in depths),
            "messages_unacknowledged": sum(depth.unacked for depth in depths),
        },
        "Since the start": {name: getattr(counters, name) for name in TOTALS},
        **broker.store.info(),
        "I/O": storage_view.io(counted),
        "File handles": storage_view.file_handles(counted),
    }


def memory(node: Node) -> Row:
    """The two figures the alarm looks at, its limit, and where paging begins, in bytes; how many
    seconds' worth of messages queues may keep now."""
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
    """The numbers in force."""
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
    return facts


SINGLE: Final[dict[str, Callable[[Node], Row]]] = {"status": status, "chain": chain}
"""Commands that answer one row."""
