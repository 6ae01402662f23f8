"""pika: getting messages: consume, get, acknowledgements, order after requeue, prefetch."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ConnectionClosedByBroker
from pika_client import (
    PATIENCE_SECONDS,
    Delivery,
    closed_with,
    consume,
    depth,
    fetch,
    fetch_all,
    numbered,
    publish,
    settle,
    wait_until,
)


def seen(deliveries: list[Delivery]) -> list[tuple[bytes, bool]]:
    return [(delivery.body, delivery.redelivered) for delivery in deliveries]


def test_delivers_what_is_there_and_what_comes(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *numbered(3))
    inbox = consume(channel, queue)
    inbox.wait(3)
    publish(channel, queue, *numbered(3, start=3))
    deliveries = inbox.exactly(6)
    assert seen(deliveries) == [(body, False) for body in numbered(6)]
    assert [delivery.tag for delivery in deliveries] == [1, 2, 3, 4, 5, 6]


def test_a_delivery_names_its_exchange_and_key(channel: BlockingChannel, queue: str) -> None:
    channel.queue_bind(queue, "amq.topic", f"{queue}.#")
    channel.basic_publish("amq.topic", f"{queue}.key", b"x")
    deliveries = channel.consume(queue, auto_ack=True, inactivity_timeout=PATIENCE_SECONDS)
    method, _, _ = next(deliveries)
    assert (method.exchange, method.routing_key) == ("amq.topic", f"{queue}.key")
    channel.cancel()


def test_get_ok_tells_what_remains(channel: BlockingChannel, queue: str) -> None:
    channel.queue_bind(queue, "amq.direct", queue)
    channel.basic_publish("amq.direct", queue, b"first")
    publish(channel, queue, b"second")
    method, _, body = channel.basic_get(queue)
    assert body == b"first"
    assert (method.exchange, method.routing_key) == ("amq.direct", queue)
    assert (method.message_count, method.delivery_tag, method.redelivered) == (1, 1, False)
    method, _, _ = channel.basic_get(queue)
    assert (method.message_count, method.delivery_tag) == (0, 2)
    assert channel.basic_get(queue) == (None, None, None)


def test_tags_count_gets_and_deliveries_together(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"a")
    assert channel.basic_get(queue)[0].delivery_tag == 1
    inbox = consume(channel, queue)
    publish(channel, queue, b"b")
    assert inbox.wait(1)[0].tag == 2
    channel.basic_cancel(inbox.tag)
    publish(channel, queue, b"c")
    assert channel.basic_get(queue, auto_ack=True)[0].delivery_tag == 3


def test_acknowledged_messages_are_gone(connection: BlockingConnection, queue: str) -> None:
    channel = connection.channel()
    publish(channel, queue, *numbered(4))
    tags = [delivery.tag for delivery in consume(channel, queue).wait(4)]
    channel.basic_ack(tags[1])
    channel.basic_ack(tags[3])
    channel.close()
    assert fetch_all(connection.channel(), queue) == [b"0", b"2"]


def test_multiple_acknowledges_all_up_to_a_tag(connection: BlockingConnection, queue: str) -> None:
    channel = connection.channel()
    publish(channel, queue, *numbered(6))
    consume(channel, queue).wait(6)
    channel.basic_ack(4, multiple=True)
    channel.close()
    assert fetch_all(connection.channel(), queue) == [b"4", b"5"]


def test_tag_zero_with_multiple_acknowledges_everything(
    connection: BlockingConnection, queue: str
) -> None:
    channel = connection.channel()
    channel.basic_ack(0, multiple=True)
    publish(channel, queue, *numbered(6))
    consume(channel, queue).wait(6)
    channel.basic_ack(0, multiple=True)
    channel.close()
    assert fetch_all(connection.channel(), queue) == []


@pytest.mark.parametrize("kind", ["never given", "twice", "multiple of one that is gone", "zero"])
def test_unknown_tags_close_the_channel(
    connection: BlockingConnection, queue: str, kind: str
) -> None:
    """The tag of a multiple acknowledgement must itself be outstanding."""
    channel = connection.channel()
    publish(channel, queue, *numbered(3))
    consume(channel, queue).wait(3)
    tag, multiple = {
        "never given": (99, False),
        "twice": (2, False),
        "multiple of one that is gone": (2, True),
        "zero": (0, False),
    }[kind]
    channel.basic_ack(2)
    channel.basic_ack(tag, multiple)
    assert closed_with(lambda: channel.queue_declare(queue, passive=True)) == (
        406,
        f"PRECONDITION_FAILED - unknown delivery tag {tag}",
    )
    assert fetch_all(connection.channel(), queue) == [b"0", b"2"]


@pytest.mark.parametrize("method", ["basic_ack", "basic_nack", "basic_reject"])
def test_a_no_ack_delivery_has_nothing_to_acknowledge(
    channel: BlockingChannel, queue: str, method: str
) -> None:
    publish(channel, queue, b"x")
    tag = consume(channel, queue, auto_ack=True).wait(1)[0].tag
    getattr(channel, method)(tag)
    assert closed_with(lambda: channel.queue_declare(queue, passive=True))[0] == 406


def test_tags_belong_to_their_channel(connection: BlockingConnection, queue: str) -> None:
    first, second = connection.channel(), connection.channel()
    publish(first, queue, b"x")
    tag = first.basic_get(queue)[0].delivery_tag
    second.basic_ack(tag)
    assert closed_with(lambda: second.queue_declare(queue, passive=True))[0] == 406
    first.basic_ack(tag)
    assert depth(first, queue) == 0


@pytest.mark.parametrize("method", ["basic_nack", "basic_reject"])
def test_refused_for_good_is_dropped(channel: BlockingChannel, queue: str, method: str) -> None:
    publish(channel, queue, b"x")
    tag = channel.basic_get(queue)[0].delivery_tag
    getattr(channel, method)(tag, requeue=False)
    assert fetch(channel, queue) is None


@pytest.mark.parametrize("method", ["basic_nack", "basic_reject"])
def test_requeued_goes_back_to_its_place(channel: BlockingChannel, queue: str, method: str) -> None:
    publish(channel, queue, *numbered(6))
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    for tag in (tags[2], tags[0]):
        getattr(channel, method)(tag, requeue=True)
    got = [fetch(channel, queue) for _ in range(4)]
    assert got == [(b"0", True), (b"2", True), (b"4", False), (b"5", False)]


def test_nack_multiple_puts_all_back_in_order(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *numbered(8))
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(6)]
    channel.basic_nack(tags[3], multiple=True, requeue=True)
    got = [fetch(channel, queue) for _ in range(6)]
    assert got == [(b"%d" % n, n < 4) for n in (0, 1, 2, 3, 6, 7)]
    channel.basic_nack(0, multiple=True, requeue=True)
    assert fetch_all(channel, queue) == numbered(8)


def test_recover_requeues_everything_in_order(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *numbered(5))
    for _ in range(3):
        channel.basic_get(queue)
    channel.basic_recover(requeue=True)
    got = [fetch(channel, queue) for _ in range(5)]
    assert got == [(b"%d" % n, n < 3) for n in range(5)]


def test_recover_delivers_again_to_a_consumer(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *numbered(3))
    inbox = consume(channel, queue)
    inbox.wait(3)
    channel.basic_recover(requeue=True)
    deliveries = inbox.exactly(6)
    assert seen(deliveries[3:]) == [(body, True) for body in numbered(3)]
    assert [delivery.tag for delivery in deliveries[3:]] == [4, 5, 6]


def test_recover_without_requeue_is_not_implemented(channel: BlockingChannel) -> None:
    with pytest.raises(ConnectionClosedByBroker) as caught:
        channel.basic_recover(requeue=False)
    assert caught.value.reply_code == 540
    assert caught.value.reply_text == "NOT_IMPLEMENTED - requeue=false"


def test_what_a_closed_channel_held_is_served_first(
    connection: BlockingConnection, queue: str
) -> None:
    holder, other = connection.channel(), connection.channel()
    publish(other, queue, *numbered(4))
    holder.basic_qos(prefetch_count=2)
    consume(holder, queue).wait(2)
    holder.close()
    assert fetch_all(other, queue) == numbered(4)


def test_prefetch_limits_each_consumer(connection: BlockingConnection, queue: str) -> None:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=3)
    first, second = consume(channel, queue), consume(channel, queue)
    publish(channel, queue, *numbered(20))
    first.exactly(3)
    second.exactly(3)
    channel.basic_ack(first.deliveries[0].tag)
    first.exactly(4)
    second.exactly(3)


def test_prefetch_counts_for_consumers_started_later_only(
    connection: BlockingConnection, queue: str
) -> None:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    early = consume(channel, queue)
    channel.basic_qos(prefetch_count=5)
    late = consume(channel, queue)
    publish(channel, queue, *numbered(20))
    early.exactly(2)
    late.exactly(5)


def test_prefetch_does_not_limit_gets_and_no_ack(channel: BlockingChannel, queue: str) -> None:
    channel.basic_qos(prefetch_count=1)
    publish(channel, queue, *numbered(5))
    assert [fetch(channel, queue) for _ in range(3)] == [(b"%d" % n, False) for n in range(3)]
    consume(channel, queue, auto_ack=True).exactly(2)


def test_global_prefetch_is_shared_by_all_consumers(
    connection: BlockingConnection, queue: str
) -> None:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=4, global_qos=True)
    first, second = consume(channel, queue), consume(channel, queue)
    publish(channel, queue, *numbered(20))
    for count in (4, 8):
        wait_until(
            connection, lambda count=count: len(first.deliveries + second.deliveries) >= count
        )
        settle(connection)
        assert len(first.deliveries + second.deliveries) == count
        channel.basic_ack(0, multiple=True)


def test_a_full_channel_holds_back_who_needs_not_acknowledge(
    connection: BlockingConnection, queue: str
) -> None:
    """What that one gets does not count, though."""
    channel = connection.channel()
    other = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_qos(prefetch_count=1, global_qos=True)
    slow, quick = consume(channel, queue), consume(channel, other, auto_ack=True)
    publish(channel, other, *numbered(3))
    quick.exactly(3)
    publish(channel, queue, b"x")
    slow.exactly(1)
    publish(channel, other, *numbered(3))
    settle(connection)
    quick.exactly(3)
    channel.basic_ack(0, multiple=True)
    quick.exactly(6)


def test_global_and_own_prefetch_must_both_permit(
    connection: BlockingConnection, queue: str
) -> None:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = consume(channel, queue), consume(channel, queue)
    publish(channel, queue, *numbered(20))
    wait_until(connection, lambda: len(first.deliveries + second.deliveries) >= 3)
    settle(connection)
    counts = len(first.deliveries), len(second.deliveries)
    assert sum(counts) == 3
    assert max(counts) == 2


def test_a_prefetch_for_consumers_set_later_lifts_the_global_one(
    connection: BlockingConnection, queue: str
) -> None:
    """RabbitMQ's order of things: who wants both sets the global one last."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2, global_qos=True)
    early = consume(channel, queue)
    publish(channel, queue, *numbered(5))
    early.exactly(2)
    channel.basic_qos(prefetch_count=1)
    early.exactly(5)


