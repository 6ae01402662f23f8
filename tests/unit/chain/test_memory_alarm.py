"""Goal: while there is an alarm no message gets in, not one and on no connection, and nobody is
held up who does not publish. Method: a whole node, whose alarm the test raises and clears.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_frames, frame_end

from .client import NO_PROPERTIES, Broker, Client

BODY_MAX = 131072 - 8
DECLARE = m.QueueDeclare("q")


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, DECLARE)
    return broker


def alarm(broker: Broker, on: bool = True) -> None:
    if on:
        broker.node.broker.alarms.raise_alarm("memory", "low on memory")
    else:
        broker.node.broker.alarms.clear_alarm("memory")
    broker.run()


def depth(broker: Broker) -> int:
    return broker.node.broker.vhosts["/"].queues["q"].machine.depth.ready


def state(client: Client) -> str:
    return client.reader.state(client.broker.world.clock.now_ns())


def channel(broker: Broker) -> Client:
    client = broker.connect()
    client.open(1)
    return client


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("size", [0, 1, 100, BODY_MAX, 3 * BODY_MAX])
def test_no_message_gets_in(broker: Broker, size: int, is_new: bool) -> None:
    clients = [] if is_new else [channel(broker) for _ in range(3)]
    for client in clients:
        client.publish(1, "q", b"before")
    before = len(clients)
    alarm(broker)
    clients = clients or [channel(broker) for _ in range(3)]
    for client in clients:
        assert state(client) == "blocking"
        client.publish(1, "q", bytes(size), bytes(size))
        assert state(client) == "blocked"
        assert client.number in broker.net.paused
    assert depth(broker) == before
    alarm(broker, False)
    assert depth(broker) == before + 6
    assert not broker.net.paused


def test_message_that_has_begun_goes_no_further(broker: Broker) -> None:
    client = channel(broker)
    content = content_frames(1, NO_PROPERTIES, bytes(3 * BODY_MAX), BODY_MAX + 8)
    cut = frame_end(content, frame_end(content, 0))
    client.send_bytes(m.BasicPublish("", "q").frame(1) + content[:cut])
    assert state(client) == "running"
    alarm(broker)
    assert state(client) == "blocking", "what has come was taken in before"
    client.send_bytes(content[cut : cut + 7])
    assert state(client) == "blocked"
    client.send_bytes(content[cut + 7 :])
    assert depth(broker) == 0
    alarm(broker, False)
    assert depth(broker) == 1


def test_who_does_not_publish_is_never_stopped(broker: Broker) -> None:
    publisher, client = channel(broker), channel(broker)
    publisher.publish(1, "q", b"a", b"b", b"c")
    alarm(broker)
    client.send(1, m.BasicConsume(queue="q"))
    assert len(client.events()) == 2
    client.send(1, m.BasicAck(1), m.BasicAck(2), m.BasicAck(3))
    client.open(2)
    assert client.call(2, m.QueueDeclare("other"))
    client.call(2, m.ChannelClose())
    assert state(client) == "blocking"
    assert client.number not in broker.net.paused
    assert depth(broker) == 0


def test_connection_in_flow_stays_stopped_until_both_are_over(broker: Broker) -> None:
    """What credit holds up was let in before; nothing more comes behind it."""
    client = channel(broker)
    client.send_bytes(b"")
    outflow = client.reader.channels[1].outflow
    outflow.spend(outflow.credit)
    client.reader.schedule()
    broker.run()
    assert state(client) == "flow"
    alarm(broker)
    client.publish(1, "q", b"x")
    assert state(client) == "blocked"
    outflow.refill(outflow.initial)
    broker.run()
    assert state(client) == "blocked"
    assert depth(broker) == 0
    alarm(broker, False)
    assert depth(broker) == 1


def test_channel_that_fails_while_blocked_lets_its_messages_go(broker: Broker) -> None:
    """They belong to nobody, and hold up nobody."""
    client = channel(broker)
    alarm(broker)
    client.send_bytes(
        m.QueueDeclare("missing", passive=True).frame(1)
        + m.BasicPublish("", "q").frame(1)
        + content_frames(1, NO_PROPERTIES, b"x", 131072)
        + m.ChannelCloseOk().frame(1)
    )
    assert state(client) == "blocked", "they came before the channel knew"
    alarm(broker, False)
    assert depth(broker) == 0
    client.events()
    client.open(1)


def test_what_waits_for_credit_waits_for_an_alarm_that_went_and_came_again(broker: Broker) -> None:
    """The reader hears of both in one turn, with the credit."""
    client = channel(broker)
    client.send_bytes(b"")
    outflow = client.reader.channels[1].outflow
    outflow.spend(outflow.credit - 1)
    client.publish(1, "q", b"x", b"x")
    assert state(client) == "flow"
    assert depth(broker) == 1
    alarm(broker)
    assert state(client) == "blocked"
    alarms = broker.node.broker.alarms
    alarms.clear_alarm("memory")
    alarms.raise_alarm("memory", "low on memory")
    outflow.refill(outflow.initial)
    broker.run()
    assert state(client) == "blocked"
    assert depth(broker) == 1
    alarm(broker, False)
    assert depth(broker) == 2
