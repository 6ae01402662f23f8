"""The metrics of each kind of object, under RabbitMQ's names, and the figures that they show."""

from __future__ import annotations

from typing import Final, NamedTuple

COUNTER, GAUGE = "counter", "gauge"


class Metric(NamedTuple):
    """One metric of a kind of objects: its `name` without the prefix, and the `figure` of a record
    that it shows; "" is always 0. `family` is that of /metrics/detailed."""

    name: str
    kind: str
    figure: str
    family: str
    help: str


QUEUE_METRICS: Final = (
    Metric("messages_ready", GAUGE, "messages_ready", "queue_coarse_metrics", "Ready messages"),
    Metric(
        "messages_unacked",
        GAUGE,
        "messages_unacknowledged",
        "queue_coarse_metrics",
        "Messages delivered and not acknowledged",
    ),
    Metric("messages", GAUGE, "messages", "queue_coarse_metrics", "Ready and unacked messages"),
    Metric("process_reductions_total", COUNTER, "", "queue_coarse_metrics", "Always 0: no Erlang"),
    Metric("consumers", GAUGE, "consumers", "queue_consumer_count", "Consumers of a queue"),
    Metric("consumer_capacity", GAUGE, "capacity", "queue_metrics", "1 while consumers keep up"),
    Metric("consumer_utilisation", GAUGE, "capacity", "queue_metrics", "Same as capacity"),
    Metric("process_memory_bytes", GAUGE, "memory", "queue_metrics", "Memory accounted for it"),
    Metric("messages_ram", GAUGE, "messages_ram", "queue_metrics", "Messages in memory"),
    Metric("messages_ram_bytes", GAUGE, "message_bytes_ram", "queue_metrics", "Their bytes"),
    Metric(
        "messages_ready_ram", GAUGE, "messages_ready_ram", "queue_metrics", "Ready ones in memory"
    ),
    Metric(
        "messages_unacked_ram",
        GAUGE,
        "messages_unacknowledged_ram",
        "queue_metrics",
        "Unacked ones in memory",
    ),
    Metric(
        "messages_persistent", GAUGE, "messages_persistent", "queue_metrics", "Persistent messages"
    ),
    Metric(
        "messages_persistent_bytes",
        GAUGE,
        "message_bytes_persistent",
        "queue_metrics",
        "Bytes of persistent messages",
    ),
    Metric("messages_bytes", GAUGE, "message_bytes", "queue_metrics", "Bytes of all messages"),
    Metric(
        "messages_ready_bytes",
        GAUGE,
        "message_bytes_ready",
        "queue_metrics",
        "Bytes of ready messages",
    ),
    Metric(
        "messages_unacked_bytes",
        GAUGE,
        "message_bytes_unacknowledged",
        "queue_metrics",
        "Bytes of unacked messages",
    ),
    Metric(
        "messages_paged_out",
        GAUGE,
        "messages_paged_out",
        "queue_metrics",
        "Messages that are on disk only",
    ),
    Metric(
        "messages_paged_out_bytes",
        GAUGE,
        "message_bytes_paged_out",
        "queue_metrics",
        "Bytes of messages that are on disk only",
    ),
    Metric("disk_reads_total", COUNTER, "disk_reads", "queue_metrics", "Messages read from disk"),
    Metric("disk_writes_total", COUNTER, "disk_writes", "queue_metrics", "Messages written"),
    Metric(
        "messages_published_total",
        COUNTER,
        "publish",
        "queue_metrics",
        "Published",
    ),
)
RAFT_METRICS: Final = tuple(
    Metric(name, kind, figure, "ra_metrics", text)
    for names, kind, figure, text in (
        (("term_total", "term"), COUNTER, "term", "Term of the group"),
        (
            ("log_last_written_index", "last_written_index"),
            GAUGE,
            "last_index",
            "The last entry of the log",
        ),
        (
            ("log_commit_index", "commit_index"),
            GAUGE,
            "commit_index",
            "The last entry that was agreed on",
        ),
        (
            ("log_snapshot_index", "snapshot_index"),
            GAUGE,
            "snapshot_index",
            "The last entry that is in the snapshot",
        ),
    )
    for name in names
)
"""Of quorum queues, below rabbitmq_raft_: under the names of RabbitMQ 3.10, and under those that
dashboards ask for since."""