def test_lifting_a_global_prefetch_lets_all_through(
    connection: BlockingConnection, queue: str
) -> None:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2, global_qos=True)
    inbox = consume(channel, queue)
    publish(channel, queue, *numbered(20))
    inbox.exactly(2)
    channel.basic_qos(prefetch_count=0, global_qos=True)
    inbox.exactly(20)


def test_a_global_prefetch_counts_what_is_out_already(
    connection: BlockingConnection, queue: str
) -> None:
    channel = connection.channel()
    publish(channel, queue, *numbered(5))
    inbox = consume(channel, queue)
    inbox.exactly(5)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    publish(channel, queue, *numbered(5, start=5))
    inbox.exactly(5)
    channel.basic_ack(3, multiple=True)
    inbox.exactly(6)


def test_acknowledging_keeps_a_small_window_going(
    connection: BlockingConnection, queue: str
) -> None:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    inbox = consume(channel, queue, acks=True)
    publish(connection.channel(), queue, *numbered(300))
    inbox.exactly(300)
    assert inbox.bodies == numbered(300)


def test_a_window_goes_on_with_multiple_acks(connection: BlockingConnection, queue: str) -> None:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10)
    inbox = consume(channel, queue)
    publish(channel, queue, *numbered(50))
    for upto in range(10, 51, 10):
        inbox.exactly(upto)
        channel.basic_ack(upto, multiple=True)
    assert inbox.bodies == numbered(50)
    channel.basic_cancel(inbox.tag)
    assert depth(channel, queue) == 0
