"""pika: how often a message is delivered again where there is a limit; of classic queues here, of
quorum queues in RabbitMQ, which do not say 0 by leaving the header out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika_client import Connect, closed_with, consume, wait_until

from support.broker import Ctl, Target

Limited = Callable[..., str]


@pytest.fixture
def limited(target: Target, connect: Connect, name: str) -> Iterator[Limited]:
    """Declares a queue with that limit, whose dead letters go to the queue `name`-dead."""
    owner = connect().channel()
    owner.queue_declare(f"{name}-dead")

    def declare(limit: int | None, **more: Any) -> str:
        arguments = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{name}-dead",
            **more,
        }
        if limit is not None:
            arguments["x-delivery-limit"] = limit
        if not target.is_own:
            arguments["x-queue-type"] = "quorum"
        owner.queue_declare(name, durable=True, arguments=arguments)
        return name

    yield declare
    owner.queue_delete(name)
    owner.queue_delete(f"{name}-dead")


def take(channel: BlockingChannel, queue: str) -> tuple[int, bool, dict[str, Any]]:
    """One message, when it is there: tag, redelivered, headers."""
    found: list[tuple[int, bool, dict[str, Any]]] = []

    def look() -> bool:
        method, properties, _ = channel.basic_get(queue)
        if method is not None:
            headers = properties.headers or {}
            found.append((method.delivery_tag, method.redelivered, headers))
        return bool(found)

    wait_until(channel.connection, look)
    return found[0]


def is_dead(channel: BlockingChannel, queue: str) -> dict[str, Any]:
    """The first dead letter's headers, when it is there."""
    return take(channel, f"{queue}-dead")[2]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_so_often_it_comes_again_and_then_it_is_dead(
    channel: BlockingChannel, limited: Limited, limit: int
) -> None:
    queue = limited(limit)
    channel.basic_publish("", queue, b"x", pika.BasicProperties(headers={"mine": 1}))
    for count in range(limit + 1):
        tag, redelivered, headers = take(channel, queue)
        assert headers.get("x-delivery-count", 0) == count
        assert headers["mine"] == 1
        assert redelivered == (count > 0)
        channel.basic_nack(tag, requeue=True)
    headers = is_dead(channel, queue)
    assert "x-delivery-count" not in headers
    assert headers["x-first-death-reason"] == "delivery_limit"
    assert headers["x-death"][0]["reason"] == "delivery_limit"
    assert headers["x-death"][0]["queue"] == queue
    assert headers["mine"] == 1


def test_every_way_back_counts(
    connection: BlockingConnection, channel: BlockingChannel, limited: Limited
) -> None:
    queue = limited(3)
    channel.basic_publish("", queue, b"x")
    own = connection.channel()
    tag, _, _ = take(own, queue)
    own.basic_reject(tag, requeue=True)
    assert take(own, queue)[2]["x-delivery-count"] == 1
    own.close()
    own = connection.channel()
    assert take(own, queue)[2]["x-delivery-count"] == 2
    own.basic_recover(requeue=True)
    tag, _, headers = take(own, queue)
    assert headers["x-delivery-count"] == 3
    own.basic_nack(tag, requeue=True)
    assert is_dead(channel, queue)["x-first-death-reason"] == "delivery_limit"


def test_a_channel_that_ends_may_be_the_last_way_back(
    connection: BlockingConnection, channel: BlockingChannel, limited: Limited
) -> None:
    queue = limited(0)
    channel.basic_publish("", queue, b"x")
    own = connection.channel()
    take(own, queue)
    own.close()
    assert is_dead(channel, queue)["x-first-death-reason"] == "delivery_limit"


def test_the_limit_may_come_by_policy(
    ctl: Ctl, channel: BlockingChannel, limited: Limited, name: str
) -> None:
    """And go again; an argument and a policy together: the smaller number holds."""
    ctl("set_policy", "--apply-to", "queues", name, f"^{name}$", '{"delivery-limit": 1}')
    try:
        queue = limited(5)
        channel.basic_publish("", queue, b"x")
        for count in range(2):
            tag, _, headers = take(channel, queue)
            assert headers.get("x-delivery-count", 0) == count
            channel.basic_nack(tag, requeue=True)
        assert is_dead(channel, queue)["x-first-death-reason"] == "delivery_limit"
    finally:
        ctl("clear_policy", name)


def test_a_consumer_hears_the_count_of_each(
    connection: BlockingConnection, channel: BlockingChannel, limited: Limited
) -> None:
    queue = limited(5)
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", queue, body)
    own = connection.channel()
    inbox = consume(own, queue)
    first = inbox.wait(3)
    own.basic_nack(first[0].tag, requeue=True)
    again = inbox.wait(4)[3]
    own.basic_nack(again.tag, requeue=True)
    inbox.wait(5)
    own.basic_nack(first[1].tag, requeue=True)
    inbox.wait(6)
    counts = [
        (each.body, (each.properties.headers or {}).get("x-delivery-count", 0))
        for each in inbox.deliveries
    ]
    assert counts == [(b"a", 0), (b"b", 0), (b"c", 0), (b"a", 1), (b"a", 2), (b"b", 1)]


def test_what_is_rejected_for_good_is_rejected(channel: BlockingChannel, limited: Limited) -> None:
    queue = limited(5)
    channel.basic_publish("", queue, b"x")
    tag, _, _ = take(channel, queue)
    channel.basic_reject(tag, requeue=False)
    assert is_dead(channel, queue)["x-first-death-reason"] == "rejected"


def test_the_limit_is_a_number(target: Target, channel: BlockingChannel, name: str) -> None:
    if not target.is_own:
        pytest.skip("RabbitMQ looks at it for quorum queues only, and not at its value")
    arguments = {"x-delivery-limit": "3"}
    code, text = closed_with(lambda: channel.queue_declare(name, arguments=arguments))
    assert code == 406
    complaint = '"expected integer, got longstr"'
    assert text.endswith(f"'x-delivery-limit' for queue '{name}' in vhost '/': {complaint}")
