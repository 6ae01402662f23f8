"""pika: transactions."""

from __future__ import annotations

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika_client import Connect, closed_with, consume, depth, fetch_all, numbered, publish

PERSISTENT = BasicProperties(delivery_mode=2)


@pytest.fixture
def other(connect: Connect) -> BlockingChannel:
    """Somebody else's."""
    return connect().channel()


def test_others_see_nothing_before_the_commit(
    channel: BlockingChannel, other: BlockingChannel, shared_queue: str
) -> None:
    channel.tx_select()
    publish(channel, shared_queue, *numbered(300))
    assert depth(other, shared_queue) == 0
    channel.tx_commit()
    assert depth(other, shared_queue) == 300
    publish(channel, shared_queue, *numbered(300, 300))
    channel.tx_rollback()
    assert fetch_all(other, shared_queue) == numbered(300)


def test_persistent_messages_of_many_sizes(
    channel: BlockingChannel, other: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    try:
        channel.tx_select()
        bodies = [bytes([65 + n]) * size for n, size in enumerate((1, 5000, 0, 300_000, 7, 4096))]
        for body in bodies:
            channel.basic_publish("", name, body, PERSISTENT)
        channel.tx_commit()
        assert fetch_all(other, name) == bodies
    finally:
        channel.queue_delete(name)


def test_a_move_from_queue_to_queue_is_done_or_not(
    channel: BlockingChannel, other: BlockingChannel, name: str, shared_queue: str
) -> None:
    """What transactions are used for: consume, publish elsewhere, acknowledge, commit."""
    target = name + "-target"
    other.queue_declare(target, exclusive=True)
    mover = other.connection.channel()
    mover.tx_select()
    publish(channel, shared_queue, *numbered(20))
    inbox = consume(mover, shared_queue)
    for number, delivery in enumerate(inbox.wait(20)):
        publish(mover, target, delivery.body)
        mover.basic_ack(delivery.tag)
        if number % 2:
            mover.tx_commit()
        else:
            mover.tx_rollback()
    mover.close()
    odd = numbered(20)[1::2]
    assert fetch_all(other, target) == odd
    assert fetch_all(channel, shared_queue) == numbered(20)[::2]


def test_routes_over_several_exchanges_and_queues(other: BlockingChannel, name: str) -> None:
    queues = [f"{name}-{n}" for n in range(3)]
    for queue in queues:
        other.queue_declare(queue, exclusive=True)
        other.queue_bind(queue, "amq.fanout")
    mine = other.connection.channel()
    mine.tx_select()
    for body in numbered(5):
        mine.basic_publish("amq.fanout", "", body)
        mine.basic_publish("amq.direct", "nobody", body)
        mine.basic_publish("", queues[0], body)
    mine.tx_commit()
    twice = [body for body in numbered(5) for _ in range(2)]
    assert fetch_all(other, queues[0]) == twice
    assert fetch_all(other, queues[1]) == fetch_all(other, queues[2]) == numbered(5)


def test_a_refused_publish_ends_the_transaction(
    channel: BlockingChannel, other: BlockingChannel, shared_queue: str
) -> None:
    channel.tx_select()
    publish(channel, shared_queue, b"x")
    channel.basic_publish("nosuch", "", b"y")
    code, text = closed_with(channel.tx_commit)
    assert (code, text) == (404, "NOT_FOUND - no exchange 'nosuch' in vhost '/'")
    assert depth(other, shared_queue) == 0


def test_a_connection_that_is_lost_commits_nothing(
    connect: Connect, other: BlockingChannel, shared_queue: str
) -> None:
    other.confirm_delivery()
    publish(other, shared_queue, b"1")
    lost = connect()
    channel = lost.channel()
    channel.tx_select()
    publish(channel, shared_queue, b"2")
    method, _, _ = channel.basic_get(shared_queue)
    channel.basic_ack(method.delivery_tag)
    lost.close()
    assert fetch_all(other, shared_queue) == [b"1"]
