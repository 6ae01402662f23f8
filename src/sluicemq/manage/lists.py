"""The list_* commands: the objects on each list, and a function for each column.

A column costs nothing unless it is asked for. The names are RabbitMQ's and are in tables.py with
their meaning; a test keeps the two in step.

Lists take many turns (see views.py). Each function here takes the names that exist at the
beginning, and at each step yields the object with that name, or None when it is gone or is on no
list. New objects may be missing; deleted ones are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sluicemq.amqp.types import Timestamp
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.chain.remote.remote_queue import RemoteQueue
from sluicemq.manage import mirrors_view, quorum_view
from sluicemq.manage.backing_view import (
    all_bytes,
    backing_queue_status,
    paged_out,
    paged_out_bytes,
    persistent_bytes,
    ram_bytes,
)
from sluicemq.model.definitions import EXCHANGE, QUEUE, BindingDefinition, ExchangeDefinition
from sluicemq.model.queue_types import QUORUM, TYPES
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.stream.machine import Stream

if TYPE_CHECKING:
    from sluicemq.broker.broker import Broker
    from sluicemq.broker.vhost import VirtualHost
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.channel.consuming import ChannelConsumer
    from sluicemq.chain.connection.reader import Reader
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.queues.machine import Depth
    from sluicemq.storage.stream_log import StreamLog


class ListedConsumer(NamedTuple):
    """A consumer, with the channel it is on."""

    channel: Channel
    subscription: ChannelConsumer


class ListedExchange(NamedTuple):
    """An exchange, with its virtual host."""

    vhost: VirtualHost
    definition: ExchangeDefinition

    @property
    def policy(self) -> str:
        """Return the name of the policy that applies to it; "" for none and for the default
        exchange."""
        name = self.definition.name
        policy = self.vhost.policies.for_exchange(name) if name else None
        return policy.name if policy is not None else ""


def jsonable(value: object) -> Any:
    """Return a field table's value in a form that JSON has."""
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None  # JSON has no NaN or infinity
    return value


def queues(_: Broker, vhost: VirtualHost) -> Iterator[Queue | None]:
    """Yield the queues of the virtual host."""
    for name in [*vhost.queues]:
        yield vhost.queues.get(name)


def holding_queues(vhost: VirtualHost) -> Iterator[Queue | None]:
    """Yield the queues that keep the delayed messages of its exchanges; these are on no list."""
    for name in [*vhost.queues.holding]:
        yield vhost.queues.holding.get(name)


def readers(broker: Broker) -> Iterator[Reader | None]:
    """Yield all connections of the node, including those in the handshake."""
    found = broker.connections
    for number in [*found]:
        yield found.get(number)


def connections(broker: Broker, _: VirtualHost) -> Iterator[Reader | None]:
    """Yield all connections of the node, in any virtual host."""
    return readers(broker)


def channels(broker: Broker, _: VirtualHost) -> Iterator[Channel | None]:
    """Yield all open channels of the node."""
    for reader in readers(broker):
        if reader is not None:
            for number in [*reader.channels]:
                yield reader.channels.get(number)
        yield None


def consumers(broker: Broker, vhost: VirtualHost) -> Iterator[ListedConsumer | None]:
    """Yield the consumers of the virtual host's queues."""
    for channel in channels(broker, vhost):
        if channel is not None and channel.vhost is vhost:
            subscriptions = channel.consuming.subscriptions
            for tag in [*subscriptions]:
                subscription = subscriptions.get(tag)
                yield None if subscription is None else ListedConsumer(channel, subscription)
        yield None


def activity_status(consumption: ListedConsumer) -> str:
    """Return RabbitMQ's word for whether a consumer gets messages, or `cancelled` (which RabbitMQ
    does not have) between a cancel and its answer."""
    subscription = consumption.subscription
    if subscription.consumer.active:
        alone = subscription.queue.machine.consumers.single_active
        return "single_active" if alone else "up"
    return "cancelled" if subscription.consumer.cancelled else "waiting"


