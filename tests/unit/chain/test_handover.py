"""What a client sends is parsed as its channel gets on with it."""

from __future__ import annotations

from sluicemq.amqp import methods as m
from sluicemq.chain.connection.handover import INBOX_MAX

from .client import Broker

COUNT = 20 * INBOX_MAX


def test_a_channel_is_not_given_more_than_it_can_do_soon() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1, 2)
    declares = [m.QueueDeclare(queue=f"q{each}", nowait=True) for each in range(COUNT)]
    client.post_bytes(b"".join([each.frame(1) for each in declares]))
    channel = client.reader.channels[1]
    longest = 0
    while broker.node.run(1):
        longest = max(longest, len(channel.inbox))
    assert longest <= INBOX_MAX + 1
    assert len(broker.node.broker.vhosts["/"].queues) == COUNT


def test_acknowledgements_too() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare(queue="q"))
    client.publish(1, "q", *[b"x"] * 500)
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    client.events()
    acks = [m.BasicAck(delivery_tag=tag, multiple=True) for tag in range(1, 501)]
    client.post_bytes(b"".join([each.frame(1) for each in acks]))
    channel = client.reader.channels[1]
    longest = 0
    while broker.node.run(1):
        longest = max(longest, len(channel.inbox))
    assert longest <= INBOX_MAX + 1
    assert broker.node.broker.counters.acknowledged == 500


def test_what_was_sent_before_the_end_is_done_before_it() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1, 2)
    declares = [m.QueueDeclare(queue=f"q{each}", nowait=True) for each in range(COUNT)]
    close = m.ChannelClose(reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0)
    client.post_bytes(b"".join([each.frame(1) for each in [*declares, close]]))
    client.post_bytes(m.QueueDeclare(queue="behind").frame(2))
    broker.run()
    assert len(broker.node.broker.vhosts["/"].queues) == COUNT + 1
    assert [*client.reader.channels] == [2]
