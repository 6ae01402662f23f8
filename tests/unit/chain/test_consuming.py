"""Goal: acknowledgements reach the right messages, and nothing is kept by channels that are gone.
Method: a whole node without sockets; the client's bytes and the queues' counters are looked at.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Deliveries, MethodFrame
from sluicemq.amqp.frames import content_body

from .client import Broker, Client


def ready(count: int, prefetch: int = 0) -> tuple[Broker, Client]:
    """A client that consumes from "q", in which there were `count` messages."""
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare(queue="q"))
    client.publish(1, "q", *[b"body %d" % n for n in range(count)])
    client.call(1, m.BasicQos(prefetch_count=prefetch))
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    consumed, *deliveries = client.events()
    assert consumed.method == m.BasicConsumeOk(consumer_tag="c")  # type: ignore[attr-defined]
    assert sum(len(event.tags) for event in deliveries) == (prefetch or count)  # type: ignore[attr-defined]
    return broker, client


def ack(*tags: int) -> list[m.BasicAck]:
    return [m.BasicAck(delivery_tag=tag) for tag in tags]


@pytest.mark.parametrize(
    ("tags", "unknown"),
    [((2, 0), 0), ((0, 1), 0), ((0,), 0), ((3, 0, 4), 0), ((1, 1), 1), ((2, 9), 9), ((5, 6), 6)],
)
def test_ack_of_an_unknown_tag_closes_the_channel_wherever_it_stands(
    tags: tuple[int, ...], unknown: int
) -> None:
    """Tag 0 is unknown unless `multiple`, in the middle of a run too."""
    _, client = ready(5)
    [close] = client.call(1, *ack(*tags))
    assert isinstance(close, m.ChannelClose)
    assert (close.reply_code, close.reply_text) == (
        406,
        f"PRECONDITION_FAILED - unknown delivery tag {unknown}",
    )
    assert (close.failed_class_id, close.failed_method_id) == (60, 80)


def test_acks_before_the_unknown_tag_count_and_the_rest_returns() -> None:
    broker, client = ready(5)
    client.send(1, *ack(2, 4, 9, 1))
    depth = broker.node.broker.vhosts["/"].queues["q"].machine.depth
    assert (depth.ready, depth.unacked, depth.consumers) == (3, 0, 0)


@pytest.mark.parametrize("how", ["ack", "nack", "reject"])
def test_acks_out_of_order_make_room_for_as_many(how: str) -> None:
    _, client = ready(9, prefetch=4)
    method = {
        "ack": lambda tag: m.BasicAck(delivery_tag=tag),
        "nack": lambda tag: m.BasicNack(delivery_tag=tag, requeue=False),
        "reject": lambda tag: m.BasicReject(delivery_tag=tag, requeue=False),
    }[how]
    client.send(1, method(3), method(1))
    assert client.delivered() == [5, 6]


def test_get_that_a_dying_channel_has_asked_for_returns() -> None:
    """The answer finds the channel closed; the message must not stay with it for ever."""
    broker = Broker()
    client = broker.connect()
    other = broker.connect()
    client.open(1)
    other.open(1)
    other.call(1, m.QueueDeclare(queue="q"))
    other.publish(1, "q", b"body")
    get = m.BasicGet(queue="q").frame(1)
    close = m.ChannelClose(
        reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0
    ).frame(1)
    client.send_bytes(get + close)
    depth = broker.node.broker.vhosts["/"].queues["q"].machine.depth
    assert (depth.ready, depth.unacked) == (1, 0)
    [got] = other.call(1, m.BasicGet(queue="q"))
    assert isinstance(got, m.BasicGetOk)
    assert got.redelivered


def test_get_from_a_queue_that_is_being_deleted_is_not_found() -> None:
    """Both in one piece of data: the queue hears of the deletion first."""
    broker = Broker()
    client = broker.connect()
    client.open(1, 2, 3)
    client.call(1, m.QueueDeclare(queue="q"))
    client.post_bytes(
        m.QueueDelete(queue="q").frame(1)
        + m.BasicConsume(queue="q", consumer_tag="c").frame(2)
        + m.BasicGet(queue="q").frame(3)
    )
    broker.run()
    deleted, *closed = [event.method for event in client.events()]  # type: ignore[attr-defined]
    assert deleted == m.QueueDeleteOk(message_count=0)
    for close in closed:
        assert isinstance(close, m.ChannelClose)
        assert close.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert [close.failed_method_id for close in closed] == [20, 70]


def test_global_prefetch_counts_deliveries_and_not_gets() -> None:
    """A message taken by basic.get is acknowledged without making room for a delivery, and takes
    none; what was on its way when the limit was set counts."""
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare(queue="q"))
    client.publish(1, "q", *[b"%d" % n for n in range(20)])
    [got] = client.call(1, m.BasicGet(queue="q"))
    assert isinstance(got, m.BasicGetOk)
    client.call(1, m.BasicQos(prefetch_count=1, global_=True))
    client.send(1, *ack(1))
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    client.events()
    for tag in range(2, 6):
        client.send(1, *ack(tag))
        assert client.delivered() == [tag + 1]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_recover_requeues_everything_in_order_of_the_tags(asynchronous: bool) -> None:
    broker, client = ready(5)
    client.send(1, *ack(2))
    method = (m.BasicRecoverAsync if asynchronous else m.BasicRecover)(requeue=True)
    client.send(1, method)
    events = client.events()
    answers = [event.method for event in events if isinstance(event, MethodFrame)]
    assert answers == ([] if asynchronous else [m.BasicRecoverOk()])
    again = [event for event in events if isinstance(event, Deliveries)]
    assert all(event.redelivered for event in again)
    assert [tag for event in again for tag in event.tags] == [6, 7, 8, 9]
    bodies = [content_body(content) for event in again for content in event.contents]
    assert bodies == [b"body 0", b"body 2", b"body 3", b"body 4"]
    assert broker.node.broker.vhosts["/"].queues["q"].machine.depth.unacked == 4


def test_nothing_is_delivered_after_cancel_ok_and_what_is_out_stays_out() -> None:
    broker, client = ready(3)
    assert client.call(1, m.BasicCancel(consumer_tag="c")) == [m.BasicCancelOk(consumer_tag="c")]
    client.publish(1, "q", b"more")
    assert client.events() == []
    client.send(1, *ack(3), m.BasicNack(delivery_tag=2, multiple=True, requeue=True))
    depth = broker.node.broker.vhosts["/"].queues["q"].machine.depth
    assert (depth.ready, depth.unacked) == (3, 0)
    [got] = client.call(1, m.BasicGet(queue="q"))
    assert isinstance(got, m.BasicGetOk)
    assert (got.delivery_tag, got.redelivered, got.message_count) == (4, True, 2)


def test_consumer_tag_is_free_again_after_the_broker_has_cancelled() -> None:
    """The queue was deleted under the consumer; its deliveries can still be acknowledged."""
    broker, client = ready(2)
    other = broker.connect()
    other.open(1)
    assert other.call(1, m.QueueDelete(queue="q")) == [m.QueueDeleteOk(message_count=0)]
    [cancel] = client.call(1, *ack(1))
    assert cancel == m.BasicCancel(consumer_tag="c", nowait=True)
    client.call(1, m.QueueDeclare(queue="q"))
    assert client.call(1, m.BasicConsume(queue="q", consumer_tag="c")) == [
        m.BasicConsumeOk(consumer_tag="c")
    ]
    client.publish(1, "q", b"x")
    assert client.delivered() == [3]
    assert client.call(1, *ack(2, 3)) == []