def tls_fact(reader: Reader, name: str) -> str:
    """Return one fact about the TLS session; "" without TLS."""
    return (reader.peer.tls or {}).get(name, "")


def uncommitted(channel: Channel) -> tuple[int, int]:
    """Return how many publishes and how many acknowledgements wait for a commit."""
    transaction = channel.publishing.transaction
    return (0, 0) if transaction is None else (transaction.messages, transaction.acks)


def exchanges(_: Broker, vhost: VirtualHost) -> Iterator[ListedExchange | None]:
    """Yield all exchanges, the default one first."""
    yield ListedExchange(vhost, ExchangeDefinition("", durable=True))
    declared = vhost.topology.exchanges
    for name in [*declared]:
        exchange = declared.get(name)
        yield None if exchange is None else ListedExchange(vhost, exchange.definition)


def bindings(_: Broker, vhost: VirtualHost) -> Iterator[BindingDefinition | None]:
    """Yield all bindings; every queue is bound to the default exchange by its name."""
    for name in [*vhost.queues]:
        yield BindingDefinition("", name, QUEUE, name) if name in vhost.queues else None
    inbound = vhost.topology.inbound
    for destination in [*inbound]:
        found = inbound.get(destination, {})
        for identity in [*found]:
            yield found.get(identity)


def of_classic(
    queue: Queue, value: Callable[[ClassicQueue], object], otherwise: object = 0
) -> object:
    """Return the column of a classic queue; `otherwise` for other queues."""
    machine = queue.machine
    return value(machine) if isinstance(machine, ClassicQueue) else otherwise


def ram_messages(queue: Queue) -> int:
    """Return how many ready messages are in RAM."""
    depth = queue.machine.depth
    if isinstance(queue, QuorumShell):
        return quorum_view.in_ram(queue).ready
    return depth.ram_messages


def ram_unacked(queue: Queue) -> int:
    """Return how many unacknowledged messages are in RAM."""
    depth = queue.machine.depth
    if isinstance(queue, QuorumShell):
        return quorum_view.in_ram(queue).unacked
    return depth.ram_unacked


def message_bytes_ram(queue: Queue) -> object:
    """Return the bytes of all messages in RAM."""
    if isinstance(queue, QuorumShell):
        return quorum_view.in_ram(queue).body_bytes
    return of_classic(queue, ram_bytes)


def depth_of(queue: Queue) -> Depth:
    """Return the depth of a queue; one of another node is as reported a second ago."""
    return queue.figures if isinstance(queue, RemoteQueue) else queue.machine.depth


def messages_in(queue: Queue) -> int:
    """Return how many messages a queue holds; reading a stream removes none."""
    depth = depth_of(queue)
    return depth.ready if TYPES[queue.definition.type].is_log else depth.ready + depth.unacked


def of_stream(queue: Queue, value: Callable[[StreamLog], object]) -> object:
    """Return the column of a stream; empty text for other queues."""
    machine = queue.machine
    return value(machine.log) if isinstance(machine, Stream) else ""


def is_at_home(queue: Queue) -> bool:
    """Tell whether this node is the one to ask about a queue, because it has the messages or leads
    the queue's group."""
    if isinstance(queue, QuorumShell):
        return queue.replicator.raft.is_leader
    return queue.is_local and queue.definition.type != QUORUM


def home_name(queue: Queue) -> str:
    """Return the name of the node that has the queue's messages; "" without a cluster."""
    if isinstance(queue, RemoteQueue):
        return queue.office.name_of(queue.home)
    return queue.services.config.cluster.name or ""


