"""The nodes and the overview as RabbitMQ's HTTP API shows them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from sluicemq import __version__
from sluicemq.manage.record_columns import QUEUES
from sluicemq.management.client_shapes import CHANNEL_STATS
from sluicemq.management.cluster_inventory import node_name
from sluicemq.management.history import details
from sluicemq.management.inventory import Record
from sluicemq.management.message_stats import NO_SAMPLES, SampleWish, message_stats, with_details
from sluicemq.management.node_watch import CHURN, NODE_FIGURES, NodeWatch, churn_of
from sluicemq.management.sampler import BrokerSampler, churn_of_all
from sluicemq.model.traffic import TRAFFIC

RABBITMQ_VERSION: Final = "3.10.8"
"""The version of RabbitMQ that has this API: clients choose their requests by it."""

EXCHANGE_TYPES: Final = (
    "direct",
    "fanout",
    "headers",
    "topic",
    "x-consistent-hash",
    "x-delayed-message",
    "x-modulus-hash",
    "x-random",
)
DEPTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
SUMMED: Final = (
    "channels",
    "connections",
    "consumers",
    "messages_ready",
    "messages_unacknowledged",
)
"""Totals of the overview that are sums over all nodes; every node knows all definitions."""

PROTOCOLS: Final = {"amqp": "amqp", "amqps": "amqp/ssl"}
AVERAGES: Final = ("io_read", "io_write", "io_sync", "io_seek")
"""Kinds of I/O whose average time is shown, in milliseconds."""

OF_ERLANG: Final = (
    "gc_num",
    "gc_bytes_reclaimed",
    "context_switches",
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
)
"""Figures of Erlang, which are 0 here."""

OF_LATER_ONES: Final = (
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "metadata_store",
    "metadata_store_ets",
)
"""Parts of the memory that only later RabbitMQs have, and some clients require."""

CODE_BYTES: Final = 45_000_000
"""The RAM of a broker without any data: the interpreter, its modules and buffers."""

CONNECTION_BYTES: Final = 40_000
CHANNEL_BYTES: Final = 12_000
QUEUE_BYTES: Final = 12_000
"""The RAM of one connection, channel or queue, without messages, roughly."""

INDEX_BYTES: Final = 150
"""The RAM of a message without its body, roughly."""


def exchange_types() -> list[dict[str, Any]]:
    """Return the types of exchanges, as RabbitMQ describes them."""
    return [
        {"name": name, "description": f"AMQP {name} exchange", "enabled": True}
        for name in EXCHANGE_TYPES
    ]


def listeners(node: Record, own: Iterable[tuple[str, str, int]]) -> list[dict[str, Any]]:
    """Return the listeners of the broker, and this process's `own` (protocol, address, port)."""
    name = node_name(node)
    found = []
    for url in node["listeners"]:
        parts = urlsplit(url)
        found.append((PROTOCOLS[parts.scheme], parts.hostname or "", parts.port or 0))
    return [
        {
            "node": name,
            "protocol": protocol,
            "ip_address": address,
            "port": port,
            "socket_opts": {"backlog": 128, "nodelay": True},
        }
        for protocol, address, port in (*found, *own)
    ]


def contexts(node: Record, own: Iterable[tuple[str, str, int]]) -> list[dict[str, Any]]:
    """Return the listeners of this process, as RabbitMQ describes its web applications."""
    described = {"http": "RabbitMQ Management", "https": "RabbitMQ Management"}
    return [
        {
            "node": node_name(node),
            "description": described.get(protocol, "RabbitMQ Prometheus"),
            "path": "/",
            "ip": address,
            "port": str(port),
        }
        for protocol, address, port in own
    ]


