"""pika: queues with priorities: who is first, what comes back, what goes when there is no room."""

from __future__ import annotations

import random
import time

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika_client import (
    Declare,
    consume,
    depth,
    fetch,
    fetch_all,
    settle,
    wait_for_depth,
    wait_until,
)


def send(channel: BlockingChannel, queue: str, priority: int | None, *bodies: bytes) -> None:
    properties = pika.BasicProperties(priority=priority)
    for body in bodies:
        channel.basic_publish("", queue, body, properties)


def test_higher_ones_come_first_in_order(channel: BlockingChannel, declare: Declare) -> None:
    """What is above the maximum counts as that, what has none as 0."""
    queue = declare(max_priority=5)
    for number, priority in enumerate([1, 5, None, 9, 0, 255, 1, 4]):
        send(channel, queue, priority, b"%d" % number)
    wait_for_depth(channel, queue, 8)
    assert fetch_all(channel, queue) == [b"1", b"3", b"5", b"7", b"0", b"6", b"2", b"4"]


def test_a_consumer_gets_what_is_urgent_before_what_was_there(
    connection: BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(max_priority=10)
    send(channel, queue, 1, b"a", b"b", b"c")
    wait_for_depth(channel, queue, 3)
    own = connection.channel()
    own.basic_qos(prefetch_count=1)
    inbox = consume(own, queue)
    inbox.wait(1)
    send(channel, queue, 9, b"d")
    send(channel, queue, 10, b"e")
    wait_for_depth(channel, queue, 4)
    for number in range(1, 6):
        delivery = inbox.wait(number)[-1]
        own.basic_ack(delivery.tag)
    assert inbox.bodies == [b"a", b"e", b"d", b"b", b"c"]


def test_without_the_argument_priorities_do_not_matter(
    channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare()
    send(channel, queue, 1, b"a")
    send(channel, queue, 9, b"b")
    wait_for_depth(channel, queue, 2)
    assert fetch_all(channel, queue) == [b"a", b"b"]


def test_what_comes_back_goes_to_its_place(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_priority=3)
    send(channel, queue, 1, b"a", b"b")
    send(channel, queue, 3, b"c", b"d")
    wait_for_depth(channel, queue, 4)
    taken = [channel.basic_get(queue)[0] for _ in range(3)]
    send(channel, queue, 3, b"e")
    wait_for_depth(channel, queue, 2)
    for method in reversed(taken):
        channel.basic_nack(method.delivery_tag, requeue=True)
    wait_for_depth(channel, queue, 5)
    got = [fetch(channel, queue, auto_ack=True) for _ in range(5)]
    assert got == [(b"c", True), (b"d", True), (b"e", False), (b"a", True), (b"b", False)]


def test_a_dead_consumers_messages_return_in_order(
    connection: BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(max_priority=3)
    for priority in (2, 1, 3, 1, 2):
        send(channel, queue, priority, b"%d" % priority)
    wait_for_depth(channel, queue, 5)
    own = connection.channel()
    consume(own, queue).wait(5)
    own.close()
    wait_for_depth(channel, queue, 5)
    assert fetch_all(channel, queue) == [b"3", b"2", b"2", b"1", b"1"]


def test_a_thousand_of_all_kinds(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_priority=7)
    dice = random.Random(7)
    sent = [(dice.randrange(9), b"%04d" % number) for number in range(1000)]
    channel.confirm_delivery()
    for priority, body in sent:
        mode = dice.choice((1, 2))
        properties = pika.BasicProperties(priority=priority, delivery_mode=mode)
        channel.basic_publish("", queue, body * dice.choice((1, 1, 2000)), properties)
    expected = sorted(sent, key=lambda each: (-min(each[0], 7), each[1]))
    assert [body[:4] for body in fetch_all(channel, queue)] == [body for _, body in expected]


def test_a_lazy_queue_has_priorities_too(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_priority=2, queue_mode="lazy")
    for priority in (0, 2, 1, 2, 0):
        send(channel, queue, priority, b"%d" % priority)
    wait_for_depth(channel, queue, 5)
    assert fetch_all(channel, queue) == [b"2", b"2", b"1", b"0", b"0"]


def test_a_purge_takes_all_priorities(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_priority=2)
    for priority in (0, 2, 1):
        send(channel, queue, priority, b"x")
    wait_for_depth(channel, queue, 3)
    assert channel.queue_purge(queue).method.message_count == 3
    assert depth(channel, queue) == 0


def test_a_full_queue_lets_its_head_go_which_is_the_most_urgent_one(
    connection: BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(max_priority=5, max_length=3)
    for number, priority in enumerate([1, 5, 3, 2, 4, 0]):
        send(channel, queue, priority, b"%d" % number)
    settle(connection)
    assert fetch_all(channel, queue) == [b"3", b"0", b"5"]


def test_what_expires_behind_something_urgent_waits_for_that(
    channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(max_priority=5)
    channel.basic_publish("", queue, b"a", pika.BasicProperties(priority=1, expiration="50"))
    send(channel, queue, 5, b"b")
    send(channel, queue, 1, b"c")
    wait_for_depth(channel, queue, 3)
    time.sleep(0.3)
    assert depth(channel, queue) == 3
    assert fetch_all(channel, queue) == [b"b", b"c"]


def test_higher_consumers_get_the_higher_messages(
    connection: BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(max_priority=9)
    low, high = connection.channel(), connection.channel()
    for each in (low, high):
        each.basic_qos(prefetch_count=2)
    second = consume(low, queue)
    first = consume(high, queue, arguments={"x-priority": 5})
    for priority in (1, 9, 5, 7):
        send(channel, queue, priority, b"%d" % priority)
    wait_until(connection, lambda: len(first.deliveries) + len(second.deliveries) == 4)
    assert len(first.deliveries) == 2
    assert len(second.deliveries) == 2
