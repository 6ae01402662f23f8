"""The rows that control commands answer: columns with RabbitMQ's names, and the rows of the chain.

Both ends use them, `views.py` in the broker and the command line, which so refuses an unknown
column without asking a broker. `DEFAULTS` are rabbitmqctl's.
"""

from __future__ import annotations

from typing import Final, TypedDict

COLUMNS: Final[dict[str, dict[str, str]]] = {
    "list_queues": {
        "name": "the queue's name",
        "durable": "whether its declaration outlives a restart",
        "auto_delete": "whether it is deleted with its last consumer",
        "exclusive": "whether it belongs to one connection",
        "arguments": "the arguments it was declared with",
        "type": "the queue type",
        "policy": "the policy that applies to it",
        "operator_policy": "the operator policy that applies to it",
        "effective_policy_definition": "the settings that both policies make together",
        "owner_pid": "the connection an exclusive queue belongs to",
        "messages_ready": "messages ready for delivery",
        "messages_unacknowledged": "messages delivered and not acknowledged",
        "messages": "messages ready and unacknowledged",
        "messages_ram": "messages whose bodies are in memory",
        "messages_ready_ram": "ready messages whose bodies are in memory",
        "messages_unacknowledged_ram": "unacknowledged messages whose bodies are in memory",
        "messages_persistent": "messages that were published as persistent",
        "messages_paged_out": "transient messages that are on disk only",
        "message_bytes": "bytes of all messages as stored, with headers and properties",
        "message_bytes_ready": "bytes of the ready messages",
        "message_bytes_unacknowledged": "bytes of the unacknowledged messages",
        "message_bytes_ram": "bytes of memory the messages in memory take, less the overhead",
        "message_bytes_persistent": "bytes of the persistent messages (estimated if kinds mix)",
        "message_bytes_paged_out": "bytes of the transient messages on disk (estimated likewise)",
        "disk_reads": "messages read from disk since it was declared or the broker started",
        "disk_writes": "messages written to disk since it was declared or the broker started",
        "backing_queue_status": "where its messages are, how many may be in memory, and rates",
        "segments": "the number of files of a stream",
        "first_offset": "the offset of the first message of a stream",
        "committed_offset": "the offset of the last message of a stream that is on disk",
        "node": "the node that has its messages",
        "leader": "the node that leads the group of a quorum queue",
        "members": "the nodes that have a member of the group of a quorum queue",
        "online": "those of them whose members take part",
        "slave_pids": "the nodes that are to have a mirror of it, beside the master's",
        "synchronised_slave_pids": "those of them for which confirms wait",
        "consumers": "the number of consumers",
        "state": "running; syncing: it works, and new mirrors are being sent what is in it; flow:"
        " held up by the message store within the last second; after a"
        " fault, recovering or crashed; or down: its node is",
        "memory": "bytes of memory accounted for it",
    },
    "list_connections": {
        "pid": "the connection's name (there are no Erlang processes)",
        "name": "client address -> broker address",
        "host": "the broker's address",
        "port": "the broker's port",
        "peer_host": "the client's address",
        "peer_port": "the client's port",
        "state": "running, flow, blocking, blocked, or a phase of the handshake or the close",
        "channels": "the number of open channels",
        "protocol": "the protocol's version",
        "auth_mechanism": "how the client authenticated",
        "ssl": "whether it uses TLS",
        "ssl_protocol": "the version of TLS",
        "ssl_cipher": "the cipher suite, by OpenSSL's name",
        "peer_cert_subject": "the subject of the client's certificate, when it was verified",
        "peer_cert_issuer": "the issuer of the client's certificate, when it was verified",
        "user": "the user that is logged in",
        "vhost": "the virtual host",
        "timeout": "the heartbeat agreed on, in seconds",
        "frame_max": "the largest frame agreed on",
        "channel_max": "the highest channel number agreed on",
        "client_properties": "the properties that the client sent about itself",
        "recv_oct": "bytes received",
        "recv_cnt": "reads from the socket",
        "send_oct": "bytes sent",
        "send_cnt": "writes to the socket",
        "send_pend": "bytes waiting to be sent",
        "connected_at": "when it connected, in milliseconds since the epoch",
    },
    "list_channels": {
        "pid": "the channel's name (there are no Erlang processes)",
        "name": "the connection's name and the channel's number",
        "connection": "the connection's name",
        "number": "the number within the connection",
        "user": "the user that opened it",
        "vhost": "the virtual host",
        "transactional": "whether it is in transactional mode",
        "confirm": "whether it is in confirm mode",
        "consumer_count": "the number of consumers",
        "messages_unacknowledged": "messages delivered and not acknowledged",
        "messages_uncommitted": "publishes waiting for a commit",
        "messages_unconfirmed": "publishes waiting for a confirm",
        "acks_uncommitted": "acknowledgements waiting for a commit",
        "prefetch_count": "the prefetch limit for each new consumer (0: none)",
        "global_prefetch_count": "the prefetch limit for all its consumers together (0: none)",
        "state": "running, or flow: held up by a queue within the last second",
    },
    "list_consumers": {
        "queue_name": "the queue",
        "channel_pid": "the channel's name",
        "consumer_tag": "the consumer's tag",
        "ack_required": "whether it acknowledges deliveries",
        "prefetch_count": "how many unacknowledged messages it may have (0: no limit)",
        "active": "whether it gets messages",
        "activity_status": "up, single_active, or waiting behind a single active consumer",
        "arguments": "the arguments it was registered with",
        "exclusive": "whether it is the queue's exclusive consumer",
    },
    "list_exchanges": {
        "name": "the exchange's name (empty: the default one)",
        "type": "the exchange type, such as direct, fanout or topic",
        "durable": "whether its declaration outlives a restart",
        "auto_delete": "whether it is deleted with its last binding",
        "internal": "whether clients may not publish to it",
        "policy": "the policy that applies to it",
        "arguments": "the arguments it was declared with",
    },
    "list_bindings": {
        "source_name": "the exchange (empty: the default one)",
        "source_kind": "always exchange",
        "destination_name": "the queue or exchange that messages go to",
        "destination_kind": "queue or exchange",
        "routing_key": "the binding key",
        "arguments": "the arguments it was bound with",
    },
}

