"""Connections, channels and consumers as RabbitMQ's HTTP API shows them."""

from __future__ import annotations

from typing import Any, Final

from sluicemq.management.history import details
from sluicemq.management.inventory import Record
from sluicemq.management.message_stats import (
    DELIVERIES,
    NO_SAMPLES,
    PUBLISHES,
    SampleWish,
    message_stats,
)
from sluicemq.management.queue_shape import NO_PROCESS, peer_of
from sluicemq.management.sampler import BrokerSampler

CONNECTION: Final = (
    "auth_mechanism",
    "channel_max",
    "channels",
    "client_properties",
    "connected_at",
    "frame_max",
    "host",
    "name",
    "peer_host",
    "peer_port",
    "port",
    "protocol",
    "recv_cnt",
    "recv_oct",
    "send_cnt",
    "send_oct",
    "send_pend",
    "ssl",
    "state",
    "timeout",
    "user",
    "vhost",
)
TLS: Final = ("peer_cert_issuer", "peer_cert_subject", "ssl_cipher", "ssl_protocol")
CHANNEL: Final = (
    "acks_uncommitted",
    "consumer_count",
    "global_prefetch_count",
    "messages_unacknowledged",
    "messages_uncommitted",
    "messages_unconfirmed",
    "name",
    "number",
    "prefetch_count",
    "state",
    "transactional",
    "user",
    "vhost",
)
CHANNEL_STATS: Final = (*PUBLISHES, *DELIVERIES)


def connection_shape(
    row: Record, sampler: BrokerSampler, node: str, wish: SampleWish = NO_SAMPLES
) -> dict[str, Any]:
    """Return a connection's record as RabbitMQ's API has it, with rates."""
    ring = sampler.connections.ring(row["name"])
    columns = sampler.connections.names
    shown: dict[str, Any] = {name: row[name] for name in CONNECTION}
    for name in columns:
        shown[f"{name}_details"] = details(ring, columns[name], *wish.of("data_rates"))
    given = row["client_properties"].get("connection_name")
    if isinstance(given, str):
        shown["user_provided_name"] = given
    shown |= {name: row[name] or None for name in TLS}
    shown |= {
        "garbage_collection": NO_PROCESS,
        "node": row["node"] or node,
        "peer_cert_validity": None,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "ssl_hash": None,
        "ssl_key_exchange": None,
        "type": "network",
        "user_who_performed_action": row["user"],
    }
    return dict(sorted(shown.items()))


def channel_shape(
    row: Record, sampler: BrokerSampler, node: str, wish: SampleWish = NO_SAMPLES
) -> dict[str, Any]:
    """Return a channel's record as RabbitMQ's API has it, with rates."""
    ring = sampler.channels.ring(row["name"])
    shown: dict[str, Any] = {name: row[name] for name in CHANNEL}
    shown |= {
        "confirm": row["confirm_mode"],
        "connection_details": peer_of(row["connection"]),
        "garbage_collection": NO_PROCESS,
        "node": row["node"] or node,
        "pending_raft_commands": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "user_who_performed_action": row["user"],
    }
    stats = message_stats(row, ring, sampler.channels.names, CHANNEL_STATS, wish)
    if stats:
        shown["message_stats"] = stats
    return dict(sorted(shown.items()))


def consumer_shape(row: Record, node: str) -> dict[str, Any]:
    """Return a consumer's record as RabbitMQ's API has it."""
    peer = peer_of(row["connection_name"])
    return {
        "arguments": row["arguments"],
        "ack_required": row["ack_required"],
        "active": row["active"],
        "activity_status": row["activity_status"],
        "channel_details": {
            "connection_name": row["connection_name"],
            "name": row["channel_name"],
            "node": row["node"] or node,
            "number": row["number"],
            "peer_host": peer["peer_host"],
            "peer_port": peer["peer_port"],
            "user": row["user"],
        },
        "consumer_tag": row["consumer_tag"],
        "consumer_timeout": 0,
        "exclusive": row["exclusive"],
        "prefetch_count": row["prefetch_count"],
        "queue": {"name": row["queue_name"], "vhost": row["vhost"]},
    }
