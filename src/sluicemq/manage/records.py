"""Records for the management process: a list of values for each object of one kind.

They are made in pieces, page by page, and only on request: a record has the values of the columns
of `sluicemq ctl`, and counters of traffic. `record_columns.py` has their order, for both ends.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.manage import lists
from sluicemq.manage.command import USAGE, CommandRefused
from sluicemq.manage.record_columns import (
    BINDING_LISTED,
    BINDINGS,
    CHANNEL_LISTED,
    CHANNELS,
    CONNECTION_LISTED,
    CONNECTIONS,
    CONSUMER_LISTED,
    CONSUMERS,
    EXCHANGE_LISTED,
    EXCHANGES,
    QUEUE_LISTED,
    QUEUES,
    RAFT_FIGURES,
    RECORDS,
    VHOSTS,
)
from sluicemq.manage.views import COLUMNS_PER_UNIT, LOOK_WORK, ROW_WORK, VALUES_PER_UNIT, values_in
from sluicemq.model.traffic import TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sluicemq.broker.broker import Broker
    from sluicemq.broker.vhost import VirtualHost
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.flow_actor import FlowActor
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.manage.command import Given
    from sluicemq.model.traffic import Traffic

NS_PER_MS: Final = 1_000_000
COUNTERS: Final = attrgetter(*TRAFFIC)

Values = list[Any]

TABLE_COLUMNS: Final = ("arguments", "client_properties", "effective_policy_definition")
"""Columns that clients may fill with very large values."""


class PlacedBinding(NamedTuple):
    """A binding, with the virtual host it is in."""

    vhost: VirtualHost
    binding: Any


def listed(
    names: Sequence[str], columns: Mapping[str, Callable[[Any], object]]
) -> list[Callable[[Any], object]]:
    """Return the functions for these columns of a list, in order."""
    return [columns[name] for name in names]


def flow(actor: FlowActor) -> tuple[int, int]:
    """Return for how many milliseconds an actor was held up in total, and how many of its gates are
    shut now."""
    keeper = actor.keeper
    return keeper.blocked_ns(keeper.clock.now_ns()) // NS_PER_MS, keeper.gates_shut


def counted(traffic: Traffic) -> Values:
    """Return all counters in the order of their names."""
    return [*COUNTERS(traffic)]


QUEUE_VALUES: Final = listed(QUEUE_LISTED, lists.QUEUE_COLUMNS)
CONNECTION_VALUES: Final = listed(CONNECTION_LISTED, lists.CONNECTION_COLUMNS)
CHANNEL_VALUES: Final = listed(CHANNEL_LISTED, lists.CHANNEL_COLUMNS)
CONSUMER_VALUES: Final = listed(CONSUMER_LISTED, lists.CONSUMER_COLUMNS)
EXCHANGE_VALUES: Final = listed(EXCHANGE_LISTED, lists.EXCHANGE_COLUMNS)
BINDING_VALUES: Final = listed(BINDING_LISTED, lists.BINDING_COLUMNS)
NO_GROUP: Final = (0,) * len(RAFT_FIGURES)
PUBLISHED_AT: Final = TRAFFIC.index("publish")


def queue_record(queue: Queue) -> Values:
    """Return the record of a queue. Its count of publishes is its own, not that of its traffic."""
    traffic = counted(queue.traffic)
    traffic[PUBLISHED_AT] = queue.published
    values = [value(queue) for value in QUEUE_VALUES]
    values += (queue.vhost.name, *flow(queue), *special_consumers(queue), *raft_figures(queue))
    return values + traffic


def raft_figures(queue: Queue) -> Sequence[int]:
    """Return the positions in the log of the queue's Raft group, as its member here knows them."""
    if not isinstance(queue, QuorumShell):
        return NO_GROUP
    known = queue.replicator.figures()
    return [known.get(name, 0) for name in RAFT_FIGURES]


def special_consumers(queue: Queue) -> tuple[str | None, str | None]:
    """Return the tags of the single active consumer and of the exclusive one; None where there is
    none."""
    consumers = queue.machine.consumers
    if not consumers.count:
        return None, None
    if consumers.single_active:
        return next((each.tag for each in consumers.all() if each.active), None), None
    if isinstance(queue, QuorumShell):
        return None, None
    exclusive = getattr(consumers, "exclusive", None)
    return None, None if exclusive is None else exclusive.tag


def connection_record(reader: Any) -> Values:
    """Return the record of a connection, and how flow control holds it up."""
    return [*(value(reader) for value in CONNECTION_VALUES), *flow(reader)]


def channel_record(channel: Channel) -> Values:
    """Return the record of a channel, how flow control holds it up, and its traffic."""
    return [
        *(value(channel) for value in CHANNEL_VALUES),
        *flow(channel),
        *counted(channel.traffic),
    ]


def consumer_record(consumer: lists.ListedConsumer) -> Values:
    """Return the record of a consumer, and the channel it is on."""
    channel = consumer.channel
    reader = channel.reader
    return [
        *(value(consumer) for value in CONSUMER_VALUES),
        channel.vhost.name,
        channel.name,
        reader.name,
        channel.number,
        reader.user,
    ]