DEFAULTS: Final[dict[str, tuple[str, ...]]] = {
    "list_queues": ("name", "messages"),
    "list_connections": ("user", "peer_host", "peer_port", "state"),
    "list_channels": ("pid", "user", "consumer_count", "messages_unacknowledged"),
    "list_consumers": (
        "queue_name",
        "channel_pid",
        "consumer_tag",
        "ack_required",
        "prefetch_count",
        "active",
        "arguments",
    ),
    "list_exchanges": ("name", "type"),
    "list_bindings": (
        "source_name",
        "source_kind",
        "destination_name",
        "destination_kind",
        "routing_key",
        "arguments",
    ),
}


class ChainStage(TypedDict):
    """One actor of the chain (`kind` reader, channel, queue, message_store or writer), or another
    cause that can hold one up: a raised alarm, the disk."""

    id: str
    """A name that no other stage has; links name their ends by it."""
    kind: str
    name: str
    """A name for people: that of a queue contains its virtual host, except for the default one."""
    inbox: int
    """The number of publishes that wait in its inbox; for a writer, of pieces that wait for the
    socket."""
    state: str
    gates_shut: int
    blocked_ms: int
    """How long it has been held up now; 0 when it is not."""
    blocked_total_ms: int
    """How long it has been held up in total, since it began."""
    deferred: int
    """Credit that it owes upstream and holds back while one of its own gates is shut."""


class ChainLink(TypedDict):
    """Credit between two stages: `sender` spends it, `receiver` grants it. A gate without credit
    (an alarm, a clogged writer) has `initial` 0."""

    sender: str
    receiver: str
    credit: int
    initial: int
    owed: int
    """Messages that the receiver has handled and not granted credit for yet."""
    withheld: int
    """Credit that the receiver keeps back to make the window smaller (profile `adaptive`)."""
    deferred: int
    """Credit that is due, but held back because the receiver is itself held up."""
    shut: bool
    blocked_ms: int
    """How long it has held the sender up now; 0 when it does not."""
    blocked_total_ms: int
    """How long it has held the sender up in total, since it began."""
