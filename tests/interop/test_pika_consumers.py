"""pika: several consumers of one queue: turns, exclusivity, priorities, cancelling."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ConnectionClosedByBroker, DuplicateConsumerTag
from pika_client import (
    Connect,
    closed_with,
    consume,
    depth,
    fetch_all,
    numbered,
    publish,
    settle,
    wait_until,
)


def test_two_consumers_take_turns(connection: BlockingConnection, queue: str) -> None:
    first = consume(connection.channel(), queue)
    second = consume(connection.channel(), queue)
    publisher = connection.channel()
    publisher.confirm_delivery()
    publish(publisher, queue, *numbered(100))
    first.exactly(50)
    second.exactly(50)
    assert first.bodies == numbered(100)[::2]
    assert second.bodies == numbered(100)[1::2]


@pytest.mark.parametrize("consumers", [2, 3])
def test_a_channel_with_several_consumers_gets_the_queue_in_order(
    connection: BlockingConnection, queue: str, consumers: int
) -> None:
    """Whichever of them a message is for (AMQP 0-9-1, 4.7); each has its share."""
    channel = connection.channel()
    inboxes = [consume(channel, queue) for _ in range(consumers)]
    sent = numbered(3000)
    publish(connection.channel(), queue, *sent)
    wait_until(connection, lambda: sum(len(inbox.deliveries) for inbox in inboxes) == 3000)
    by_tag = {each.tag: each.body for inbox in inboxes for each in inbox.deliveries}
    assert [by_tag[tag] for tag in sorted(by_tag)] == sent
    counts = [len(inbox.deliveries) for inbox in inboxes]
    assert max(counts) - min(counts) <= 300


def test_five_consumers_share_a_stream_each_in_order(
    connection: BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    inboxes = []
    for _ in range(5):
        own = connection.channel()
        own.basic_qos(prefetch_count=10)
        inboxes.append(consume(own, queue, acks=True))
    publish(channel, queue, *numbered(1000))
    wait_until(connection, lambda: sum(len(inbox.deliveries) for inbox in inboxes) == 1000)
    for inbox in inboxes:
        assert inbox.bodies == sorted(inbox.bodies, key=int)
        assert inbox.deliveries


def test_a_consumer_with_a_full_window_is_passed_over(
    connection: BlockingConnection, queue: str
) -> None:
    slow_channel = connection.channel()
    slow_channel.basic_qos(prefetch_count=1)
    slow = consume(slow_channel, queue)
    fast = consume(connection.channel(), queue, acks=True)
    publish(connection.channel(), queue, *numbered(50))
    fast.exactly(49)
    slow.exactly(1)


def test_a_consumer_tag_may_be_given(channel: BlockingChannel, queue: str) -> None:
    inbox = consume(channel, queue, consumer_tag="mine")
    publish(channel, queue, b"x")
    assert inbox.wait(1)[0].consumer == inbox.tag == "mine"


def test_a_tag_in_use_closes_the_connection(connection: BlockingConnection, queue: str) -> None:
    channel = connection.channel()
    consume(channel, queue, consumer_tag="t")
    with pytest.raises(DuplicateConsumerTag):
        consume(channel, queue, consumer_tag="t")
    channel._impl._send_method(pika.spec.Basic.Consume(queue=queue, consumer_tag="t"))
    with pytest.raises(ConnectionClosedByBroker) as caught:
        wait_until(connection, lambda: connection.is_closed)
    assert caught.value.reply_code == 530
    assert caught.value.reply_text == "NOT_ALLOWED - attempt to reuse consumer tag 't'"


def test_the_same_tag_on_two_channels_is_fine(connection: BlockingConnection, queue: str) -> None:
    first = consume(connection.channel(), queue, consumer_tag="t")
    second = consume(connection.channel(), queue, consumer_tag="t")
    publish(connection.channel(), queue, b"1", b"2")
    first.exactly(1)
    second.exactly(1)


def test_consuming_a_missing_queue(channel: BlockingChannel, name: str) -> None:
    assert closed_with(lambda: consume(channel, name)) == (
        404,
        f"NOT_FOUND - no queue '{name}' in vhost '/'",
    )


def test_cancel_stops_deliveries_and_leaves_unacknowledged_ones(
    channel: BlockingChannel, queue: str
) -> None:
    inbox = consume(channel, queue)
    publish(channel, queue, b"1")
    inbox.wait(1)
    channel.basic_cancel(inbox.tag)
    publish(channel, queue, b"2")
    settle(channel.connection)
    assert inbox.bodies == [b"1"]
    assert depth(channel, queue) == 1
    channel.basic_ack(inbox.deliveries[0].tag)
    assert fetch_all(channel, queue) == [b"2"]


def test_cancelling_the_unknown_is_answered(channel: BlockingChannel) -> None:
    answered: list[object] = []
    impl = channel._impl
    impl._rpc(
        pika.spec.Basic.Cancel(consumer_tag="nosuch"), answered.append, [pika.spec.Basic.CancelOk]
    )
    wait_until(channel.connection, lambda: answered)


@pytest.mark.parametrize("how", ["delete", "connection of an exclusive queue"])
def test_the_broker_cancels_when_the_queue_goes(
    connect: Connect, connection: BlockingConnection, name: str, how: str
) -> None:
    cancelled: list[str] = []
    owner = connect()
    owner.channel().queue_declare(name, exclusive=how != "delete")
    consumer = (owner if how != "delete" else connection).channel()
    consumer.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    inbox = consume(consumer, name)
    owner.channel().queue_delete(name)
    wait_until(consumer.connection, lambda: cancelled)
    assert cancelled == [inbox.tag]
    assert consumer.is_open


def test_an_exclusive_consumer_wants_no_others(connect: Connect, shared_queue: str) -> None:
    refused = (
        403,
        f"ACCESS_REFUSED - queue '{shared_queue}' in vhost '/' in exclusive use",
    )
    connection, other = connect(), connect()
    alone = connection.channel()
    inbox = consume(alone, shared_queue, exclusive=True)
    assert closed_with(lambda: consume(other.channel(), shared_queue)) == refused
    assert closed_with(lambda: consume(other.channel(), shared_queue, exclusive=True)) == refused
    alone.basic_cancel(inbox.tag)
    consume(other.channel(), shared_queue)
    again = connection.channel()
    assert closed_with(lambda: consume(again, shared_queue, exclusive=True)) == refused


def test_an_exclusive_consumer_still_lets_others_get(connect: Connect, shared_queue: str) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=1)
    consume(channel, shared_queue, exclusive=True)
    publish(channel, shared_queue, b"1", b"2")
    other = connect()
    wait_until(other, lambda: depth(other.channel(), shared_queue) == 1)
    assert fetch_all(other.channel(), shared_queue) == [b"2"]


def test_higher_priority_first_until_its_window_is_full(
    connection: BlockingConnection, queue: str
) -> None:
    inboxes = {}
    for priority in (0, 10, -5, 10):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=3)
        inboxes.setdefault(priority, []).append(
            consume(channel, queue, arguments={"x-priority": priority})
        )
    publisher = connection.channel()
    publisher.confirm_delivery()

    def counts() -> list[int]:
        return [sum(len(i.deliveries) for i in inboxes[p]) for p in (10, 0, -5)]

    def settled(total: int) -> list[int]:
        """When there are so many and no more come."""
        wait_until(connection, lambda: sum(counts()) >= total)
        settle(connection)
        return counts()

    publish(publisher, queue, *numbered(6))
    assert settled(6) == [6, 0, 0]
    publish(publisher, queue, *numbered(4))
    assert settled(10) == [6, 3, 1]
    assert [len(inbox.deliveries) for inbox in inboxes[10]] == [3, 3]
    inboxes[10][0].channel.basic_ack(0, multiple=True)
    publish(publisher, queue, *numbered(2))
    assert settled(12) == [8, 3, 1]


def test_no_priority_means_zero(connection: BlockingConnection, queue: str) -> None:
    low = consume(connection.channel(), queue, arguments={"x-priority": -1})
    normal = consume(connection.channel(), queue)
    publish(connection.channel(), queue, *numbered(5))
    normal.exactly(5)
    low.exactly(0)


def test_a_wrong_priority_is_refused(channel: BlockingChannel, queue: str) -> None:
    code, text = closed_with(lambda: consume(channel, queue, arguments={"x-priority": "high"}))
    assert code == 406
    assert text.startswith("PRECONDITION_FAILED - invalid arg 'x-priority' for queue")


def test_redelivery_goes_to_another_consumer(connection: BlockingConnection, queue: str) -> None:
    first, second = connection.channel(), connection.channel()
    inbox = consume(first, queue)
    publish(second, queue, *numbered(4))
    inbox.wait(4)
    other = consume(second, queue)
    first.close()
    assert [(d.body, d.redelivered) for d in other.exactly(4)] == [
        (body, True) for body in numbered(4)
    ]


def test_a_consumer_may_publish_and_acknowledge_inside_its_callback(
    connection: BlockingConnection, queue: str
) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    got: list[int] = []

    def echo(own: BlockingChannel, method: object, _properties: object, body: bytes) -> None:
        got.append(int(body))
        own.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]
        if int(body) < 100:
            own.basic_publish("", queue, b"%d" % (int(body) + 1))

    channel.basic_consume(queue, echo)
    publish(connection.channel(), queue, b"1")
    wait_until(connection, lambda: len(got) == 100)
    assert got == list(range(1, 101))
    assert depth(connection.channel(), queue) == 0