def memory_breakdown(node: Record, queues: int) -> dict[str, Any]:
    """Return how the node uses its RAM, under RabbitMQ's names. The parts sum up to the total that
    the system counts: messages are accounted one by one; connections, channels and queues are
    estimated at a fixed size each; the rest is memory that the allocator holds unused."""
    memory, totals = node["memory"], node["totals"]
    resident = memory["resident_bytes"]
    messages = totals["messages_ready"] + totals["messages_unacknowledged"]
    index = min(messages * INDEX_BYTES, memory["accounted_bytes"])
    parts = {
        "connection_readers": totals["connections"] * CONNECTION_BYTES // 2,
        "connection_writers": totals["connections"] * CONNECTION_BYTES // 4,
        "connection_channels": totals["channels"] * CHANNEL_BYTES,
        "connection_other": totals["connections"] * CONNECTION_BYTES // 4,
        "queue_procs": queues * QUEUE_BYTES,
        "quorum_queue_procs": 0,
        "stream_queue_procs": 0,
        "binary": memory["accounted_bytes"] - index,
        "msg_index": index,
        "code": CODE_BYTES,
    }
    left = resident
    for name, size in parts.items():  # the estimates must not exceed the system's total
        parts[name] = min(size, left)
        left -= parts[name]
    return {
        **parts,
        **dict.fromkeys(
            ("plugins", "other_proc", "metrics", "mgmt_db", "mnesia", "other_ets", "atom"), 0
        ),
        **dict.fromkeys(OF_LATER_ONES, 0),
        "quorum_ets": 0,
        "other_system": 0,
        "allocated_unused": left,
        "reserved_unallocated": 0,
        "strategy": "rss",
        "total": {"erlang": resident - left, "rss": resident, "allocated": resident},
    }


def average_ms(io: dict[str, int], kind: str) -> float:
    """Return the average time of an operation since the start, in milliseconds."""
    count = io.get(f"{kind}_count", 0)
    return io.get(f"{kind}_time", 0) / count / 1000 if count else 0.0


def node_shape(
    node: Record,
    watch: NodeWatch,
    own: Iterable[tuple[str, str, int]],
    wish: SampleWish = NO_SAMPLES,
    is_running: bool = True,
) -> dict[str, Any]:
    """Return the figures of a node as RabbitMQ's API has them; `own` are this process's listeners
    for it. The figures of a node that is not running are its last ones."""
    own = [*own]
    memory, disk, io = node["memory"], node["disk"], node["io"]
    span = wish.of("node_stats")
    history = watch.history
    ring = history.ring(span[0] or 0)
    shown: dict[str, Any] = {
        "partitions": [],
        "os_pid": str(watch.pid),
        "being_drained": False,
        "fd_total": node["sockets_max"] + io.get("file_handles_max", 0),
        "sockets_total": node["sockets_max"],
        "mem_limit": memory["limit_bytes"],
        "mem_alarm": "memory" in node["alarms"],
        "disk_free_limit": disk["limit_bytes"],
        "disk_free_alarm": "disk" in node["alarms"],
        "proc_total": 1_048_576,
        "rates_mode": "basic",
        "uptime": node["uptime_ms"],
        "run_queue": 0,
        "processors": 1,
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": name, "description": f"SASL {name} authentication", "enabled": True}
            for name in ("PLAIN", "AMQPLAIN")
        ],
        "applications": [
            {"name": "rabbit", "description": "SluiceMQ", "version": __version__},
            {"name": "rabbitmq_management", "description": "HTTP API", "version": __version__},
        ],
        "contexts": contexts(node, own),
        "log_files": [node["log_file"] or "<stderr>"],
        "db_dir": disk["data_dir"],
        "config_files": [],
        "net_ticktime": 60,
        "enabled_plugins": ["rabbitmq_management", "rabbitmq_prometheus"],
        "mem_calculation_strategy": "rss",
        "ra_open_file_metrics": {"ra_log_wal": 1, "ra_log_segment_writer": 0},
        "name": node_name(node),
        "type": "disc",
        "running": is_running,
        "cluster_links": [],
        "metrics_gc_queue_length": {},
        **{f"{kind}_avg_time": average_ms(io, kind) for kind in AVERAGES},
        **{f"{kind}_avg_time_details": {"rate": 0.0} for kind in AVERAGES},
        **dict.fromkeys(OF_ERLANG, 0),
        **{f"{name}_details": {"rate": 0.0} for name in OF_ERLANG},
    }
    shown |= with_details(watch.figures(node), NODE_FIGURES, ring, history.names, span)
    return shown | with_details(churn_of(node), (*CHURN,), ring, history.names, span)


def other_node(row: Record) -> dict[str, Any]:
    """Return another node of the cluster that has not reported yet, as the local node knows it."""
    return {"name": row["node"], "type": "disc", "running": row["running"], "partitions": []}


