"""The columns of the records for the management process: names and order, by kind.

Both ends use them: `records.py` in the broker makes lists of values in this order, and the
management process turns them into the objects of RabbitMQ's HTTP API.
"""

from __future__ import annotations

from typing import Final

from sluicemq.model.traffic import TRAFFIC

QUEUES: Final = "queues"
CONNECTIONS: Final = "connections"
CHANNELS: Final = "channels"
CONSUMERS: Final = "consumers"
EXCHANGES: Final = "exchanges"
BINDINGS: Final = "bindings"
VHOSTS: Final = "vhosts"

QUEUE_LISTED: Final = (
    "name",
    "durable",
    "auto_delete",
    "exclusive",
    "arguments",
    "type",
    "policy",
    "operator_policy",
    "effective_policy_definition",
    "owner_pid",
    "messages_ready",
    "messages_unacknowledged",
    "messages",
    "messages_ram",
    "messages_ready_ram",
    "messages_unacknowledged_ram",
    "messages_persistent",
    "messages_paged_out",
    "message_bytes",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "message_bytes_ram",
    "message_bytes_persistent",
    "message_bytes_paged_out",
    "disk_reads",
    "disk_writes",
    "backing_queue_status",
    "segments",
    "first_offset",
    "committed_offset",
    "node",
    "leader",
    "members",
    "online",
    "slave_pids",
    "synchronised_slave_pids",
    "consumers",
    "state",
    "memory",
)
"""Columns of list_queues that are in a queue's record."""

CONNECTION_LISTED: Final = (
    "name",
    "host",
    "port",
    "peer_host",
    "peer_port",
    "state",
    "channels",
    "protocol",
    "auth_mechanism",
    "ssl",
    "ssl_protocol",
    "ssl_cipher",
    "peer_cert_subject",
    "peer_cert_issuer",
    "user",
    "vhost",
    "timeout",
    "frame_max",
    "channel_max",
    "client_properties",
    "recv_oct",
    "recv_cnt",
    "send_oct",
    "send_cnt",
    "send_pend",
    "connected_at",
)
CHANNEL_LISTED: Final = (
    "name",
    "connection",
    "number",
    "user",
    "vhost",
    "transactional",
    "confirm",
    "consumer_count",
    "messages_unacknowledged",
    "messages_uncommitted",
    "messages_unconfirmed",
    "acks_uncommitted",
    "prefetch_count",
    "global_prefetch_count",
    "state",
)
CONSUMER_LISTED: Final = (
    "queue_name",
    "consumer_tag",
    "ack_required",
    "prefetch_count",
    "active",
    "activity_status",
    "arguments",
    "exclusive",
)
EXCHANGE_LISTED: Final = (
    "name",
    "type",
    "durable",
    "auto_delete",
    "internal",
    "policy",
    "arguments",
)
BINDING_LISTED: Final = (
    "source_name",
    "destination_name",
    "destination_kind",
    "routing_key",
    "arguments",
)

RAFT_FIGURES: Final = ("term", "last_index", "commit_index", "snapshot_index")
"""The figures of the log of a queue's Raft group in its record; 0 for queues that have none
here."""

RECORDS: Final[dict[str, tuple[str, ...]]] = {
    QUEUES: (
        *QUEUE_LISTED,
        "vhost",
        "blocked_ms",
        "gates_shut",
        "single_active_consumer_tag",
        "exclusive_consumer_tag",
        *RAFT_FIGURES,
        *TRAFFIC,
    ),
    CONNECTIONS: (*CONNECTION_LISTED, "blocked_ms", "gates_shut"),
    CHANNELS: (
        *("confirm_mode" if name == "confirm" else name for name in CHANNEL_LISTED),
        "blocked_ms",
        "gates_shut",
        *TRAFFIC,
    ),
    CONSUMERS: (
        *CONSUMER_LISTED,
        "vhost",
        "channel_name",
        "connection_name",
        "number",
        "user",
    ),
    EXCHANGES: (*EXCHANGE_LISTED, "vhost", "publish_in", "publish_out"),
    BINDINGS: (*BINDING_LISTED, "vhost"),
    VHOSTS: ("name", "description", "tags", "default_queue_type", "limits", *TRAFFIC),
}
"""The kinds of records, each with the names of its values; in that of a channel `confirm` is what
was counted."""
