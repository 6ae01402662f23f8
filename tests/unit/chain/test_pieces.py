"""Goal: what is long is done in pieces, and comes to the same. Method: a node whose turns may spend
very little is asked for large things; others ask, publish and leave while they are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.method import Method
from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import Table
from sluicemq.chain.channel.channel import Channel
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.queue import TARGETS_MAX
from sluicemq.chain.queue.vhost_port import BINDINGS_MAX
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.kernel.socket_messages import Closed
from sluicemq.model.definitions import QUEUE, Destination
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.routing import fanout, headers
from sluicemq.routing.exchange import PIECE, VAST
from sluicemq.routing.topology import Topology

from .client import NO_PROPERTIES, Broker, Client

COUNT = 700


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.node.scheduler.turn_work = 50
    broker.node.scheduler.share_work = 1
    return broker


def with_channel(broker: Broker, *numbers: int) -> Client:
    client = broker.connect()
    client.open(*(numbers or (1,)))
    return client


def holding(broker: Broker) -> Client:
    """A client that has got so many messages one by one."""
    client = with_channel(broker)
    client.call(1, m.QueueDeclare(queue="q"))
    client.publish(1, "q", *[b"%d" % each for each in range(COUNT)])
    client.send(1, *[m.BasicGet(queue="q")] * COUNT)
    client.events()
    return client


def ready(client: Client) -> int:
    [answer] = client.call(1, m.QueueDeclare(queue="q", passive=True))
    assert isinstance(answer, m.QueueDeclareOk)
    return answer.message_count


def fanned_out(broker: Broker, queues: int) -> Client:
    client = with_channel(broker)
    client.call(1, m.ExchangeDeclare(exchange="e", exchange_type="fanout"), m.ConfirmSelect())
    for each in range(queues):
        client.send(
            1,
            m.QueueDeclare(queue=f"q{each}", nowait=True),
            m.QueueBind(queue=f"q{each}", exchange="e", nowait=True),
        )
    client.events()
    head = m.BasicPublish(exchange="e").frame(1)
    client.post_bytes(head + content_frames(1, NO_PROPERTIES, b"x", 131072))
    return client


def test_a_batch_to_many_queues_is_confirmed_when_all_have_it(broker: Broker) -> None:
    client = fanned_out(broker, 5 * TARGETS_MAX)
    channel = client.reader
    queues = broker.node.broker.vhosts["/"].queues.values()
    turns = 0
    posted = 0
    while broker.node.run(1):
        turns += 1
        now = sum(queue.published + len(queue.inbox) for queue in queues)
        assert now - posted <= TARGETS_MAX
        posted = now
        if now < len(queues):
            assert client.events() == []
    assert turns > 5
    assert all(queue.published == 1 for queue in queues)
    broker.run()
    [acks] = client.events()
    assert isinstance(acks, Acks)
    assert list(acks.tags) == [1]
    assert channel.channels[1].publishing.unconfirmed.count == 0


def test_who_leaves_meanwhile_has_published_to_all(broker: Broker) -> None:
    client = fanned_out(broker, 5 * TARGETS_MAX)
    broker.node.run(3)
    client.reader.post(Closed("gone"))
    broker.run()
    queues = broker.node.broker.vhosts["/"].queues.values()
    assert [queue.machine.depth.ready for queue in queues] == [1] * len(queues)
    assert all(queue.upstream == {} for queue in queues)


def test_many_are_acknowledged_before_what_is_asked_next(broker: Broker) -> None:
    client = holding(broker)
    client.send(1, m.BasicAck(delivery_tag=COUNT, multiple=True))
    assert ready(client) == 0
    [queue] = broker.node.broker.vhosts["/"].queues.values()
    assert queue.machine.depth.unacked == 0
    assert queue.machine.unacked_runs == {}


@pytest.mark.parametrize("how", ["nack", "recover", "closed", "lost"])
def test_many_come_back_in_order(broker: Broker, how: str) -> None:
    client = holding(broker)
    other = with_channel(broker)
    if how == "nack":
        client.send(1, m.BasicNack(multiple=True, requeue=True))
    elif how == "recover":
        assert client.call(1, m.BasicRecover(requeue=True)) == [m.BasicRecoverOk()]
    elif how == "closed":
        close = m.ChannelClose(reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0)
        assert client.call(1, close) == [m.ChannelCloseOk()]
    else:
        client.lose()
    assert ready(other) == COUNT
    [queue] = broker.node.broker.vhosts["/"].queues.values()
    positions = [at for chunk in queue.machine.backing.in_ram() for at in chunk.positions()]
    assert positions == list(range(COUNT))


LOT = 1000
MANY = 30 * LOT


def consuming(broker: Broker) -> Client:
    """A client with so many messages out at a consumer, in runs that are as large as they get."""
    client = with_channel(broker)
    client.call(1, m.QueueDeclare(queue="q"))
    for _ in range(MANY // LOT):
        client.publish(1, "q", *[b"x"] * LOT)
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    client.send(1, m.BasicCancel(consumer_tag="c"))
    client.events()
    assert machine_of(broker).depth.unacked == MANY
    return client


def machine_of(broker: Broker) -> ClassicQueue:
    queue = broker.node.broker.vhosts["/"].queues["q"]
    assert isinstance(queue, ClassicShell)
    return queue.machine


@pytest.mark.parametrize(("how", "most"), [("ack", 12), ("nack", 12), ("recover", 12), ("lost", 2)])
def test_large_lots_are_settled_some_in_a_turn(broker: Broker, how: str, most: int) -> None:
    """By how many messages are in them, not by how many runs they are."""
    client = consuming(broker)
    if how == "ack":
        client.post_bytes(m.BasicAck(multiple=True).frame(1))
    elif how == "nack":
        client.post_bytes(m.BasicNack(multiple=True, requeue=True).frame(1))
    elif how == "recover":
        client.post_bytes(m.BasicRecover(requeue=True).frame(1))
    else:
        client.reader.post(Closed("gone"))
    depth = machine_of(broker).depth
    assert 0 < most_in_a_turn(broker, lambda: depth.unacked) <= most * LOT
    assert (depth.unacked, depth.ready) == (0, 0 if how == "ack" else MANY)


def test_small_lots_are_acknowledged_some_in_a_turn(broker: Broker) -> None:
    """In the order in which they were delivered, in one run of acknowledgements."""
    client = holding(broker)
    client.post_bytes(
        b"".join(m.BasicAck(delivery_tag=tag).frame(1) for tag in range(1, COUNT + 1))
    )
    depth = machine_of(broker).depth
    assert 0 < most_in_a_turn(broker, lambda: depth.unacked) <= COUNT // 2
    assert depth.unacked == 0


@pytest.mark.parametrize("ends", [False, True])
def test_what_was_counted_is_forgotten_some_in_a_turn(broker: Broker, ends: bool) -> None:
    """How often messages have come back: when they are purged, when it is not counted any more."""
    client = with_channel(broker)
    definition = '{"delivery-limit": 9}'
    broker.do("set_policy", name="p", pattern=".*", definition=definition, apply_to="queues")
    client.call(1, m.QueueDeclare(queue="q"))
    client.publish(1, "q", *[b"x"] * LOT)
    client.publish(1, "q", *[b"y"] * LOT)
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    client.events()
    client.lose()
    returns = machine_of(broker).delivery_counts
    assert returns is not None
    assert len(returns.counts) == 2 * LOT
    if ends:
        broker.ask("clear_policy", name="p")
    else:
        with_channel(broker).post_bytes(m.QueuePurge(queue="q").frame(1))
    assert 0 < most_in_a_turn(broker, lambda: len(returns.counts)) <= LOT * 3 // 2
    assert returns.counts == {}
    depth = machine_of(broker).depth
    with_channel(broker).call(1, m.QueuePurge(queue="q"))
    assert depth.footprint == 0


@pytest.mark.parametrize("how", ["purge", "expire", "shrink"])
def test_large_chunks_leave_some_in_a_turn(broker: Broker, how: str) -> None:
    client = with_channel(broker)
    arguments: Table = {"x-message-ttl": 1000} if how == "expire" else {}
    client.call(1, m.QueueDeclare(queue="q", arguments=arguments))
    for _ in range(MANY // LOT):
        client.publish(1, "q", *[b"x"] * LOT)
    depth = machine_of(broker).depth
    each = depth.footprint // MANY
    if how == "purge":
        client.post_bytes(m.QueuePurge(queue="q").frame(1))
    elif how == "expire":
        broker.world.clock.time_ns += 2 * 10**9
        client.post_bytes(m.QueueDeclare(queue="q", passive=True).frame(1))
    else:
        definition = '{"max-length": 0}'
        broker.ask("set_policy", name="p", pattern=".*", definition=definition, apply_to="queues")
    assert 0 < most_in_a_turn(broker, lambda: depth.footprint // each) <= 18 * LOT
    assert (depth.ready, depth.footprint) == (0, 0)


def test_a_purge_and_a_deletion_take_what_came_before_them(broker: Broker) -> None:
    client = with_channel(broker)
    client.call(1, m.QueueDeclare(queue="q"))
    bodies = [b"x" * (1 + each % 2) for each in range(COUNT)]
    for body in bodies:
        client.publish(1, "q", body)  # each a chunk of its own
    [queue] = broker.node.broker.vhosts["/"].queues.values()
    purge = m.QueuePurge(queue="q").frame(1)
    head = m.BasicPublish(exchange="", routing_key="q").frame(1)
    late = head + content_frames(1, NO_PROPERTIES, b"late", 131072)
    client.post_bytes(purge)
    with_channel(broker, 1, 2).send_bytes(late)
    assert client.call(1) == [m.QueuePurgeOk(message_count=COUNT)]
    assert ready(client) == 1
    assert queue.machine.depth.ready_bytes > 0
    assert client.call(1, m.QueueDelete(queue="q")) == [m.QueueDeleteOk(message_count=1)]
    assert broker.node.broker.accounted_bytes == sum(
        reader.accounted + reader.writer.accounted
        for reader in broker.node.broker.connections.values()
    )


def test_exclusive_queues_go_with_their_connection(broker: Broker) -> None:
    client = with_channel(broker)
    for each in range(500):
        client.send(1, m.QueueDeclare(queue=f"q{each}", exclusive=True, nowait=True))
    assert len(broker.node.broker.vhosts["/"].queues) == 500
    client.lose()
    assert broker.node.broker.vhosts["/"].queues == {}
    assert broker.node.broker.vhosts["/"].exclusive == {}


def test_what_is_sent_behind_long_work_is_done_in_order(broker: Broker) -> None:
    """A question that is held, then long work, then another question."""
    client = holding(broker)
    said = client.call(
        1,
        m.QueueDeclare(queue="q", passive=True),
        m.BasicNack(delivery_tag=COUNT, multiple=True, requeue=True),
        m.QueueDeclare(queue="q", passive=True),
        m.QueuePurge(queue="q"),
        m.QueueDeclare(queue="q", passive=True),
    )
    assert said == [
        m.QueueDeclareOk(queue="q", message_count=0, consumer_count=0),
        m.QueueDeclareOk(queue="q", message_count=COUNT, consumer_count=0),
        m.QueuePurgeOk(message_count=COUNT),
        m.QueueDeclareOk(queue="q", message_count=0, consumer_count=0),
    ]
    assert isinstance(client.reader.channels[1], Channel)


@pytest.mark.parametrize("kind", ["direct", "topic", "headers", "fanout"])
def test_an_exchange_goes_with_all_its_bindings(broker: Broker, kind: str) -> None:
    client = with_channel(broker)
    client.call(
        1,
        m.QueueDeclare(queue="q", durable=True),
        m.ExchangeDeclare(exchange="e", exchange_type=kind, durable=True),
    )
    for each in range(500):
        client.send(1, m.QueueBind(queue="q", exchange="e", routing_key=f"{each}", nowait=True))
    node = broker.node.broker
    assert len(node.vhosts["/"].topology.durable_bindings) == 500
    topology = node.vhosts["/"].topology
    client.post_bytes(m.ExchangeDelete(exchange="e").frame(1))
    assert most_in_a_turn(broker, lambda: bindings_to(topology, "q")) == BINDINGS_MAX
    broker.wait()
    assert client.call(1) == [m.ExchangeDeleteOk()]
    assert topology.durable_bindings == {}
    assert "e" not in topology.exchanges
    assert topology.inbound == {}


def bindings_to(topology: Topology, queue: str) -> int:
    return len(topology.inbound.get(Destination(QUEUE, queue), ()))


def most_in_a_turn(broker: Broker, count: Callable[[], int]) -> int:
    """Until nobody has anything to do: by how much `count` falls in one turn."""
    most, before = 0, count()
    while broker.node.run(1):
        now = count()
        most = max(most, before - now)
        before = now
    return most


@pytest.mark.parametrize(
    ("kind", "durable"), [("classic", True), ("classic", False), ("stream", True)]
)
def test_a_queue_goes_with_all_its_bindings(broker: Broker, kind: str, durable: bool) -> None:
    declare = m.QueueDeclare(queue="q", durable=durable, arguments={"x-queue-type": kind})
    client, other, publisher = [with_channel(broker) for _ in range(3)]
    exchange = m.ExchangeDeclare(
        exchange="e", exchange_type="topic", durable=durable, auto_delete=True
    )
    client.call(1, declare, exchange)
    for each in range(550):
        client.send(1, m.QueueBind(queue="q", exchange="e", routing_key=f"{each}", nowait=True))
    client.events()
    node = broker.node.broker
    topology = node.vhosts["/"].topology
    client.post_bytes(m.QueueDelete(queue="q").frame(1))
    other.post_bytes(m.QueueDelete(queue="q").frame(1))
    head = m.BasicPublish(exchange="e", routing_key="549").frame(1)
    publisher.post_bytes(head + content_frames(1, NO_PROPERTIES, b"x", 131072))
    assert most_in_a_turn(broker, lambda: bindings_to(topology, "q")) <= BINDINGS_MAX
    broker.wait()
    assert client.call(1) == other.call(1) == [m.QueueDeleteOk(message_count=0)]
    assert topology.durable_bindings == {}
    assert "q" not in topology.queues
    assert "e" not in topology.exchanges
    assert topology.inbound == {}
    answer = m.QueueDeclareOk(queue="q", message_count=0, consumer_count=0)
    assert client.call(1, declare) == [answer]


COMPARED = 60
"""Bindings, or exchanges in a chain: more than a turn has work for."""
SENT = 20


def compared_with_many(client: Client) -> None:
    """A headers exchange with bindings that are tried for each message."""
    client.call(1, m.ExchangeDeclare(exchange="e", exchange_type="headers"))
    for each in range(COMPARED):
        arguments = {"x-match": "any", "a": 1, "n": each}
        client.send(1, m.QueueBind(queue="q", exchange="e", arguments=arguments, nowait=True))
    client.events()


def through_many(client: Client) -> None:
    """A chain of exchanges."""
    client.call(1, m.ExchangeDeclare(exchange="e", exchange_type="fanout"))
    last = "e"
    for each in range(COMPARED):
        client.send(
            1,
            m.ExchangeDeclare(exchange=f"e{each}", exchange_type="fanout", nowait=True),
            m.ExchangeBind(destination=f"e{each}", source=last, nowait=True),
        )
        last = f"e{each}"
    client.call(1, m.QueueBind(queue="q", exchange=last))


HEADERS = [{"a": 1}] * SENT
"""All alike."""
OTHERS: list[Table] = [{"a": 1, "b": each} for each in range(SENT)]
CHEAP_FIRST = [{}, *OTHERS[1:]]
"""The first message does not show what the others take."""
KEYS = [f"{each}" for each in range(SENT)]


def run_of(keys: Sequence[str], tables: Sequence[Table]) -> bytes:
    """Messages to the exchange, which the parser finds in one run."""
    return b"".join(
        m.BasicPublish(exchange="e", routing_key=key).frame(1)
        + content_frames(1, BasicProperties(headers=table).encode(), b"x", 131072)
        for key, table in zip(keys, tables, strict=True)
    )


@pytest.mark.parametrize(
    ("way", "keys", "tables"),
    [
        (compared_with_many, [""] * SENT, OTHERS),
        (compared_with_many, [""] * SENT, CHEAP_FIRST),
        (compared_with_many, KEYS, HEADERS),
        (through_many, KEYS, HEADERS),
    ],
)
def test_ways_that_take_long_to_find_are_found_one_in_a_turn(
    broker: Broker, way: Callable[[Client], None], keys: list[str], tables: list[Table]
) -> None:
    client = with_channel(broker)
    client.call(1, m.QueueDeclare(queue="q"))
    way(client)
    bound = 2 if tables is CHEAP_FIRST else 1
    client.call(1, m.ConfirmSelect())
    client.post_bytes(run_of(keys, tables))
    publishing = client.reader.channels[1].publishing
    assert most_in_a_turn(broker, lambda: -publishing.channel.traffic.publish) <= bound
    assert publishing.channel.traffic.publish == SENT
    assert publishing.unconfirmed.count == 0
    client.events()
    routed = SENT - tables.count({})
    got = [event for _ in range(SENT) for event in client.call(1, m.BasicGet(queue="q"))]
    keys_got = [answer.routing_key for answer in got if isinstance(answer, m.BasicGetOk)]
    assert keys_got == keys[SENT - routed :]


def test_ways_by_keys_that_are_known_are_found_one_in_a_turn(broker: Broker) -> None:
    client = with_channel(broker)
    client.call(1, m.QueueDeclare(queue="q"))
    compared_with_many(client)
    client.send_bytes(run_of(KEYS, HEADERS))
    client.post_bytes(run_of(KEYS, [{"a": 1, "other": True}] * SENT))
    publishing = client.reader.channels[1].publishing
    assert most_in_a_turn(broker, lambda: -publishing.channel.traffic.publish) == 1
    assert ready(client) == 2 * SENT


def test_a_refusal_in_a_run_comes_behind_the_messages_before_it(broker: Broker) -> None:
    """The run is published in pieces; the refused message is in a later one."""
    client = with_channel(broker)
    client.call(1, m.QueueDeclare(queue="q"))
    compared_with_many(client)
    client.post_bytes(run_of([""] * SENT, [*OTHERS[:10], {"CC": 1}, *OTHERS[11:]]))
    broker.run()
    [close] = client.call(1)
    assert isinstance(close, m.ChannelClose)
    assert close.reply_code == 406
    other = with_channel(broker)
    assert ready(other) == 10


def vast(client: Client, kind: str) -> None:
    """An exchange with very many bindings that each message has to do with, to three queues."""
    client.call(1, m.ExchangeDeclare(exchange="e", exchange_type=kind))
    for queue in "abc":
        client.call(1, m.QueueDeclare(queue=queue))
    binds = [
        m.QueueBind(
            queue="abc"[each % 3],
            exchange="e",
            routing_key=f"{each}",
            arguments={"x-match": "any", "a": 1, "n": each},
            nowait=True,
        )
        for each in range(VAST + 1)
    ]
    client.send(1, *binds)
    assert client.events() == []


@pytest.mark.parametrize("kind", ["fanout", "headers"])
def test_very_many_bindings_are_gone_through_in_pieces(
    broker: Broker, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    plain = headers.compare

    def compare(filed: Sequence[tuple[int, headers.HeadersPattern]], *rest: Any) -> None:
        compared.append(len(filed))
        plain(filed, *rest)

    monkeypatch.setattr(headers, "compare", compare)
    for module in (headers, fanout):
        monkeypatch.delattr(module, "distinct")
    client = with_channel(broker)
    vast(client, kind)
    client.call(1, m.ConfirmSelect())
    client.post_bytes(run_of([""] * SENT, OTHERS))
    channel = client.reader.channels[1]
    publishing = channel.publishing
    turns = 0
    while not publishing.channel.traffic.publish:
        assert broker.node.run(1)
        turns += channel.underway is not None
    assert turns > VAST / PIECE
    assert max(compared, default=0) <= PIECE
    assert sum(compared) >= (VAST if kind == "headers" else 0)
    broker.run()
    assert publishing.channel.traffic.publish == SENT
    assert publishing.unconfirmed.count == 0
    assert publishing.look_ups.found == {}
    client.events()
    for queue in "abc":
        got = [event for _ in range(SENT) for event in client.call(1, m.BasicGet(queue=queue))]
        assert [type(answer) for answer in got] == [m.BasicGetOk] * SENT


@pytest.mark.parametrize("kind", ["fanout", "headers"])
def test_what_changes_during_a_search_holds_for_the_next_message(broker: Broker, kind: str) -> None:
    """All the time queues come; then one of those goes to which the message is on its way."""
    client, other = with_channel(broker), with_channel(broker)
    vast(client, kind)
    publishing = client.reader.channels[1].publishing
    client.post_bytes(run_of([""], HEADERS[:1]))
    while client.reader.channels[1].underway is None:
        assert broker.node.run(1)
    other.post_bytes(m.QueueDelete(queue="b").frame(1))
    for number in range(1000):
        if publishing.channel.traffic.publish:
            break
        other.post_bytes(m.QueueDeclare(queue=f"new{number}", nowait=True).frame(1))
        broker.node.run(5)
    assert publishing.channel.traffic.publish == 1
    broker.run()
    other.events()
    arguments = {"x-match": "any", "a": 1}
    other.call(
        1,
        m.QueueDeclare(queue="b"),
        m.QueueBind(queue="b", exchange="e", arguments=arguments),
    )
    client.send_bytes(run_of([""] * 2, HEADERS[:2]))
    assert [ready_in(broker, queue) for queue in "abc"] == [3, 2, 3]


@pytest.mark.parametrize("kind", ["fanout", "headers"])
def test_a_way_that_is_old_when_it_is_found_is_not_remembered(broker: Broker, kind: str) -> None:
    client, other = with_channel(broker), with_channel(broker)
    vast(client, kind)
    client.post_bytes(run_of([""], HEADERS[:1]))
    while client.reader.channels[1].underway is None:
        assert broker.node.run(1)
    arguments = {"x-match": "any", "a": 1}
    late = [
        m.QueueDeclare(queue="d", nowait=True),
        m.QueueBind(queue="d", exchange="e", arguments=arguments, nowait=True),
    ]
    other.post_bytes(b"".join(method.frame(1) for method in late))
    broker.run()
    assert [ready_in(broker, queue) for queue in "abcd"] == [1, 1, 1, 0]
    client.send_bytes(run_of([""] * 2, HEADERS[:2]))
    assert [ready_in(broker, queue) for queue in "abcd"] == [3, 3, 3, 2]
    [route] = client.reader.channels[1].publishing.look_ups.routes.values()
    assert (route.targets is None) == (kind == "headers"), "one that is up to date is remembered"


def ready_in(broker: Broker, queue: str) -> int:
    return broker.node.broker.vhosts["/"].queues[queue].machine.depth.ready


@pytest.mark.parametrize("ends", [False, True])
def test_what_was_held_is_done_as_far_as_a_turn_goes(broker: Broker, ends: bool) -> None:
    """Many methods behind a question, each the work of a turn; then perhaps the channel's end."""
    client = with_channel(broker)
    channel = client.reader.channels[1]
    client.call(1, m.QueueDeclare(queue="q"))
    some: list[Method] = [m.QueueDeclare(queue="q", passive=True)]
    some += [m.QueueDeclare(queue=f"q{each}", nowait=True) for each in range(30)]
    if ends:
        some.append(
            m.ChannelClose(reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0)
        )
    scheduler = broker.node.scheduler
    turn_work, scheduler.turn_work = scheduler.turn_work, 500
    client.post_bytes(b"".join([method.frame(1) for method in some]))
    while not channel.queued_methods:
        assert broker.node.run(1)
    assert channel.question is not None
    assert len(channel.queued_methods) == len(some) - 1
    scheduler.turn_work = turn_work
    assert (
        most_in_a_turn(broker, lambda: len(channel.queued_methods)) <= 2
    )  # the answer's and the turn's
    said = client.call(1)
    assert said[0] == m.QueueDeclareOk(queue="q", message_count=0, consumer_count=0)
    assert said[1:] == ([m.ChannelCloseOk()] if ends else [])
    assert len(broker.node.broker.vhosts["/"].queues) == 31