def exchange_record(exchange: lists.ListedExchange) -> Values:
    """Return the record of an exchange, and how much was published to it."""
    vhost = exchange.vhost
    traffic = vhost.exchange_traffic.get(exchange.definition.name)
    counts = (0, 0) if traffic is None else (traffic.publish_in, traffic.publish_out)
    return [*(value(exchange) for value in EXCHANGE_VALUES), vhost.name, *counts]


def binding_record(placed: PlacedBinding) -> Values:
    """Return the record of a binding, and the virtual host it is in."""
    return [*(value(placed.binding) for value in BINDING_VALUES), placed.vhost.name]


def vhost_record(vhost: VirtualHost) -> Values:
    """Return the record of a virtual host, and its traffic."""
    definition = vhost.services.definitions.vhosts[vhost.name]
    return [
        vhost.name,
        definition.description,
        [*definition.tags],
        definition.default_queue_type,
        dict(definition.limits),
        *counted(vhost.traffic),
    ]


def all_queues(broker: Broker, vhosts: Sequence[VirtualHost]) -> Iterator[Queue | None]:
    """Yield the queues of these virtual hosts."""
    for vhost in vhosts:
        yield from lists.queues(broker, vhost)


def queues_at_home(broker: Broker, vhosts: Sequence[VirtualHost]) -> Iterator[Queue | None]:
    """Yield the queues of these virtual hosts about which this node is the one to ask."""
    for queue in all_queues(broker, vhosts):
        yield queue if queue is not None and lists.is_at_home(queue) else None


def all_consumers(
    broker: Broker, vhosts: Sequence[VirtualHost]
) -> Iterator[lists.ListedConsumer | None]:
    """Yield the consumers of all channels in these virtual hosts."""
    for channel in lists.channels(broker, vhosts[0]) if vhosts else ():
        if channel is not None and channel.vhost in vhosts:
            subscriptions = channel.consuming.subscriptions
            for tag in [*subscriptions]:
                subscription = subscriptions.get(tag)
                yield None if subscription is None else lists.ListedConsumer(channel, subscription)
        yield None


def all_exchanges(
    broker: Broker, vhosts: Sequence[VirtualHost]
) -> Iterator[lists.ListedExchange | None]:
    """Yield the exchanges of these virtual hosts."""
    for vhost in vhosts:
        yield from lists.exchanges(broker, vhost)


def all_bindings(broker: Broker, vhosts: Sequence[VirtualHost]) -> Iterator[PlacedBinding | None]:
    """Yield the bindings in these virtual hosts."""
    for vhost in vhosts:
        for binding in lists.bindings(broker, vhost):
            yield None if binding is None else PlacedBinding(vhost, binding)


KINDS: Final[dict[str, tuple[Callable[..., Iterator[Any]], Callable[[Any], Values]]]] = {
    QUEUES: (all_queues, queue_record),
    CONNECTIONS: (lambda broker, _: lists.readers(broker), connection_record),
    CHANNELS: (lists.channels, channel_record),
    CONSUMERS: (all_consumers, consumer_record),
    EXCHANGES: (all_exchanges, exchange_record),
    BINDINGS: (all_bindings, binding_record),
    VHOSTS: (lambda _, vhosts: iter(vhosts), vhost_record),
}
"""The function that yields the objects of each kind, and the one for a record."""


def record_pieces(broker: Broker, given: Given, found: list[Any]) -> Iterator[int]:
    """Put into `found` a record of each object of the kind that is asked for, in pieces; with
    `vhost`, of those in that virtual host, where the kind has one; with `name` besides, of one
    queue; with `at_home`, of the queues about which this node is the one to ask. Raises
    CommandRefused when there is no such kind."""
    kind, only = given.text("kind"), given.text("vhost", "")
    if kind not in KINDS:
        raise CommandRefused(f"there is no kind {kind}; there are: {' '.join(KINDS)}", USAGE)
    items, record = KINDS[kind]
    vhosts = [vhost for vhost in broker.vhosts.values() if only in ("", vhost.name)]
    if kind == QUEUES and given.values.get("name") is not None:
        name = given.text("name")
        of_name: Iterator[Any] = (vhost.queues.get(name) for vhost in vhosts)
        return making(of_name, record, kind, found)
    if kind == QUEUES and given.flag("at_home"):
        items = queues_at_home
    return making(items(broker, vhosts), record, kind, found)


def making(
    items: Iterator[Any], record: Callable[[Any], Values], kind: str, found: list[Any]
) -> Iterator[int]:
    """Make a record of each item; each is a piece, with the units of work it has cost."""
    names = RECORDS[kind]
    work = ROW_WORK + len(names) // COLUMNS_PER_UNIT
    tables = [names.index(name) for name in TABLE_COLUMNS if name in names]
    for item in items:
        if item is None:
            yield LOOK_WORK
            continue
        values = record(item)
        found.append(values)
        yield work + sum(values_in(values[at]) for at in tables) // VALUES_PER_UNIT