QUEUE_COLUMNS: Final[dict[str, Callable[[Queue], object]]] = {
    "name": lambda queue: queue.name,
    "durable": lambda queue: queue.definition.durable,
    "auto_delete": lambda queue: queue.definition.auto_delete,
    "exclusive": lambda queue: queue.definition.exclusive,
    "arguments": lambda queue: jsonable(queue.definition.arguments),
    "type": lambda queue: queue.definition.type,
    "policy": lambda queue: (queue.policy and queue.policy.name) or "",
    "operator_policy": lambda queue: (queue.policy and queue.policy.operator_name) or "",
    "effective_policy_definition": lambda queue: (
        dict(queue.policy.definition) if queue.policy else {}
    ),
    "owner_pid": lambda queue: queue.definition.owner or "",
    "messages_ready": lambda queue: depth_of(queue).ready,
    "messages_unacknowledged": lambda queue: depth_of(queue).unacked,
    "messages": messages_in,
    "messages_ram": lambda queue: ram_messages(queue) + ram_unacked(queue),
    "messages_ready_ram": ram_messages,
    "messages_unacknowledged_ram": ram_unacked,
    "messages_persistent": lambda queue: depth_of(queue).persistent,
    "messages_paged_out": lambda queue: of_classic(queue, paged_out),
    "message_bytes": lambda queue: all_bytes(depth_of(queue)),
    "message_bytes_ready": lambda queue: depth_of(queue).ready_bytes,
    "message_bytes_unacknowledged": lambda queue: depth_of(queue).unacked_bytes,
    "message_bytes_ram": message_bytes_ram,
    "message_bytes_persistent": lambda queue: persistent_bytes(depth_of(queue)),
    "message_bytes_paged_out": lambda queue: of_classic(queue, paged_out_bytes),
    "disk_reads": lambda queue: of_classic(queue, lambda machine: machine.backing.disk_reads),
    "disk_writes": lambda queue: of_classic(queue, lambda machine: machine.backing.disk_writes),
    "backing_queue_status": lambda queue: of_classic(queue, backing_queue_status, {}),
    "segments": lambda queue: of_stream(queue, lambda log: len(log.segments)),
    "first_offset": lambda queue: of_stream(queue, lambda log: log.first_offset),
    "committed_offset": lambda queue: of_stream(queue, lambda log: log.durable_end - 1),
    "node": home_name,
    "leader": quorum_view.leader,
    "members": quorum_view.members,
    "online": quorum_view.online,
    "slave_pids": mirrors_view.slaves,
    "synchronised_slave_pids": mirrors_view.synchronised,
    "consumers": lambda queue: depth_of(queue).consumers,
    "state": mirrors_view.state,
    "memory": lambda queue: queue.machine.depth.footprint,
}

CONNECTION_COLUMNS: Final[dict[str, Callable[[Reader], object]]] = {
    "pid": lambda reader: reader.name,
    "name": lambda reader: reader.name,
    "host": lambda reader: reader.peer.host,
    "port": lambda reader: reader.peer.port,
    "peer_host": lambda reader: reader.peer.peer_host,
    "peer_port": lambda reader: reader.peer.peer_port,
    "state": lambda reader: reader.state(reader.broker.world.clock.now_ns()),
    "channels": lambda reader: len(reader.channels),
    "protocol": lambda _: "AMQP 0-9-1",
    "auth_mechanism": lambda reader: reader.handshake.mechanism,
    "ssl": lambda reader: reader.peer.tls is not None,
    "ssl_protocol": lambda reader: tls_fact(reader, "ssl_protocol"),
    "ssl_cipher": lambda reader: tls_fact(reader, "ssl_cipher"),
    "peer_cert_subject": lambda reader: tls_fact(reader, "peer_cert_subject"),
    "peer_cert_issuer": lambda reader: tls_fact(reader, "peer_cert_issuer"),
    "user": lambda reader: reader.user,
    "vhost": lambda reader: reader.handshake.vhost,
    "timeout": lambda reader: reader.handshake.heartbeat,
    "frame_max": lambda reader: reader.handshake.frame_max,
    "channel_max": lambda reader: reader.handshake.channel_max,
    "client_properties": lambda reader: jsonable(reader.handshake.client_properties),
    "recv_oct": lambda reader: reader.tap.received_bytes,
    "recv_cnt": lambda reader: reader.tap.reads,
    "send_oct": lambda reader: reader.writer.sent_bytes,
    "send_cnt": lambda reader: reader.writer.sent_writes,
    "send_pend": lambda reader: reader.writer.pending_bytes,
    "connected_at": lambda reader: reader.connected_at_ms,
}

