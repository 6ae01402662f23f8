"""pika: quorum queues, as they are on RabbitMQ: what is refused, in which order messages come back,
what is counted, how they die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ConnectionClosedByBroker, NackError
from pika_client import (
    Connect,
    closed_with,
    consume,
    fetch,
    fetch_all,
    numbered,
    publish,
    wait_for_depth,
    wait_until,
)

Agreed = Callable[..., str]
"""Declares a quorum queue, its x-arguments as options; gives the name."""


@pytest.fixture
def agreed(connect: Connect, name: str) -> Iterator[Agreed]:
    """Queues that are deleted after the test: `agreed("-a", message_ttl=5)` gives the name."""
    owner = connect().channel()
    declared: list[str] = []

    def declare(suffix: str = "", **arguments: Any) -> str:
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        given["x-queue-type"] = "quorum"
        owner.queue_declare(name + suffix, durable=True, arguments=given)
        declared.append(name + suffix)
        return declared[-1]

    yield declare
    for each in declared:
        owner.queue_delete(each)


@pytest.fixture
def graves(agreed: Agreed) -> dict[str, Any]:
    """Arguments by which dead letters go to a quorum queue of their own."""
    dead = agreed("-dead")
    return {"dead_letter_exchange": "", "dead_letter_routing_key": dead}


def given_back(channel: BlockingChannel, tags: list[int]) -> None:
    for tag in tags:
        channel.basic_nack(tag, requeue=True)


def take(channel: BlockingChannel, queue: str) -> tuple[Any, Any, bytes]:
    """One message, when it is there."""
    found: list[tuple[Any, Any, bytes]] = []

    def look() -> bool:
        method, properties, body = channel.basic_get(queue)
        if method is not None:
            found.append((method, properties, body))
        return bool(found)

    wait_until(channel.connection, look)
    return found[0]


# -- what is refused


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-queue-mode", "lazy"),
        ("x-max-priority", 5),
        ("x-queue-master-locator", "client-local"),
        ("x-queue-version", 2),
        ("x-max-age", "7D"),
        ("x-initial-cluster-size", 1),
    ],
)
def test_arguments_of_other_types_are_refused(
    channel: BlockingChannel, name: str, argument: str, value: object
) -> None:
    arguments = {"x-queue-type": "quorum", argument: value}
    answer = closed_with(lambda: channel.queue_declare(name, durable=True, arguments=arguments))
    assert answer == (
        406,
        f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{name}' in vhost '/'"
        " of queue type rabbit_quorum_queue",
    )


@pytest.mark.parametrize(
    ("argument", "value", "why"),
    [
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-dead-letter-strategy", "twice", "invalid_dlx_strategy"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-overflow", "spill", "invalid_overflow"),
    ],
)
def test_wrong_values_are_refused(
    channel: BlockingChannel, name: str, argument: str, value: object, why: str
) -> None:
    arguments = {"x-queue-type": "quorum", argument: value}
    answer = closed_with(lambda: channel.queue_declare(name, durable=True, arguments=arguments))
    text = f"invalid arg '{argument}' for queue '{name}' in vhost '/': {why}"
    assert answer == (406, f"PRECONDITION_FAILED - {text}")


def test_its_name_is_the_clients(channel: BlockingChannel) -> None:
    arguments = {"x-queue-type": "quorum"}
    answer = closed_with(lambda: channel.queue_declare("", durable=True, arguments=arguments))
    text = "Cannot declare a server-named queue for type rabbit_quorum_queue"
    assert answer == (406, f"PRECONDITION_FAILED - {text}")


def test_the_first_argument_that_differs_is_named(channel: BlockingChannel, agreed: Agreed) -> None:
    queue = agreed(max_length=5, delivery_limit=3)
    channel.queue_declare(
        queue,
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-max-length": 5,
            "x-delivery-limit": 3,
            "x-max-priority": 4,
        },
    )
    arguments = {"x-queue-type": "quorum", "x-message-ttl": 5}
    answer = closed_with(lambda: channel.queue_declare(queue, durable=True, arguments=arguments))
    assert answer[0] == 406
    assert "inequivalent arg 'x-max-length'" in answer[1]


def test_no_count_for_a_whole_channel(connect: Connect, agreed: Agreed) -> None:
    queue = agreed()
    channel = connect().channel()
    channel.basic_qos(prefetch_count=5, global_qos=True)
    with pytest.raises(ConnectionClosedByBroker) as closed:
        consume(channel, queue)
    text = f"NOT_IMPLEMENTED - queue '{queue}' in vhost '/' does not support global qos"
    assert (closed.value.reply_code, closed.value.reply_text) == (540, text)


def test_nothing_is_got_beside_a_single_active_consumer(
    channel: BlockingChannel, agreed: Agreed
) -> None:
    queue = agreed(single_active_consumer=True)
    assert closed_with(lambda: channel.basic_get(queue)) == (
        405,
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. basic.get"
        " operations are not supported by quorum queues with single active consumer",
    )


# -- what comes back


def test_what_comes_back_goes_before_the_rest_in_the_order_in_which_it_came(
    channel: BlockingChannel, agreed: Agreed
) -> None:
    """RabbitMQ puts it behind the rest where there is no delivery limit, since 3.10."""
    queue = agreed(delivery_limit=9)
    publish(channel, queue, *numbered(6))
    wait_for_depth(channel, queue, 6)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    given_back(channel, [tags[2], tags[0], tags[3]])
    wait_for_depth(channel, queue, 5)
    assert fetch_all(channel, queue) == [b"2", b"0", b"3", b"4", b"5"]


def test_a_channel_that_ends_gives_back_in_order(
    connection: BlockingConnection, channel: BlockingChannel, agreed: Agreed
) -> None:
    queue = agreed()
    publish(channel, queue, *numbered(4))
    own = connection.channel()
    inbox = consume(own, queue)
    assert [each.redelivered for each in inbox.wait(4)] == [False] * 4
    own.basic_ack(inbox.deliveries[1].tag)
    own.close()
    wait_for_depth(channel, queue, 3)
    assert [fetch(channel, queue) for _ in range(3)] == [(b"0", True), (b"2", True), (b"3", True)]


def test_who_gets_hears_the_count_and_who_consumes_when_it_is_not_0(
    connection: BlockingConnection, channel: BlockingChannel, agreed: Agreed
) -> None:
    queue = agreed()
    publish(channel, queue, b"x")
    method, properties, _ = take(channel, queue)
    assert properties.headers == {"x-delivery-count": 0}
    channel.basic_nack(method.delivery_tag, requeue=True)
    own = connection.channel()
    inbox = consume(own, queue)
    assert inbox.wait(1)[0].properties.headers == {"x-delivery-count": 1}
    own.basic_ack(inbox.deliveries[0].tag)
    publish(channel, queue, b"y")
    assert inbox.wait(2)[1].properties.headers is None


# -- how messages die


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_what_comes_back_too_often_is_a_dead_letter(
    channel: BlockingChannel, agreed: Agreed, graves: dict[str, Any], strategy: str
) -> None:
    queue = agreed(
        delivery_limit=1, overflow="reject-publish", dead_letter_strategy=strategy, **graves
    )
    channel.basic_publish("", queue, b"x", pika.BasicProperties(headers={"mine": 1}))
    for count in range(2):
        method, properties, _ = take(channel, queue)
        assert properties.headers == {"mine": 1, "x-delivery-count": count}
        channel.basic_nack(method.delivery_tag, requeue=True)
    _, properties, body = take(channel, graves["dead_letter_routing_key"])
    assert body == b"x"
    headers = properties.headers
    assert headers["mine"] == 1
    assert headers["x-first-death-reason"] == "delivery_limit"
    assert headers["x-first-death-queue"] == queue
    [death] = headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("delivery_limit", queue, 1)
    assert (death["exchange"], death["routing-keys"]) == ("", [queue])


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_what_is_rejected_is_a_dead_letter(
    channel: BlockingChannel, agreed: Agreed, graves: dict[str, Any], strategy: str
) -> None:
    queue = agreed(overflow="reject-publish", dead_letter_strategy=strategy, **graves)
    publish(channel, queue, *numbered(3))
    wait_for_depth(channel, queue, 3)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_nack(tags[-1], multiple=True, requeue=False)
    dead = graves["dead_letter_routing_key"]
    wait_for_depth(channel, dead, 3)
    found = [channel.basic_get(dead) for _ in range(3)]
    assert [body for _, _, body in found] == numbered(3)
    assert {each.headers["x-death"][0]["reason"] for _, each, _ in found} == {"rejected"}


def test_what_has_expired_is_a_dead_letter(
    channel: BlockingChannel, agreed: Agreed, graves: dict[str, Any]
) -> None:
    queue = agreed(message_ttl=50, **graves)
    channel.basic_publish("", queue, b"x", pika.BasicProperties(expiration="5000"))
    _, properties, _ = take(channel, graves["dead_letter_routing_key"])
    [death] = properties.headers["x-death"]
    assert (death["reason"], death["original-expiration"]) == ("expired", "5000")
    assert properties.expiration is None


def test_a_full_queue_drops_its_head(
    channel: BlockingChannel, agreed: Agreed, graves: dict[str, Any]
) -> None:
    queue = agreed(max_length=2, **graves)
    publish(channel, queue, *numbered(5))
    dead = graves["dead_letter_routing_key"]
    wait_for_depth(channel, dead, 3)
    assert fetch_all(channel, queue) == [b"3", b"4"]
    assert take(channel, dead)[1].headers["x-death"][0]["reason"] == "maxlen"
    assert fetch_all(channel, dead) == [b"1", b"2"]


def test_a_full_queue_may_reject_and_takes_again_when_it_is_emptier(
    channel: BlockingChannel, agreed: Agreed
) -> None:
    queue = agreed(max_length=5, overflow="reject-publish")
    channel.confirm_delivery()

    def is_taken() -> bool:
        try:
            channel.basic_publish("", queue, b"x")
        except NackError:
            return False
        return True

    for _ in range(20):
        if not is_taken():
            break
    else:
        raise AssertionError("it takes whatever comes")
    full = channel.queue_declare(queue, passive=True).method.message_count
    assert full > 5
    for _ in range(full - 4):
        assert fetch(channel, queue, auto_ack=True) is not None
    wait_until(channel.connection, is_taken)


# -- consumers


def test_the_next_single_active_consumer_goes_on(
    connection: BlockingConnection, channel: BlockingChannel, agreed: Agreed
) -> None:
    queue = agreed(single_active_consumer=True)
    first, second = connection.channel(), connection.channel()
    one, other = consume(first, queue), consume(second, queue)
    publish(channel, queue, *numbered(3))
    assert [each.body for each in one.exactly(3)] == numbered(3)
    assert other.bodies == []
    first.close()
    assert [(each.body, each.redelivered) for each in other.wait(3)] == [
        (body, True) for body in numbered(3)
    ]


def test_a_higher_priority_is_served_first(
    connection: BlockingConnection, channel: BlockingChannel, agreed: Agreed
) -> None:
    queue = agreed()
    own = connection.channel()
    own.basic_qos(prefetch_count=2)
    low = consume(own, queue)
    high = consume(own, queue, arguments={"x-priority": 5})
    publish(channel, queue, *numbered(4))
    high.wait(2)
    low.wait(2)
    assert high.bodies == [b"0", b"1"]
    assert low.bodies == [b"2", b"3"]


def test_a_purge_leaves_what_is_out(channel: BlockingChannel, agreed: Agreed) -> None:
    queue = agreed()
    publish(channel, queue, *numbered(4))
    wait_for_depth(channel, queue, 4)
    tag = channel.basic_get(queue)[0].delivery_tag
    assert channel.queue_purge(queue).method.message_count == 3
    channel.basic_nack(tag, requeue=True)
    wait_for_depth(channel, queue, 1)
    assert fetch_all(channel, queue) == [b"0"]


def test_transactions_reach_it(channel: BlockingChannel, agreed: Agreed) -> None:
    queue = agreed()
    channel.tx_select()
    publish(channel, queue, b"a", b"b")
    channel.tx_commit()
    publish(channel, queue, b"c")
    channel.tx_rollback()
    assert fetch_all(channel, queue) == [b"a", b"b"]
