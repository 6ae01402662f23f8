"""pika: messages that are rejected, expire or do not fit go to the dead-letter exchange."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError
from pika_client import Declare, Delivery, consume, fetch, publish, settle, wait_for_depth

Exchange = Callable[..., str]
Header = dict[str, Any]


@pytest.fixture
def graveyard(channel: BlockingChannel, declare: Declare, exchange: Exchange) -> tuple[str, str]:
    """An exchange, and a queue that gets all it is given."""
    dlx, queue = exchange("topic"), declare("-dead")
    channel.queue_bind(queue, dlx, "#")
    return dlx, queue


def buried(channel: BlockingChannel, queue: str, count: int = 1) -> list[Delivery]:
    """What has come, when it is so many."""
    return consume(channel, queue, acks=True).exactly(count)


def headers_of(delivery: Delivery) -> Header:
    headers: Header = delivery.properties.headers
    return headers


def deaths(delivery: Delivery) -> list[Header]:
    found: list[Header] = headers_of(delivery)["x-death"]
    return found


def reject(channel: BlockingChannel, queue: str) -> None:
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)


def test_a_rejected_message(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str]
) -> None:
    dlx, dead = graveyard
    queue = declare(dead_letter_exchange=dlx)
    before = int(time.time())
    properties = pika.BasicProperties(
        content_type="text/plain", message_id="7", headers={"z": 1, "a": [True, None]}
    )
    channel.basic_publish("", queue, b"body", properties)
    reject(channel, queue)
    (found,) = buried(channel, dead)
    assert found.body == b"body"
    assert not found.redelivered
    assert found.properties.content_type == "text/plain"
    assert found.properties.message_id == "7"
    (death,) = deaths(found)
    assert isinstance(death["time"], datetime)
    assert before <= death.pop("time").replace(tzinfo=UTC).timestamp() <= time.time()
    assert death == {
        "count": 1,
        "reason": "rejected",
        "queue": queue,
        "exchange": "",
        "routing-keys": [queue],
    }
    others = {key: value for key, value in headers_of(found).items() if key != "x-death"}
    assert others == {
        "z": 1,
        "a": [True, None],
        "x-first-death-reason": "rejected",
        "x-first-death-queue": queue,
        "x-first-death-exchange": "",
    }


@pytest.mark.parametrize("method", ["basic_reject", "basic_nack"])
def test_with_requeue_nothing_dies(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str], method: str
) -> None:
    queue = declare(dead_letter_exchange=graveyard[0])
    publish(channel, queue, b"1")
    got, _, _ = channel.basic_get(queue)
    getattr(channel, method)(got.delivery_tag, requeue=True)
    settle(channel.connection)
    assert fetch(channel, graveyard[1]) is None
    assert fetch(channel, queue) == (b"1", True)


def test_an_expired_message_lives_on_for_ever(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str]
) -> None:
    dlx, dead = graveyard
    queue = declare(dead_letter_exchange=dlx)
    channel.basic_publish("", queue, b"1", pika.BasicProperties(expiration="20"))
    (found,) = buried(channel, dead)
    assert found.properties.expiration is None
    assert deaths(found)[0]["reason"] == "expired"
    assert deaths(found)[0]["original-expiration"] == "20"


def test_what_does_not_fit(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str]
) -> None:
    dlx, dead = graveyard
    queue = declare(dead_letter_exchange=dlx, max_length=2)
    publish(channel, queue, b"1", b"2", b"3", b"4")
    found = buried(channel, dead, 2)
    assert [each.body for each in found] == [b"1", b"2"]
    assert {deaths(each)[0]["reason"] for each in found} == {"maxlen"}


def test_what_is_refused_may_be_a_dead_letter_besides(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str]
) -> None:
    dlx, dead = graveyard
    queue = declare(dead_letter_exchange=dlx, max_length=1, overflow="reject-publish-dlx")
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"1")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"2")
    (found,) = buried(channel, dead)
    assert found.body == b"2"
    assert deaths(found)[0]["reason"] == "maxlen"


def test_another_routing_key(
    channel: BlockingChannel, declare: Declare, exchange: Exchange
) -> None:
    dlx = exchange("direct")
    dead, wrong = declare("-dead"), declare("-wrong")
    queue = declare(dead_letter_exchange=dlx, dead_letter_routing_key="other")
    channel.queue_bind(dead, dlx, "other")
    channel.queue_bind(wrong, dlx, queue)
    channel.queue_bind(wrong, dlx, "copy")
    channel.basic_publish("", queue, b"1", pika.BasicProperties(headers={"CC": ["copy"]}))
    reject(channel, queue)
    (found,) = buried(channel, dead)
    assert "CC" not in headers_of(found)
    assert deaths(found)[0]["routing-keys"] == [queue, "copy"]
    assert fetch(channel, wrong) is None


def test_copies_are_routed_again(
    channel: BlockingChannel, declare: Declare, exchange: Exchange
) -> None:
    dlx = exchange("direct")
    dead = declare("-dead")
    queue = declare(dead_letter_exchange=dlx)
    channel.queue_bind(dead, dlx, "copy")
    channel.basic_publish("", queue, b"1", pika.BasicProperties(headers={"CC": ["copy"]}))
    reject(channel, queue)
    (found,) = buried(channel, dead)
    assert headers_of(found)["CC"] == ["copy"]


def test_every_queue_bound_gets_it(
    channel: BlockingChannel, declare: Declare, exchange: Exchange
) -> None:
    dlx = exchange("fanout")
    queue = declare(dead_letter_exchange=dlx)
    some = [declare(f"-{number}") for number in range(3)]
    for each in some:
        channel.queue_bind(each, dlx)
    publish(channel, queue, b"1")
    reject(channel, queue)
    for each in some:
        assert buried(channel, each)[0].body == b"1"


def test_many_at_once_keep_their_order(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str]
) -> None:
    dlx, dead = graveyard
    queue = declare(dead_letter_exchange=dlx)
    bodies = [b"%d" % number for number in range(3000)]
    publish(channel, queue, *bodies)
    inbox = consume(channel, queue)
    inbox.wait(3000)
    channel.basic_nack(0, multiple=True, requeue=False)
    assert [each.body for each in buried(channel, dead, 3000)] == bodies


def test_no_such_exchange(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(dead_letter_exchange="missing", message_ttl=20)
    publish(channel, queue, b"1")
    wait_for_depth(channel, queue, 0)
    publish(channel, queue, b"2")
    settle(channel.connection)
    assert fetch(channel, queue) is None


def test_an_exchange_that_is_declared_later(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str], name: str
) -> None:
    queue = declare(dead_letter_exchange=name + "-later")
    publish(channel, queue, b"1", b"2")
    reject(channel, queue)
    settle(channel.connection)
    channel.exchange_declare(name + "-later", "fanout", auto_delete=True)
    channel.queue_bind(graveyard[1], name + "-later")
    reject(channel, queue)
    assert [each.body for each in buried(channel, graveyard[1])] == [b"2"]


def test_each_death_is_written_down(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str]
) -> None:
    dlx, dead = graveyard
    second = declare("-b", dead_letter_exchange=dlx, message_ttl=30)
    first = declare("-a", dead_letter_exchange="", dead_letter_routing_key=second)
    publish(channel, first, b"1")
    reject(channel, first)
    (found,) = buried(channel, dead)
    assert [(each["queue"], each["reason"]) for each in deaths(found)] == [
        (second, "expired"),
        (first, "rejected"),
    ]
    assert headers_of(found)["x-first-death-queue"] == first


def test_the_same_death_is_counted(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(dead_letter_exchange="")
    publish(channel, queue, b"1")
    for _ in range(3):
        wait_for_depth(channel, queue, 1)
        reject(channel, queue)
    (found,) = buried(channel, queue)
    (death,) = deaths(found)
    assert death["count"] == 3


def test_a_message_does_not_go_round_by_itself(channel: BlockingChannel, declare: Declare) -> None:
    queue = declare(dead_letter_exchange="", message_ttl=20)
    publish(channel, queue, b"1")
    settle(channel.connection)
    assert fetch(channel, queue) is None


def test_it_does_when_somebody_rejects_it_on_the_way(
    channel: BlockingChannel, declare: Declare, name: str
) -> None:
    """The usual way to try again later: rejected, waits in a queue of its own, comes back."""
    waiting = declare(
        "-wait", dead_letter_exchange="", dead_letter_routing_key=name, message_ttl=30
    )
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=waiting)
    publish(channel, queue, b"1")
    for _ in range(3):
        wait_for_depth(channel, queue, 1)
        reject(channel, queue)
    (found,) = buried(channel, queue)
    assert {(each["queue"], each["count"]) for each in deaths(found)} == {
        (queue, 3),
        (waiting, 3),
    }


@pytest.mark.parametrize("mode", [1, 2])
def test_what_dies_before_it_was_written(
    channel: BlockingChannel, graveyard: tuple[str, str], name: str, mode: int
) -> None:
    queue = name + "-durable"
    arguments = {"x-dead-letter-exchange": graveyard[0], "x-message-ttl": 0}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.confirm_delivery()
    bodies = [b"%d" % number + bytes(5000 * (number % 2)) for number in range(20)]
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=mode))
    assert [each.body for each in buried(channel, graveyard[1], 20)] == bodies
    channel.queue_delete(queue)


def test_purging_and_deleting_bury_nothing(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str]
) -> None:
    queue = declare(dead_letter_exchange=graveyard[0])
    publish(channel, queue, b"1", b"2")
    channel.queue_purge(queue)
    publish(channel, queue, b"3")
    channel.queue_delete(queue)
    settle(channel.connection)
    assert fetch(channel, graveyard[1]) is None


def test_old_deaths_of_one_queue_and_reason_are_one(
    channel: BlockingChannel, declare: Declare, graveyard: tuple[str, str]
) -> None:
    """As brokers wrote them before there were counts: one for each time."""
    dlx, dead = graveyard
    queue = declare(dead_letter_exchange=dlx)
    first, second = ({"queue": "a", "reason": reason} for reason in ("expired", "rejected"))
    old = [first] * 4 + [second] * 2
    channel.basic_publish("", queue, b"1", pika.BasicProperties(headers={"x-death": old}))
    reject(channel, queue)
    (found,) = buried(channel, dead)
    told = [(death["queue"], death["reason"], death["count"]) for death in deaths(found)]
    assert told == [(queue, "rejected", 1), ("a", "expired", 4), ("a", "rejected", 2)]