CHANNEL_METRICS: Final = (
    Metric("consumers", GAUGE, "consumer_count", "channel_metrics", "Consumers"),
    Metric(
        "messages_unacked",
        GAUGE,
        "messages_unacknowledged",
        "channel_metrics",
        "Messages delivered and not acknowledged",
    ),
    Metric(
        "messages_unconfirmed",
        GAUGE,
        "messages_unconfirmed",
        "channel_metrics",
        "Messages published and not confirmed",
    ),
    Metric(
        "messages_uncommitted", GAUGE, "messages_uncommitted", "channel_metrics", "Uncommitted ones"
    ),
    Metric(
        "acks_uncommitted",
        GAUGE,
        "acks_uncommitted",
        "channel_metrics",
        "Uncommitted acks",
    ),
    Metric("prefetch", GAUGE, "global_prefetch_count", "channel_metrics", "Limit of the channel"),
    Metric("messages_published_total", COUNTER, "publish", "channel_exchange_metrics", "Published"),
    Metric("messages_confirmed_total", COUNTER, "confirm", "channel_exchange_metrics", "Confirmed"),
    Metric(
        "messages_unroutable_returned_total",
        COUNTER,
        "return_unroutable",
        "channel_exchange_metrics",
        "Mandatory messages that went to no queue",
    ),
    Metric(
        "messages_unroutable_dropped_total",
        COUNTER,
        "drop_unroutable",
        "channel_exchange_metrics",
        "Other messages that went to no queue",
    ),
    Metric(
        "process_reductions_total", COUNTER, "", "channel_process_metrics", "Always 0: no Erlang"
    ),
    Metric("get_ack_total", COUNTER, "get", "channel_queue_metrics", "Got, to be acknowledged"),
    Metric("get_total", COUNTER, "get_no_ack", "channel_queue_metrics", "Got without that"),
    Metric(
        "messages_delivered_ack_total",
        COUNTER,
        "deliver",
        "channel_queue_metrics",
        "Delivered, to be acknowledged",
    ),
    Metric(
        "messages_delivered_total",
        COUNTER,
        "deliver_no_ack",
        "channel_queue_metrics",
        "Delivered without that",
    ),
    Metric(
        "messages_redelivered_total",
        COUNTER,
        "redeliver",
        "channel_queue_metrics",
        "Delivered or got again",
    ),
    Metric("messages_acked_total", COUNTER, "ack", "channel_queue_metrics", "Acknowledged"),
    Metric("get_empty_total", COUNTER, "get_empty", "channel_queue_metrics", "Gets of nothing"),
)
CONNECTION_METRICS: Final = (
    Metric(
        "incoming_bytes_total", COUNTER, "recv_oct", "connection_coarse_metrics", "Bytes received"
    ),
    Metric("outgoing_bytes_total", COUNTER, "send_oct", "connection_coarse_metrics", "Bytes sent"),
    Metric(
        "process_reductions_total", COUNTER, "", "connection_coarse_metrics", "Always 0: no Erlang"
    ),
    Metric("incoming_packets_total", COUNTER, "recv_cnt", "connection_metrics", "Reads"),
    Metric("outgoing_packets_total", COUNTER, "send_cnt", "connection_metrics", "Writes"),
    Metric("pending_packets", GAUGE, "send_pend", "connection_metrics", "Waiting to be sent"),
    Metric("channels", GAUGE, "channels", "connection_metrics", "Channels of a connection"),
)

NODE_COUNTERS: Final = (
    ("connections_opened_total", "connection_created", "Connections opened"),
    ("connections_closed_total", "connection_closed", "Connections closed"),
    ("channels_opened_total", "channel_created", "Channels opened"),
    ("channels_closed_total", "channel_closed", "Channels closed"),
    ("queues_declared_total", "queue_declared", "Queues declared"),
    ("queues_created_total", "queue_created", "Queues created"),
    ("queues_deleted_total", "queue_deleted", "Queues deleted"),
    ("io_read_ops_total", "io_read_count", "Reads of files"),
    ("io_read_bytes_total", "io_read_bytes", "Bytes read from files"),
    ("io_write_ops_total", "io_write_count", "Writes of files"),
    ("io_write_bytes_total", "io_write_bytes", "Bytes written to files"),
    ("io_sync_ops_total", "io_sync_count", "Syncs of files"),
    ("io_seek_ops_total", "io_seek_count", "Reads and writes elsewhere in a file"),
    ("io_reopen_ops_total", "io_reopen_count", "Files opened again"),
    ("msg_store_read_total", "msg_store_read_count", "Reads of the message store"),
    ("msg_store_write_total", "msg_store_write_count", "Writes of the message store"),
)
"""Counters of the node: RabbitMQ's name, ours, and the description."""

NODE_GAUGES: Final = (
    ("process_open_fds", "fd_used", "Open file descriptors"),
    ("process_open_tcp_sockets", "sockets_used", "Open connections"),
    ("process_resident_memory_bytes", "mem_used", "Resident memory"),
    ("disk_space_available_bytes", "disk_free", "Free bytes on the disk"),
    ("process_max_fds", "fd_total", "The most file descriptors"),
    ("process_max_tcp_sockets", "sockets_total", "The most connections"),
    ("resident_memory_limit_bytes", "mem_limit", "The memory alarm's limit"),
    ("disk_space_available_limit_bytes", "disk_free_limit", "The disk alarm's limit"),
)

GLOBAL_BY_TYPE: Final = (
    ("acknowledged_total", "ack"),
    ("delivered_consume_auto_ack_total", "deliver_no_ack"),
    ("delivered_consume_manual_ack_total", "deliver"),
    ("delivered_get_auto_ack_total", "get_no_ack"),
    ("delivered_get_manual_ack_total", "get"),
    ("get_empty_total", "get_empty"),
    ("redelivered_total", "redeliver"),
)
"""The counters for each type of queue, below rabbitmq_global_messages_."""

QUEUE_TYPES: Final = ("classic", "quorum", "stream")