def test_methods_with_large_tables_are_decoded_one_in_a_turn() -> None:
    broker = Broker()
    client = with_channel(broker)
    arguments = {f"note{each}": each for each in range(4000)}
    declare = m.QueueDeclare(queue="q", nowait=True, arguments=arguments).frame(1)
    amqp = client.reader.amqp
    for _ in range(5):
        amqp.receive_data(declare)
    client.reader.schedule()
    assert most_in_a_turn(broker, lambda: amqp.held_bytes) == len(declare)
    assert ready(client) == 0


def dead_letters(client: Client, tables: Sequence[Table]) -> Republisher:
    """A queue whose messages, one a table, are rejected now; who publishes them as dead letters."""
    arguments = {"x-dead-letter-exchange": "e", "x-dead-letter-routing-key": "k"}
    client.call(1, m.QueueDeclare(queue="s", arguments=arguments))
    for table in tables:
        client.publish(1, "s", b"x", raw=BasicProperties(headers=table).encode())
    client.send(1, *[m.BasicGet(queue="s")] * len(tables))
    client.events()
    reject = m.BasicNack(delivery_tag=0, multiple=True, requeue=False)
    client.post_bytes(reject.frame(1))
    [source] = [q for q in client.broker.node.broker.all_queues() if q.name == "s"]
    assert isinstance(source, ClassicShell)
    while source.dead_lettering.republisher is None:
        assert client.broker.node.run(1)
    return source.dead_lettering.republisher


