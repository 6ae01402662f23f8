"""pika: queues that hold so many messages and bytes, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError
from pika_client import (
    Connect,
    Declare,
    closed_with,
    consume,
    fetch_all,
    numbered,
    publish,
    settle,
    wait_for_depth,
    wait_until,
)


def confirmed(channel: BlockingChannel, queue: str, body: bytes, **properties: object) -> bool:
    """Publishes and waits for the answer: True for an ack."""
    try:
        channel.basic_publish("", queue, body, pika.BasicProperties(**properties))
    except NackError:
        return False
    return True


def test_the_oldest_go(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_length=3)
    publish(channel, queue, *numbered(10))
    wait_for_depth(channel, queue, 3)
    assert fetch_all(channel, queue) == numbered(3, 7)


def test_bodies_are_weighed(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_length_bytes=10)
    publish(channel, queue, b"aaaa", b"bbbb", b"cc")
    wait_for_depth(channel, queue, 3)
    publish(channel, queue, b"d")
    assert fetch_all(channel, queue) == [b"bbbb", b"cc", b"d"]
    publish(channel, queue, b"e" * 11)
    wait_for_depth(channel, queue, 0)


def test_properties_do_not_count(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_length_bytes=10)
    properties = pika.BasicProperties(message_id="m" * 200, headers={"a": "long header" * 10})
    for body in (b"12345", b"67890", b"abcde"):
        channel.basic_publish("", queue, body, properties)
    assert fetch_all(channel, queue) == [b"67890", b"abcde"]


def test_both_limits_hold(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_length=2, max_length_bytes=10)
    publish(channel, queue, b"1", b"2", b"3")
    wait_for_depth(channel, queue, 2)
    publish(channel, queue, b"123456789")
    assert fetch_all(channel, queue) == [b"3", b"123456789"]


def test_what_is_out_does_not_count(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_length=2)
    publish(channel, queue, b"1", b"2")
    channel.basic_get(queue)
    channel.basic_get(queue)
    publish(channel, queue, b"3", b"4")
    wait_for_depth(channel, queue, 2)


def test_what_comes_back_goes_first(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_length=2)
    publish(channel, queue, b"1", b"2")
    method, _, _ = channel.basic_get(queue)
    publish(channel, queue, b"3")
    channel.basic_reject(method.delivery_tag, requeue=True)
    wait_for_depth(channel, queue, 2)
    assert fetch_all(channel, queue) == [b"2", b"3"]


def test_a_consumer_gets_more_than_there_is_room_for(
    channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(max_length=1)
    inbox = consume(channel, queue, auto_ack=True)
    publish(channel, queue, *numbered(50))
    inbox.wait(1)
    publish(channel, queue, b"last")
    wait_until(channel.connection, lambda: inbox.bodies[-1] == b"last")


def test_no_room_at_all(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_length=0)
    publish(channel, queue, b"1")
    wait_for_depth(channel, queue, 0)
    inbox = consume(channel, queue, auto_ack=True)
    settle(channel.connection)
    publish(channel, queue, b"2")
    assert inbox.exactly(1)[0].body == b"2"


@pytest.mark.parametrize("mode", [1, 2])
def test_dropped_messages_are_confirmed(
    channel: BlockingChannel, declare: Declare, mode: int
) -> None:
    queue = declare(max_length=1)
    channel.confirm_delivery()
    for body in numbered(5):
        assert confirmed(channel, queue, body, delivery_mode=mode)
    assert fetch_all(channel, queue) == [b"4"]


def test_what_does_not_fit_is_refused(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_length=2, overflow="reject-publish")
    channel.confirm_delivery()
    answers = [confirmed(channel, queue, body) for body in numbered(5)]
    assert answers == [True, True, False, False, False]
    assert fetch_all(channel, queue) == numbered(2)
    assert confirmed(channel, queue, b"again")


def test_what_is_too_heavy_is_refused(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(max_length_bytes=10, overflow="reject-publish")
    channel.confirm_delivery()
    answers = [confirmed(channel, queue, body) for body in (b"123456", b"12345", b"1234", b"1")]
    assert answers == [True, False, True, False]


def test_without_confirms_it_is_refused_in_silence(
    channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(max_length=2, overflow="reject-publish")
    publish(channel, queue, *numbered(300))
    assert fetch_all(channel, queue) == numbered(2)


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_without_confirms_what_fits_behind_what_does_not_is_taken(
    channel: BlockingChannel, declare: Declare, overflow: str
) -> None:
    dead = declare("-dead")
    queue = declare(
        max_length_bytes=20,
        max_length=3,
        overflow=overflow,
        dead_letter_exchange="",
        dead_letter_routing_key=dead,
    )
    bodies = [bytes([ord("a") + n]) * size for n, size in enumerate((60, 9, 12, 9, 15, 2, 1))]
    publish(channel, queue, *bodies)
    wait_for_depth(channel, queue, 3)
    assert fetch_all(channel, queue) == [bodies[1], bodies[3], bodies[5]]
    if overflow == "reject-publish-dlx":
        wait_for_depth(channel, dead, 4)
        assert fetch_all(channel, dead) == [bodies[0], bodies[2], bodies[4], bodies[6]]


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("count", [7, 300])
def test_many_at_once_are_taken_as_far_as_there_is_room(
    connect: Connect, name: str, mode: int, count: int
) -> None:
    """All are sent before the first answer is read; the client is not told which numbers by pika's
    blocking channel, so the frames are looked at."""
    connection = connect()
    channel = connection.channel()
    arguments = {"x-max-length": 5, "x-overflow": "reject-publish"}
    channel.queue_declare(name, durable=True, arguments=arguments)
    acks: set[int] = set()
    nacks: set[int] = set()
    channel._impl.confirm_delivery(noting(acks, nacks))
    properties = pika.BasicProperties(delivery_mode=mode)
    for body in numbered(count):
        channel._impl.basic_publish("", name, body, properties)
    wait_until(connection, lambda: len(acks) + len(nacks) >= count)
    assert acks == {1, 2, 3, 4, 5}
    assert nacks == set(range(6, count + 1))
    assert fetch_all(channel, name) == numbered(5)
    channel.queue_delete(name)


def noting(acks: set[int], nacks: set[int]) -> Callable[[object], None]:
    """Takes basic.ack and basic.nack frames, multiple ones too."""

    def note(frame: object) -> None:
        method = frame.method  # type: ignore[attr-defined]
        known = acks if method.NAME == "Basic.Ack" else nacks
        tags = {method.delivery_tag}
        if method.multiple:
            tags = set(range(1, method.delivery_tag + 1)) - acks - nacks
        known.update(tags)

    return note


def test_one_queue_is_full_and_the_other_is_not(
    channel: BlockingChannel, declare: Declare, exchange: Callable[..., str]
) -> None:
    full = declare("-full", max_length=1, overflow="reject-publish")
    other = declare("-other")
    fanout = exchange("fanout")
    for queue in (full, other):
        channel.queue_bind(queue, fanout)
    channel.confirm_delivery()
    channel.basic_publish(fanout, "", b"1")
    with pytest.raises(NackError):
        channel.basic_publish(fanout, "", b"2")
    wait_for_depth(channel, full, 1)
    wait_for_depth(channel, other, 2)


def test_a_transaction_that_does_not_fit(
    channel: BlockingChannel, connect: Connect, name: str
) -> None:
    limited = name + "-limited"
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(limited, arguments=arguments)
    other = connect().channel()
    other.tx_select()
    publish(other, limited, b"1", b"2")
    code, text = closed_with(other.tx_commit)
    assert (code, text) == (406, "PRECONDITION_FAILED - partial tx completion")
    assert fetch_all(channel, limited) == [b"1"]
    channel.queue_delete(limited)
