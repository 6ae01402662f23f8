"""A queue as RabbitMQ's HTTP API shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from sluicemq.management.inventory import Record
from sluicemq.management.message_stats import (
    DELIVERIES,
    NO_SAMPLES,
    SampleWish,
    message_stats,
    with_details,
)
from sluicemq.management.sampler import QUEUE_FIGURES, BrokerSampler

DEPTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
PLAIN: Final = (
    "arguments",
    "auto_delete",
    "consumers",
    "durable",
    "effective_policy_definition",
    "exclusive",
    "memory",
    "message_bytes",
    "message_bytes_persistent",
    "message_bytes_ram",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "messages_persistent",
    "messages_ram",
    "name",
    "state",
    "type",
    "vhost",
)
OF_CLASSIC: Final = (
    "backing_queue_status",
    "exclusive_consumer_tag",
    "message_bytes_paged_out",
    "messages_paged_out",
    "messages_ready_ram",
    "messages_unacknowledged_ram",
    "single_active_consumer_tag",
)
OF_STREAM: Final = ("segments", "first_offset", "committed_offset")
STATS: Final = ("publish", *DELIVERIES)
NO_PROCESS: Final = {
    "fullsweep_after": 0,
    "max_heap_size": 0,
    "min_bin_vheap_size": 0,
    "min_heap_size": 0,
    "minor_gcs": 0,
}
"""RabbitMQ's figures for the garbage collection of an Erlang process; there is none here."""


def queue_shape(
    row: Record, sampler: BrokerSampler, node: str, wish: SampleWish = NO_SAMPLES
) -> dict[str, Any]:
    """Return a queue's record as RabbitMQ's API has it, with rates; `node` is the one that reported
    it."""
    ring = sampler.queues.ring((row["vhost"], row["name"]))
    columns = sampler.queues.names
    capacity = 0.0
    if row["consumers"]:
        capacity = 1.0 if not row["messages_ready"] else 0.0
    shown: dict[str, Any] = {name: row[name] for name in PLAIN}
    shown |= with_details(row, DEPTHS, ring, columns, wish.of("lengths"))
    shown |= {
        "consumer_capacity": capacity,
        "consumer_utilisation": capacity,
        "garbage_collection": NO_PROCESS,
        "node": row["node"] or node,
        "operator_policy": row["operator_policy"] or None,
        "policy": row["policy"] or None,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
    }
    if row["owner_pid"]:
        shown["owner_pid_details"] = peer_of(row["owner_pid"])
    if row["type"] == "classic":
        shown |= {name: row[name] for name in OF_CLASSIC}
        if row["backing_queue_status"]:
            shown["backing_queue_status"] = backing_shape(row["backing_queue_status"])
        else:
            del shown["backing_queue_status"]  # only its own node knows it
        shown |= {"head_message_timestamp": None, "recoverable_slaves": None}
        if row["slave_pids"]:
            shown["slave_nodes"] = row["slave_pids"]
            shown["synchronised_slave_nodes"] = row["synchronised_slave_pids"]
    elif row["type"] == "quorum":
        shown |= group_shape(row, node)
    else:
        shown |= {name: row[name] for name in OF_STREAM}
    stats = message_stats(row, ring, columns, STATS, wish)
    if stats:
        shown["message_stats"] = stats
    changed_ms = sampler.queues.changed_ms.get((row["vhost"], row["name"]))
    if changed_ms is not None and ring is not None and is_idle(row, ring.last, columns):
        shown["idle_since"] = date_of(changed_ms)
    return dict(sorted(shown.items()))


def group_shape(row: Record, node: str) -> dict[str, Any]:
    """Return the fields of a quorum queue's group; a node without a cluster is its only member."""
    is_alone = not row["node"]
    members = [node] if is_alone else row["members"]
    return {
        "leader": node if is_alone else row["leader"],
        "members": members,
        "online": [node for _ in row["online"]] if is_alone else row["online"],
        "open_files": dict.fromkeys(members, 0),
        "messages_dlx": 0,
        "message_bytes_dlx": 0,
        "single_active_consumer_ctag": row["single_active_consumer_tag"],
    }


def backing_shape(status: dict[str, Any]) -> dict[str, Any]:
    """Return the backing queue's status as RabbitMQ has it: delta is a list that begins with its
    name."""
    delta = status["delta"]
    start, end = "undefined", "undefined"
    if delta["count"]:
        start, end = delta["start"], delta["end"]
    listed = ["delta", start, delta["count"], delta["transient"], end]
    next_deliver = status["next_seq_id"] - status["len"]
    more = {"delta": listed, "next_deliver_seq_id": next_deliver, "version": 1}
    return dict(sorted((status | more).items()))


def is_idle(row: Record, last: Any, columns: dict[str, int]) -> bool:
    """Tell whether nothing has changed in a queue since its last sample."""
    return all(row[name] == last(columns[name]) for name in QUEUE_FIGURES)


def date_of(time_ms: int) -> str:
    """Return a time in milliseconds since the epoch as RabbitMQ 3.10 writes `idle_since`."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def peer_of(connection: str) -> dict[str, Any]:
    """Return the fields of a connection in other objects: its name and the client's address."""
    host, _, port = connection.partition(" -> ")[0].rpartition(":")
    return {
        "name": connection,
        "peer_host": host.strip("[]"),
        "peer_port": int(port) if port.isdecimal() else 0,
    }
