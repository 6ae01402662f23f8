"""Goal: an address leads to its own channel and nowhere else, costs others nothing, and a client
that does not read holds up nobody.
Method: a whole node without sockets; addresses that are right, wrong and made up.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import ContentMethod, Deliveries
from sluicemq.amqp.frames import content_body, content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.chain.channel import reply_to
from sluicemq.chain.channel.channel import Channel
from sluicemq.chain.channel.reply_to import listener
from sluicemq.model.reply_address import ADDRESS, PSEUDO_QUEUE
from support.thorough import examples

from .client import NO_PROPERTIES, Broker, Client

CONSUME = m.BasicConsume(queue=PSEUDO_QUEUE, consumer_tag="replies", no_ack=True)


def listening(broker: Broker) -> Client:
    """On channel 1."""
    client = broker.connect()
    client.open(1)
    assert client.call(1, CONSUME) == [m.BasicConsumeOk(consumer_tag="replies")]
    return client


def channel_of(client: Client) -> Channel:
    return client.reader.channels[1]


def address_of(client: Client) -> str:
    replies = channel_of(client).replies
    assert replies is not None
    return replies.at


def heard(client: Client) -> list[bytes]:
    """The bodies that were delivered."""
    found = []
    for event in client.events():
        assert isinstance(event, Deliveries)
        assert event.consumer_tag == "replies"
        found += [content_body(content) for content in event.contents]
    return found


def test_replies_find_the_channel_among_many() -> None:
    broker = Broker()
    clients = [listening(broker) for _ in range(3)]
    assert len({address_of(client) for client in clients}) == 3
    for number, client in enumerate(clients):
        clients[0].publish(1, address_of(client), b"%d" % number, b"again")
    assert [heard(client) for client in clients] == [[b"%d" % n, b"again"] for n in range(3)]


@examples(60)
@given(st.text(max_size=60) | st.text("AZaz09-_", min_size=30, max_size=40))
def test_what_is_no_address_leads_to_nobody(text: str) -> None:
    broker = Broker()
    client = listening(broker)
    assert listener(broker.node.broker, ADDRESS + text) is None
    assert listener(broker.node.broker, text) is None
    assert listener(broker.node.broker, address_of(client)) is channel_of(client)


@pytest.mark.parametrize("end", ["cancel", "close", "lose", "anew"])
def test_an_address_ends_with_its_consumer(end: str) -> None:
    """And a reply that is on its way then is dropped."""
    broker = Broker()
    client = listening(broker)
    server = broker.connect()
    server.open(1)
    address = address_of(client)
    ends = {
        "cancel": m.BasicCancel(consumer_tag="replies", nowait=True).frame(1),
        "close": m.ChannelClose(reply_code=200).frame(1),
        "lose": m.ConnectionClose(reply_code=200).frame(0),
    }
    ends["anew"] = ends["cancel"] + CONSUME.frame(1)
    client.post_bytes(ends[end])
    server.publish(1, address, b"late")
    assert not any(isinstance(event, Deliveries) for event in client.events())
    assert listener(broker.node.broker, address) is None
    assert server.call(1) == []


def test_a_client_that_does_not_read_loses_replies_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reply_to, "REPLY_BACKLOG_BYTES", 10_000)
    broker = Broker()
    client = listening(broker)
    server = broker.connect()
    server.open(1)
    broker.net.full = True
    for _ in range(30):
        server.publish(1, address_of(client), bytes(1000))
    writer = client.reader.writer
    assert 10_000 < writer.pending_bytes < 13_000
    assert broker.node.broker.counters.dropped >= 15
    assert not channel_of(server).keeper.gates_shut


def test_requests_ask_the_topology_once(asked: list[str]) -> None:
    """Though no two have the same properties; and so do replies."""
    broker = Broker()
    client = listening(broker)
    client.call(1, m.QueueDeclare(queue="q"))
    for key in ("q", address_of(client)):
        asked.clear()
        for number in range(20):
            raw = BasicProperties(reply_to=PSEUDO_QUEUE, correlation_id=str(number)).encode()
            client.publish(1, key, b"x", raw=raw)
        assert len(asked) == 1
        assert not channel_of(client).publishing.look_ups.choices
    assert len(heard(client)) == 20


def test_a_request_published_after_a_new_consume_has_the_new_address() -> None:
    """Equal properties were rewritten otherwise before."""
    broker = Broker()
    client = listening(broker)
    client.call(1, m.QueueDeclare(queue="q"))
    raw = BasicProperties(reply_to=PSEUDO_QUEUE).encode()
    for _ in range(2):
        client.publish(1, "q", b"x", b"y", raw=raw)
        for _ in range(2):
            client.send(1, m.BasicGet(queue="q", no_ack=True))
            (event,) = client.events()
            assert isinstance(event, ContentMethod)
            properties = event.content[19 : 7 + int.from_bytes(event.content[3:7])]
            assert BasicProperties.decode(properties).reply_to == address_of(client)
        client.send(1, m.BasicCancel(consumer_tag="replies", nowait=True))
        client.call(1, CONSUME)


def test_a_reply_in_a_transaction_goes_at_once() -> None:
    """As in RabbitMQ: an address is no queue, and only queues wait for the commit."""
    broker = Broker()
    client = listening(broker)
    server = broker.connect()
    server.open(1)
    server.call(1, m.TxSelect())
    server.publish(1, address_of(client), b"x")
    assert heard(client) == [b"x"]
    assert server.call(1, m.TxCommit()) == [m.TxCommitOk()]
    assert heard(client) == []


def test_large_replies_fit_the_clients_frames() -> None:
    """One with small frames hears from one with large frames, on another channel number."""
    broker = Broker()
    client = listening(broker)
    server = broker.connect()
    server.open(7)
    channel_of(client).reader.frame_max = 4096
    channel_of(client).replies = None
    client.call(1, CONSUME)
    head = m.BasicPublish(exchange="", routing_key=address_of(client)).frame(7)
    server.send_bytes(head + content_frames(7, NO_PROPERTIES, bytes(10_000), 131072))
    sent = bytes(broker.net.sent[client.number])
    assert heard(client) == [bytes(10_000)]
    while sent:
        size = int.from_bytes(sent[3:7])
        assert size + 8 <= 4096
        assert sent[1:3] == b"\0\1"
        sent = sent[size + 8 :]