CHANNEL_COLUMNS: Final[dict[str, Callable[[Channel], object]]] = {
    "pid": lambda channel: channel.name,
    "name": lambda channel: channel.name,
    "connection": lambda channel: channel.reader.name,
    "number": lambda channel: channel.number,
    "user": lambda channel: channel.reader.user,
    "vhost": lambda channel: channel.vhost.name,
    "transactional": lambda channel: channel.publishing.transaction is not None,
    "confirm": lambda channel: channel.publishing.confirming,
    "consumer_count": lambda channel: len(channel.consuming.subscriptions),
    "messages_unacknowledged": lambda channel: channel.consuming.unacked.count,
    "messages_uncommitted": lambda channel: uncommitted(channel)[0],
    "messages_unconfirmed": lambda channel: channel.publishing.unconfirmed.count,
    "acks_uncommitted": lambda channel: uncommitted(channel)[1],
    "prefetch_count": lambda channel: channel.consuming.prefetch_count,
    "global_prefetch_count": lambda channel: channel.consuming.limiter.limit,
    "state": lambda channel: channel.state(channel.services.world.clock.now_ns()),
}

CONSUMER_COLUMNS: Final[dict[str, Callable[[ListedConsumer], object]]] = {
    "queue_name": lambda each: each.subscription.queue.name,
    "channel_pid": lambda each: each.channel.name,
    "consumer_tag": lambda each: each.subscription.consumer.tag,
    "ack_required": lambda each: not each.subscription.consumer.no_ack,
    "prefetch_count": lambda each: each.subscription.consumer.prefetch.limit,
    "active": lambda each: each.subscription.consumer.active,
    "activity_status": activity_status,
    "arguments": lambda each: jsonable(each.subscription.consumer.arguments),
    "exclusive": lambda each: each.subscription.consumer.exclusive,
}

EXCHANGE_COLUMNS: Final[dict[str, Callable[[ListedExchange], object]]] = {
    "name": lambda listed: listed.definition.name,
    "type": lambda listed: listed.definition.type,
    "durable": lambda listed: listed.definition.durable,
    "auto_delete": lambda listed: listed.definition.auto_delete,
    "internal": lambda listed: listed.definition.internal,
    "policy": lambda listed: listed.policy,
    "arguments": lambda listed: jsonable(listed.definition.arguments),
}

BINDING_COLUMNS: Final[dict[str, Callable[[BindingDefinition], object]]] = {
    "source_name": lambda binding: binding.source,
    "source_kind": lambda _: EXCHANGE,
    "destination_name": lambda binding: binding.destination,
    "destination_kind": lambda binding: binding.destination_type,
    "routing_key": lambda binding: binding.routing_key,
    "arguments": lambda binding: jsonable(binding.arguments),
}

Columns = Mapping[str, Callable[[Any], object]]

LISTS: Final[dict[str, tuple[Callable[[Broker, VirtualHost], Iterator[Any]], Columns]]] = {
    "list_queues": (queues, QUEUE_COLUMNS),
    "list_connections": (connections, CONNECTION_COLUMNS),
    "list_channels": (channels, CHANNEL_COLUMNS),
    "list_consumers": (consumers, CONSUMER_COLUMNS),
    "list_exchanges": (exchanges, EXCHANGE_COLUMNS),
    "list_bindings": (bindings, BINDING_COLUMNS),
}
