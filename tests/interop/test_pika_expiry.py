"""pika: messages and queues that do not live for ever."""

from __future__ import annotations

import time
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika_client import (
    PATIENCE_SECONDS,
    Connect,
    Declare,
    closed_with,
    consume,
    depth,
    fetch,
    fetch_all,
    publish,
    settle,
    wait_for_depth,
)


def expiring(ttl_ms: int | str, **properties: Any) -> pika.BasicProperties:
    return pika.BasicProperties(expiration=str(ttl_ms), **properties)


def test_messages_of_a_queue_expire(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(message_ttl=2000)
    publish(channel, queue, b"1", b"2")
    wait_for_depth(channel, queue, 2)
    wait_for_depth(channel, queue, 0)
    assert fetch(channel, queue) is None


def test_a_message_has_an_expiry_of_its_own(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"short", expiring(50))
    channel.basic_publish("", queue, b"long", expiring(60_000))
    publish(channel, queue, b"for ever")
    settle(channel.connection)
    assert fetch_all(channel, queue) == [b"long", b"for ever"]


@pytest.mark.parametrize(("of_queue", "of_message"), [(80, 60_000), (60_000, 80)])
def test_the_shorter_life_counts(
    channel: BlockingChannel, declare: Declare, of_queue: int, of_message: int
) -> None:
    queue = declare(message_ttl=of_queue)
    channel.basic_publish("", queue, b"1", expiring(of_message))
    wait_for_depth(channel, queue, 0)


def test_only_the_head_expires(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"for ever")
    channel.basic_publish("", queue, b"short", expiring(1))
    publish(channel, queue, b"behind")
    settle(channel.connection)
    wait_for_depth(channel, queue, 3)
    assert fetch(channel, queue, auto_ack=True) == (b"for ever", False)
    assert fetch(channel, queue, auto_ack=True) == (b"behind", False)


def test_nothing_expired_is_delivered(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1")
    for _ in range(20):
        channel.basic_publish("", queue, b"short", expiring(1))
    publish(channel, queue, b"2")
    settle(channel.connection)
    assert [each.body for each in consume(channel, queue, acks=True).exactly(2)] == [b"1", b"2"]


def test_no_life_at_all_is_enough_for_a_consumer_that_waits(
    channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(message_ttl=0)
    publish(channel, queue, b"too early")
    inbox = consume(channel, queue, auto_ack=True)
    settle(channel.connection)
    publish(channel, queue, b"in time")
    channel.basic_publish("", queue, b"too", expiring(0))
    assert [each.body for each in inbox.exactly(2)] == [b"in time", b"too"]


def test_no_life_at_all_and_nobody_there(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"1", expiring(0))
    wait_for_depth(channel, queue, 0)
    assert fetch(channel, queue) is None


def test_what_is_out_does_not_expire_but_what_comes_back_does(
    channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(message_ttl=2000)
    publish(channel, queue, b"1", b"2")
    method, _, _ = channel.basic_get(queue)
    settle(channel.connection)
    wait_for_depth(channel, queue, 0)
    channel.basic_reject(method.delivery_tag, requeue=True)
    assert fetch(channel, queue) is None


def test_what_comes_back_in_time_keeps_its_expiry(
    channel: BlockingChannel, declare: Declare
) -> None:
    """It goes before what was published later than it, and lives as long from when it came back."""
    channel.confirm_delivery()
    queue, late = declare(message_ttl=2000), declare("-late")
    early = declare("-early", message_ttl=1000)
    publish(channel, early, b"a second")
    publish(channel, queue, b"1")
    method, _, _ = channel.basic_get(queue)
    wait_for_depth(channel, early, 0)
    channel.basic_reject(method.delivery_tag, requeue=True)
    settle(channel.connection)
    channel.basic_publish("", late, b"later", expiring(1500))
    wait_for_depth(channel, late, 0)
    assert fetch(channel, queue) is None


def test_a_confirm_comes_for_what_has_expired(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(message_ttl=0)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"1")


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("soon", "no_integer"),
        ("--1", "no_integer"),
        ("", "no_integer"),
        ("-01", "{value_negative,-1}"),
        ("1.5", '{leftover_string,".5"}'),
        ('1"s', '{leftover_string,"\\"s"}'),
        ("315360000001", "{value_too_large,315360000001}"),
        ("9" * 200, None),
    ],
)
def test_what_is_no_expiration(
    channel: BlockingChannel, queue: str, text: str, flaw: str | None
) -> None:
    def publish_and_wait() -> None:
        channel.basic_publish("", queue, b"1", expiring(text))
        depth(channel, queue)

    code, words = closed_with(publish_and_wait)
    assert code == 406
    start = f"PRECONDITION_FAILED - invalid expiration '{text}'"
    assert words.startswith(start)
    if flaw is not None:
        assert words == f"{start}: {flaw}"


def test_what_has_expired_behind_a_message_does_not_count_when_that_is_got(
    channel: BlockingChannel, queue: str
) -> None:
    channel.confirm_delivery()
    publish(channel, queue, b"lasting")
    for _ in range(3):
        channel.basic_publish("", queue, b"brief", expiring(0))
    assert depth(channel, queue) == 4
    method, _, body = channel.basic_get(queue)
    assert (body, method.message_count) == (b"lasting", 0)


def test_a_plus_is_fine_in_an_expiration(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"1", expiring("+60000"))
    assert depth(channel, queue) == 1


# -- queues


def exists(connect: Connect, queue: str) -> bool:
    channel = connect().channel()
    try:
        channel.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as closed:
        assert closed.reply_code == 404
        return False
    return True


def await_gone(connect: Connect, queue: str, expires_ms: int) -> None:
    """Until the queue is gone. Looking at it is a use of it, so it is left alone for longer than
    `expires_ms` each time, and ever longer."""
    for times in range(2, 8):
        time.sleep(times * expires_ms / 1000)
        if not exists(connect, queue):
            return
    raise AssertionError(f"{queue} does not expire")


def expires(ms: int) -> dict[str, int]:
    return {"x-expires": ms}


def test_an_unused_queue_goes(channel: BlockingChannel, connect: Connect, name: str) -> None:
    channel.queue_declare(name, arguments=expires(200))
    publish(channel, name, b"1")
    await_gone(connect, name, 200)


def test_a_queue_with_a_consumer_stays_until_it_has_gone(
    channel: BlockingChannel, connect: Connect, name: str
) -> None:
    channel.queue_declare(name, arguments=expires(250))
    inbox = consume(channel, name)
    time.sleep(0.7)  # nothing happens
    publish(channel, name, b"1")
    assert inbox.exactly(1)
    channel.basic_cancel(inbox.tag)
    await_gone(connect, name, 250)


@pytest.mark.parametrize("use", ["get", "declare"])
def test_a_queue_that_is_used_stays(
    channel: BlockingChannel, connect: Connect, name: str, use: str
) -> None:
    channel.queue_declare(name, arguments=expires(5000))
    for _ in range(12):
        time.sleep(0.5)
        if use == "get":
            channel.basic_get(name)
        else:
            channel.queue_declare(name, arguments=expires(5000))
    assert exists(connect, name)
    channel.queue_delete(name)


def test_publishing_is_no_use(channel: BlockingChannel, connect: Connect, name: str) -> None:
    channel.confirm_delivery()
    channel.queue_declare(name, arguments=expires(400))
    deadline = time.monotonic() + PATIENCE_SECONDS
    with pytest.raises(pika.exceptions.UnroutableError):
        while time.monotonic() < deadline:
            time.sleep(0.2)
            channel.basic_publish("", name, b"1", mandatory=True)
    assert not exists(connect, name)
