"""pika: queues with a single active consumer: who it is, and who comes after it."""

from __future__ import annotations

import json
import socket

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika_client import (
    Connect,
    Declare,
    closed_with,
    consume,
    depth,
    numbered,
    publish,
    settle,
    wait_until,
)

from support.broker import Ctl

NONSENSE = pika.BasicProperties(expiration="soon")
"""The broker closes the channel of who publishes with these."""


@pytest.fixture
def alone(declare: Declare) -> str:
    return declare(single_active_consumer=True)


def with_prefetch(connection: BlockingConnection, count: int) -> BlockingChannel:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=count)
    return channel


def test_the_first_gets_everything(connection: BlockingConnection, alone: str) -> None:
    first = consume(connection.channel(), alone, acks=True)
    second = consume(connection.channel(), alone, acks=True)
    publish(connection.channel(), alone, *numbered(50))
    first.exactly(50)
    assert first.bodies == numbered(50)
    assert not second.deliveries


def test_nobody_helps_when_it_has_no_room(connection: BlockingConnection, alone: str) -> None:
    first = consume(with_prefetch(connection, 2), alone)
    second = consume(connection.channel(), alone)
    publish(connection.channel(), alone, *numbered(5))
    first.exactly(2)
    assert not second.deliveries


def test_when_it_cancels_the_next_goes_on(connection: BlockingConnection, alone: str) -> None:
    """At once; RabbitMQ's next one gets nothing until a message comes back, or is acknowledged."""
    own = with_prefetch(connection, 2)
    first = consume(own, alone)
    second = consume(connection.channel(), alone)
    publish(connection.channel(), alone, *numbered(5))
    tags = [delivery.tag for delivery in first.exactly(2)]
    own.basic_cancel(first.tag)
    own.basic_nack(tags[-1], multiple=True, requeue=True)
    second.exactly(5)
    assert sorted(second.bodies) == numbered(5)
    assert len(first.deliveries) == 2


def test_when_its_channel_dies_its_messages_come_first(
    connection: BlockingConnection, alone: str
) -> None:
    own = with_prefetch(connection, 3)
    first = consume(own, alone)
    second = consume(with_prefetch(connection, 4), alone)
    publish(connection.channel(), alone, *numbered(5))
    first.exactly(3)
    own.basic_publish("", alone, b"", NONSENSE)
    wait_until(connection, lambda: own.is_closed)
    second.exactly(4)
    assert second.bodies == numbered(4)
    assert [each.redelivered for each in second.deliveries] == [True, True, True, False]


def test_when_its_connection_dies_another_one_goes_on(
    connect: Connect, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-single-active-consumer": True})
    dying = connect()
    first = consume(dying.channel(), name)
    second = consume(channel, name)
    publish(channel, name, *numbered(3))
    first.exactly(3)
    dying._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    second.exactly(3)
    assert second.bodies == numbered(3)
    channel.queue_delete(name)


def test_the_next_is_the_first_of_the_highest_priority(
    connection: BlockingConnection, alone: str
) -> None:
    own = connection.channel()
    active = consume(own, alone, acks=True)
    inboxes = [
        consume(connection.channel(), alone, acks=True, arguments={"x-priority": priority})
        for priority in (1, 7, 7)
    ]
    publish(own, alone, b"a")
    active.exactly(1)
    own.basic_cancel(active.tag)
    publish(own, alone, b"b")
    inboxes[1].exactly(1)
    assert not inboxes[0].deliveries
    assert not inboxes[2].deliveries


def test_a_higher_one_that_comes_later_waits(connection: BlockingConnection, alone: str) -> None:
    first = consume(connection.channel(), alone, acks=True)
    higher = consume(connection.channel(), alone, acks=True, arguments={"x-priority": 10})
    publish(connection.channel(), alone, *numbered(4))
    first.exactly(4)
    assert not higher.deliveries


def test_nobody_may_have_it_exclusively(connection: BlockingConnection, alone: str) -> None:
    channel = connection.channel()
    code, text = closed_with(lambda: consume(channel, alone, exclusive=True))
    assert code == 403
    assert text == f"ACCESS_REFUSED - queue '{alone}' in vhost '/' in exclusive use"


def test_those_that_wait_are_counted_and_hear_of_the_end(
    connection: BlockingConnection, channel: BlockingChannel, alone: str
) -> None:
    inboxes = [consume(connection.channel(), alone) for _ in range(3)]
    assert channel.queue_declare(alone, passive=True).method.consumer_count == 3
    cancelled: list[str] = []
    for inbox in inboxes:
        inbox.channel.add_on_cancel_callback(
            lambda frame: cancelled.append(frame.method.consumer_tag)
        )
    channel.queue_delete(alone)
    wait_until(connection, lambda: len(cancelled) == 3)


def test_one_that_waits_may_cancel(connection: BlockingConnection, alone: str) -> None:
    first = consume(connection.channel(), alone, acks=True)
    waiting = connection.channel()
    second = consume(waiting, alone)
    waiting.basic_cancel(second.tag)
    publish(connection.channel(), alone, b"x")
    first.exactly(1)
    settle(connection)
    assert depth(waiting, alone) == 0


def test_the_list_of_consumers_says_who_is_active(
    ctl: Ctl, connection: BlockingConnection, alone: str, channel: BlockingChannel, name: str
) -> None:
    first = consume(connection.channel(), alone)
    second = consume(connection.channel(), alone)
    plain = f"{name}-plain"
    channel.queue_declare(plain, exclusive=True)
    third = consume(connection.channel(), plain)
    columns = ("consumer_tag", "active", "activity_status")
    told = json.loads(ctl("list_consumers", *columns, "--formatter", "json"))
    rows = {row["consumer_tag"]: (row["active"], row["activity_status"]) for row in told}
    assert rows[first.tag] == (True, "single_active")
    assert rows[second.tag] == (False, "waiting")
    assert rows[third.tag] == (True, "up")