@pytest.mark.parametrize("way", [compared_with_many, through_many])
def test_ways_of_dead_letters_are_found_one_in_a_turn(
    broker: Broker, way: Callable[[Client], None]
) -> None:
    client = with_channel(broker)
    client.call(1, m.QueueDeclare(queue="q"))
    way(client)
    republisher = dead_letters(client, OTHERS)
    found = []
    way_by = republisher.way_by

    def counted(*arguments: Any) -> Any:
        found.append(arguments)
        return way_by(*arguments)

    republisher.way_by = counted  # type: ignore[method-assign]
    assert most_in_a_turn(broker, lambda: -len(found)) == 1
    assert len(found) == SENT
    assert ready_in(broker, "q") == SENT
    assert ready_in(broker, "s") == 0


def test_dead_letters_go_to_many_queues_some_at_a_time(broker: Broker) -> None:
    client = with_channel(broker)
    client.call(1, m.ExchangeDeclare(exchange="e", exchange_type="fanout"))
    names = [f"q{each}" for each in range(5 * TARGETS_MAX)]
    for name in names:
        declare = m.QueueDeclare(queue=name, nowait=True)
        client.send(1, declare, m.QueueBind(queue=name, exchange="e", nowait=True))
    republisher = dead_letters(client, [{}, {}])
    assert most_in_a_turn(broker, lambda: -republisher.next_seq) == TARGETS_MAX
    assert [ready_in(broker, name) for name in names] == [2] * len(names)
    assert ready_in(broker, "s") == 0


def test_dead_letters_find_their_way_among_very_many_bindings(broker: Broker) -> None:
    client = with_channel(broker)
    vast(client, "headers")
    dead_letters(client, HEADERS[:2])
    broker.run()
    assert [ready_in(broker, queue) for queue in "abcs"] == [2, 2, 2, 0]