def overview_shape(
    node: Record,
    sampler: BrokerSampler,
    vhosts: list[Record],
    own: Iterable[tuple[str, str, int]],
    cluster_name: str,
    wish: SampleWish,
) -> dict[str, Any]:
    """Return the overview of the cluster as RabbitMQ's API has it; `node` has the figures of the
    local node."""
    own = [*own]
    every = sampler.told_by_all(node)
    traffic: dict[str, Any] = sampler.through_all.traffic(vhosts)
    sums = {name: sum(told["totals"][name] for told in every) for name in SUMMED}
    totals = node["totals"] | sums
    lengths, rates = wish.of("lengths"), wish.of("msg_rates")
    columns = sampler.totals.names
    newest = sampler.totals.rings[0]
    for name in ("disk_reads", "disk_writes"):
        traffic[name] = newest.last(columns[name])
    ring = sampler.totals.ring(rates[0] or 0)
    stats = message_stats(traffic, ring, columns, CHANNEL_STATS, wish)
    for name in ("disk_reads", "disk_writes"):
        if stats:
            stats[name] = traffic[name]
            stats[f"{name}_details"] = details(ring, columns[name], *rates)
    depth = {
        "messages": totals["messages_ready"] + totals["messages_unacknowledged"],
        "messages_ready": totals["messages_ready"],
        "messages_unacknowledged": totals["messages_unacknowledged"],
        "messages_unconfirmed": newest.last(columns["messages_unconfirmed"]),
    }
    return {
        "management_version": RABBITMQ_VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": {
            "global": [600, 3600, 28800, 86400],
            "basic": [600],
            "detailed": [600],
        },
        "exchange_types": exchange_types(),
        "product_version": node["version"],
        "product_name": "SluiceMQ",
        "rabbitmq_version": RABBITMQ_VERSION,
        "cluster_name": cluster_name,
        "erlang_version": "25.2.3",
        "erlang_full_version": f"none: CPython {sys.version.split()[0]}",
        "release_series_support_status": "supported",
        "disable_stats": False,
        "enable_queue_totals": False,
        "message_stats": dict(sorted(stats.items())),
        "churn_rates": with_details(churn_of_all(every), (*CHURN,), ring, columns, rates),
        "queue_totals": with_details(
            depth, (*depth,), sampler.totals.ring(lengths[0] or 0), columns, lengths
        ),
        "object_totals": {
            name: totals[name]
            for name in ("channels", "connections", "consumers", "exchanges", QUEUES)
        },
        "statistics_db_event_queue": 0,
        "node": node_name(node),
        "listeners": [
            *listeners(node, own),
            *(each for told in every[1:] for each in listeners(told, ())),
        ],
        "contexts": contexts(node, own),
    }


def vhost_shape(
    row: Record,
    sampler: BrokerSampler,
    queues: Iterable[Record],
    nodes: Iterable[str],
    wish: SampleWish,
) -> dict[str, Any]:
    """Return a virtual host as RabbitMQ's API has it; `queues` are those in it, and `nodes` all
    nodes of the cluster."""
    ring = sampler.vhosts.ring(row["name"])
    columns = sampler.vhosts.names
    depth = dict.fromkeys(DEPTHS, 0)
    for queue in queues:
        for name in DEPTHS:
            depth[name] += queue[name]
    metadata: dict[str, Any] = {"description": row["description"], "tags": row["tags"]}
    if row["default_queue_type"]:
        metadata["default_queue_type"] = row["default_queue_type"]
    shown: dict[str, Any] = {
        "cluster_state": dict.fromkeys(nodes, "running"),
        "default_queue_type": row["default_queue_type"] or "undefined",
        "description": row["description"],
        "metadata": metadata,
        "name": row["name"],
        "tags": row["tags"],
        "tracing": False,
        **with_details(depth, DEPTHS, ring, columns, wish.of("lengths")),
    }
    traffic = {name: row[name] for name in TRAFFIC}
    stats = message_stats(traffic, ring, columns, CHANNEL_STATS, wish)
    if stats:
        shown["message_stats"] = stats
    return dict(sorted(shown.items()))
