"""Goal: what connections hold is counted as memory in use, to the byte, and given back whatever way
it goes. Method: a whole node; a client that begins and does not end, does not read, or asks without
waiting; after each end the account is empty again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp import methods as m
from sluicemq.amqp.connection import AmqpConnection
from sluicemq.amqp.events import MethodFrame
from sluicemq.amqp.frames import content_frames
from sluicemq.chain.channel.channel import Channel
from sluicemq.chain.connection.reader import Reader
from sluicemq.chain.connection.unfinished import Unfinished
from sluicemq.errors import ConnectionViolation
from sluicemq.kernel.socket_messages import Writable
from sluicemq.limits import (
    QUEUED_BYTES_MAX,
    UNFINISHED_PATIENCE_NS,
)
from sluicemq.sim.checkers import held_by_codec
from wire.streams import body, header, running, with_content

from .client import Broker, Client

MIB = 1 << 20
PUBLISH = m.BasicPublish("", "q").frame(1)


@pytest.fixture
def client() -> Client:
    client = Broker().connect()
    client.open(1)
    assert accounted(client) == 0
    return client


def accounted(client: Client) -> int:
    return client.broker.node.broker.accounted_bytes


def begin(client: Client, size: int = 100_000) -> None:
    """A body of a mebibyte of which so much has come."""
    client.send_bytes(PUBLISH + header(1, MIB) + body(1, bytes(size)))
    assert size < client.reader.accounted < 1.2 * size + 1000
    assert accounted(client) >= client.reader.accounted


def break_the_framing(client: Client) -> None:
    client.send_bytes(b"\x09" * 20)


def close_by_hand(client: Client) -> None:
    client.reader.force_close("by hand")
    client.broker.run()


ENDS: list[Callable[[Client], None]] = [
    Client.lose,
    break_the_framing,
    lambda client: client.send(1, m.ChannelClose()),
    lambda client: client.send(0, m.ConnectionClose()),
    lambda client: client.send(1, m.BasicAck(7)),
    close_by_hand,
]


@pytest.mark.parametrize("end", ENDS)
def test_half_a_body_counts_until_it_is_gone(client: Client, end: Callable[[Client], None]) -> None:
    begin(client)
    end(client)
    assert accounted(client) == 0


def test_whole_body_counts_once_and_with_its_queue(client: Client) -> None:
    client.call(1, m.QueueDeclare("q"))
    begin(client)
    rest = MIB - 100_000
    client.send_bytes(b"".join(body(1, bytes(100_000)) for _ in range(rest // 100_000)))
    client.send_bytes(body(1, bytes(rest % 100_000)))
    (queue,) = client.broker.node.broker.all_queues()
    assert accounted(client) == queue.accounted > MIB
    client.call(1, m.QueuePurge("q"))
    assert accounted(client) == 0


def test_piece_of_a_frame_counts(client: Client) -> None:
    client.send_bytes(body(1, bytes(50_000))[:40_000])
    assert accounted(client) == 40_000
    client.lose()
    assert accounted(client) == 0


def test_what_a_client_does_not_read_counts_until_the_socket_has_it(client: Client) -> None:
    broker = client.broker
    client.call(1, m.QueueDeclare("q"))
    client.call(1, m.BasicConsume("q", no_ack=True))
    broker.net.full = True
    broker.net.unsent = 10_000
    client.publish(1, "q", bytes(5_000))
    assert accounted(client) == 10_000, "the socket has refused no more than it has not sent"
    client.publish(1, "q", bytes(50_000))
    assert 60_000 < accounted(client) < 61_000
    broker.net.full = False
    client.reader.writer.post(Writable())
    broker.run()
    assert accounted(client) == 0
    broker.net.full = True
    client.publish(1, "q", bytes(50_000))
    client.publish(1, "q", bytes(50_000))
    assert accounted(client) > 60_000
    client.lose()
    assert accounted(client) == 0


def held_behind_a_question(client: Client) -> Channel:
    """A channel that waits for the disk."""
    client.call(1, m.QueueDeclare("q"))
    client.post_bytes(m.QueueDeclare("durable", durable=True).frame(1))
    while client.broker.node.run(1000):
        continue
    channel = client.reader.channels[1]
    assert channel.question is not None
    return channel


def run_but_the_disk(client: Client) -> None:
    while client.broker.node.run(1000):
        continue


def test_what_waits_for_an_answer_counts(client: Client) -> None:
    channel = held_behind_a_question(client)
    declare = m.QueueDeclare("x", arguments={"a": "b" * 50_000}).frame(1)
    client.post_bytes(declare * 3 + with_content(1, m.BasicPublish("", "q"), bytes(9000)))
    run_but_the_disk(client)
    assert len(channel.queued_methods) == 4
    assert accounted(client) > 3 * len(declare) + 9000
    client.broker.run()
    (queue,) = [q for q in client.broker.node.broker.all_queues() if q.name == "q"]
    assert accounted(client) == queue.accounted
    client.call(1, m.QueuePurge("q"))
    assert accounted(client) == 0


def test_what_waits_is_given_back_with_its_channel(client: Client) -> None:
    held_behind_a_question(client)
    client.post_bytes(m.QueueDeclare("x", arguments={"a": "b" * 50_000}).frame(1) * 3)
    run_but_the_disk(client)
    assert accounted(client) > 150_000
    client.lose()
    assert accounted(client) == 0


def test_large_methods_behind_a_question_stop_the_reading(client: Client) -> None:
    """By their bytes, for a few thousand of them would be a great deal."""
    channel = held_behind_a_question(client)
    declare = m.QueueDeclare("x", arguments={"a": "b" * 100_000}).frame(1)
    for _ in range(100):
        client.post_bytes(declare)
        run_but_the_disk(client)
    assert channel.crowded.is_shut
    assert channel.queued_bytes < QUEUED_BYTES_MAX + 3 * len(declare)
    client.broker.run()
    assert not channel.crowded.is_shut
    assert accounted(client) == 0


STREAMS = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 3), st.integers(0, 60)).map(
            lambda p: with_content(p[0], m.BasicPublish("", "q"), bytes(p[1]), frame_max=30)
        ),
        st.integers(1, 3).map(lambda n: m.QueueDeclare("q").frame(n)),
        st.integers(1, 3).map(lambda n: m.BasicPublish("", "q").frame(n)),
    )
)


@given(STREAMS, st.lists(st.integers(1, 80), min_size=1), st.booleans())
def test_codec_knows_what_it_holds(pieces: list[bytes], cuts: list[int], fast: bool) -> None:
    """Whatever comes, cut anywhere; after a violation too."""
    connection: AmqpConnection = running(fast=fast)
    stream = b"".join(pieces)
    step = 0
    while stream:
        size = cuts[step % len(cuts)]
        connection.receive_data(stream[:size])
        stream = stream[size:]
        assert connection.held_bytes == held_by_codec(connection)
        try:
            while connection.next_event() is not None:
                assert connection.held_bytes == held_by_codec(connection)
        except ConnectionViolation:
            pass
        assert connection.held_bytes == held_by_codec(connection)
        if step % 5 == 4:
            connection.ignore_content(step % 3 + 1)
            assert connection.held_bytes == held_by_codec(connection)
        step += 1
    connection.close()
    assert connection.held_bytes == 0


# -- what has begun while there is an alarm


def holding(client: Client, *sizes: int) -> list[Reader]:
    """Connections that have begun so much."""
    readers = []
    for size in sizes:
        other = client.broker.connect()
        other.open(1)
        reader = other.reader
        reader.amqp._content_bytes = reader.accounted = size
        readers.append(reader)
    return readers


LIMIT = 400 * MIB


def test_a_little_that_has_begun_does_not_keep_the_alarm_up(client: Client) -> None:
    readers = holding(client, 5 * MIB, 7 * MIB)
    unfinished = Unfinished()
    assert unfinished.look(readers, True, 1) == readers[::-1]
    assert unfinished.forgiven_bytes == 12 * MIB
    assert unfinished.too_much(LIMIT, LIMIT, 1 + UNFINISHED_PATIENCE_NS) == 0
    assert unfinished.too_much(2 * LIMIT, LIMIT, 1 + UNFINISHED_PATIENCE_NS) == 0


def test_much_is_suffered_for_a_while(client: Client) -> None:
    readers = holding(client, 60 * MIB, 90 * MIB)
    unfinished = Unfinished()
    unfinished.look(readers, True, 1)
    assert unfinished.forgiven_bytes == 0
    later = 1 + UNFINISHED_PATIENCE_NS
    assert unfinished.too_much(LIMIT, LIMIT, later - 1) == 0
    assert unfinished.too_much(LIMIT, LIMIT, later) == 50 * MIB
    unfinished.look(readers, False, later)
    assert unfinished.too_much(LIMIT, LIMIT, later) == 0, "there is no alarm"


def test_nobody_is_closed_for_what_others_hold(client: Client) -> None:
    """The alarm would stay: queues are full, or the limit is 0 so that nobody publishes."""
    unfinished = Unfinished()
    unfinished.look(holding(client, 60 * MIB, 90 * MIB), True, 1)
    later = 1 + UNFINISHED_PATIENCE_NS
    assert unfinished.too_much(LIMIT + 150 * MIB, LIMIT + 1, later) != 0
    assert unfinished.too_much(2 * LIMIT, LIMIT, later) == 0
    assert unfinished.too_much(150 * MIB, 0, later) == 0


def test_nothing_is_suffered_beyond_the_limit(client: Client) -> None:
    """Full queues or not: a tenth of the limit is what unfinished messages may add."""
    unfinished = Unfinished()
    unfinished.look(holding(client, 60 * MIB, 90 * MIB), True, 1)
    excess = unfinished.too_much(int(1.11 * LIMIT), LIMIT, 2)
    assert excess == 110 * MIB
    assert unfinished.too_much(int(1.09 * LIMIT), LIMIT, 2) == 0


def test_monitor_closes_who_holds_most_and_the_others_go_on(client: Client) -> None:
    """Told why; what it has begun is given back."""
    broker = client.broker
    monitor = broker.node.monitor
    monitor.set_limit(110 * MIB)
    many = broker.connect()
    many.open(*range(1, 100))
    for number in range(1, 100):
        begun = m.BasicPublish("", "q").frame(number) + header(number, 2 * MIB)
        many.send_bytes(begun + 13 * body(number, bytes(100_000)))
    assert monitor.alarm.raised
    few = broker.connect()
    few.open(1)
    few.publish(1, "q", b"waits")
    for _ in range(15):
        broker.world.clock.time_ns += 10**9
        for timer in [t for t in broker.world.clock.timers if t[1] is monitor]:
            broker.world.clock.timers.remove(timer)
            monitor.post(timer[2])
        broker.run()
    last = many.events()[-1]
    assert isinstance(last, MethodFrame)
    assert isinstance(last.method, m.ConnectionClose)
    assert last.method.reply_code == 506
    assert not monitor.alarm.raised
    assert few.reader.state(broker.world.clock.now_ns()) == "running"
    many.lose()
    assert accounted(client) == 0


def test_half_a_publish_on_a_channel_that_a_queue_closes_counts_no_more() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1, 2)
    client.call(1, m.QueueDeclare(queue="q"), m.BasicConsume(queue="q", exclusive=True))
    begun = m.BasicPublish(exchange="", routing_key="q").frame(2)
    begun += content_frames(2, b"\0\0", b"." * 1000, 500)[:-24]  # less the last frame
    client.send_bytes(m.BasicConsume(queue="q").frame(2) + begun)
    assert [event.method.NAME for event in client.events() if isinstance(event, MethodFrame)] == [
        "channel.close"
    ]
    assert client.reader.accounted == client.reader.amqp.held_bytes == 0


def test_an_idle_connection_has_nothing_that_is_large_when_it_is_empty() -> None:
    reader = Broker().connect().reader
    for part in (reader, reader.share, reader.writer, reader.amqp, reader.intake):
        large = [name for name, each in vars(part).items() if isinstance(each, deque | set)]
        assert large == [], part
