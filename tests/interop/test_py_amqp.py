"""py-amqp, the client under kombu and Celery: publish, consume, drain_events, errors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import amqp
import pytest

from support.broker import Target

PATIENCE_SECONDS = 240.0


def open_connection(target: Target, **options: Any) -> amqp.Connection:
    options.setdefault("userid", target.user)
    options.setdefault("password", target.password)
    connection = amqp.Connection(
        host=f"{target.host}:{target.port}", connect_timeout=PATIENCE_SECONDS, **options
    )
    connection.connect()
    return connection


@pytest.fixture
def py_connection(target: Target) -> Iterator[amqp.Connection]:
    with open_connection(target) as connection:
        yield connection


@pytest.fixture
def py_channel(py_connection: amqp.Connection) -> amqp.Channel:
    return py_connection.channel()


@pytest.fixture
def py_queue(py_channel: amqp.Channel) -> str:
    declared: str = py_channel.queue_declare(exclusive=True).queue
    return declared


@pytest.mark.parametrize("method", ["PLAIN", "AMQPLAIN"])
def test_logs_in_with_both_mechanisms(target: Target, method: str) -> None:
    with open_connection(target, login_method=method) as connection:
        assert connection.connected
        assert {"PLAIN", "AMQPLAIN"} <= {m.decode() for m in connection.mechanisms}


@pytest.mark.parametrize("method", ["PLAIN", "AMQPLAIN"])
def test_a_wrong_password_is_refused(target: Target, method: str) -> None:
    with pytest.raises((amqp.exceptions.AccessRefused, OSError)):
        open_connection(target, password="wrong", login_method=method)


def test_publishes_and_consumes(
    py_connection: amqp.Connection, py_channel: amqp.Channel, py_queue: str
) -> None:
    taken: list[str] = []

    def take(message: amqp.Message) -> None:
        taken.append(message.body)
        py_channel.basic_ack(message.delivery_tag)

    py_channel.basic_qos(0, 7, False)
    py_channel.basic_consume(py_queue, callback=take)
    for number in range(50):
        py_channel.basic_publish(amqp.Message(str(number)), routing_key=py_queue)
    while len(taken) < 50:
        py_connection.drain_events(timeout=PATIENCE_SECONDS)
    assert taken == [str(number) for number in range(50)]


def test_drain_events_times_out_when_nothing_comes(
    py_connection: amqp.Connection, py_channel: amqp.Channel, py_queue: str
) -> None:
    py_channel.basic_consume(py_queue, callback=lambda _: None)
    with pytest.raises(TimeoutError):
        py_connection.drain_events(timeout=0.2)


def test_properties_and_headers_arrive(py_channel: amqp.Channel, py_queue: str) -> None:
    headers = {
        "int": 7,
        "long": 2**40,
        "float": 1.5,
        "text": "tëxt",
        "list": [1, "two", {"three": 3}],
        "table": {"inner": {"x": None}},
        "bool": True,
        "decimal": Decimal("1.25"),
        "time": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
    }
    properties = {
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "delivery_mode": 2,
        "priority": 4,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "k",
    }
    py_channel.basic_publish(
        amqp.Message('{"a": 1}', application_headers=headers, **properties), routing_key=py_queue
    )
    got = py_channel.basic_get(py_queue, no_ack=True)
    assert got.body == '{"a": 1}'
    received = dict(got.properties)
    received_headers = received.pop("application_headers")
    received_headers["time"] = received_headers["time"].replace(tzinfo=UTC)
    assert received == properties
    assert received_headers == headers


def test_confirms_with_a_wait(target: Target) -> None:
    with open_connection(target, confirm_publish=True) as connection:
        channel = connection.channel()
        queue = channel.queue_declare(exclusive=True).queue
        for number in range(20):
            channel.basic_publish(amqp.Message(str(number)), routing_key=queue)
            assert channel.queue_declare(queue, passive=True).message_count == number + 1


def test_returns_the_unroutable(
    py_connection: amqp.Connection, py_channel: amqp.Channel, name: str
) -> None:
    returned: list[Any] = []
    py_channel.events["basic_return"].add(lambda *args: returned.append(args))
    py_channel.basic_publish(amqp.Message("x"), routing_key=name, mandatory=True)
    while not returned:
        py_connection.drain_events(timeout=PATIENCE_SECONDS)
    ((exception, exchange, key, message),) = returned
    assert exception.reply_code == 312
    assert (exchange, key, message.body) == ("", name, "x")


def test_reject_requeues_and_recover_redelivers(py_channel: amqp.Channel, py_queue: str) -> None:
    for body in ("1", "2", "3"):
        py_channel.basic_publish(amqp.Message(body), routing_key=py_queue)
    first = py_channel.basic_get(py_queue)
    second = py_channel.basic_get(py_queue)
    py_channel.basic_reject(second.delivery_tag, requeue=True)
    py_channel.basic_recover(requeue=True)
    got = [py_channel.basic_get(py_queue) for _ in range(3)]
    assert [(m.body, m.delivery_info["redelivered"]) for m in got] == [
        (first.body, True),
        ("2", True),
        ("3", False),
    ]


def test_exchanges_bindings_and_purge(py_channel: amqp.Channel, py_queue: str, name: str) -> None:
    py_channel.exchange_declare(name, "topic", auto_delete=True)
    py_channel.queue_bind(py_queue, name, "a.#")
    for key in ("a.b", "b.a", "a"):
        py_channel.basic_publish(amqp.Message(key), exchange=name, routing_key=key)
    assert py_channel.queue_purge(py_queue) == 2
    py_channel.queue_unbind(py_queue, name, "a.#")
    with pytest.raises(amqp.exceptions.NotFound):
        py_channel.exchange_declare(name, "topic", passive=True)


def test_channel_errors_leave_the_connection_usable(
    py_connection: amqp.Connection, py_channel: amqp.Channel, name: str
) -> None:
    with pytest.raises(amqp.exceptions.NotFound) as caught:
        py_channel.queue_declare(name, passive=True)
    assert caught.value.reply_code == 404
    assert py_connection.channel().queue_declare(exclusive=True).queue


def test_preconditions(py_channel: amqp.Channel, name: str) -> None:
    py_channel.queue_declare(name, exclusive=True)
    with pytest.raises(amqp.exceptions.PreconditionFailed):
        py_channel.queue_declare(name, exclusive=True, arguments={"x-max-length": 5})


def test_an_exclusive_queue_is_locked(target: Target, py_queue: str) -> None:
    with open_connection(target) as other, pytest.raises(amqp.exceptions.ResourceLocked):
        other.channel().queue_declare(py_queue, passive=True)


def test_cancel_from_the_broker(
    py_connection: amqp.Connection, py_channel: amqp.Channel, py_queue: str
) -> None:
    cancelled: list[str] = []
    tag = py_channel.basic_consume(py_queue, callback=lambda _: None, on_cancel=cancelled.append)
    py_connection.channel().queue_delete(py_queue)
    while not cancelled:
        py_connection.drain_events(timeout=PATIENCE_SECONDS)
    assert cancelled == [tag if isinstance(tag, str) else tag.consumer_tag]


def test_heartbeats_keep_the_connection(target: Target) -> None:
    with open_connection(target, heartbeat=2) as connection:
        assert connection.heartbeat == 2
        for _ in range(14):
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.4)
            connection.heartbeat_tick(2)
        assert connection.channel().queue_declare(exclusive=True).queue


def test_a_quorum_queue_takes_gives_and_takes_back(py_channel: amqp.Channel, name: str) -> None:
    py_channel.confirm_select()
    quorum = {"x-queue-type": "quorum", "x-delivery-limit": 3}
    py_channel.queue_declare(name, durable=True, auto_delete=False, arguments=quorum)
    try:
        for body in ("a", "b"):
            py_channel.basic_publish_confirm(amqp.Message(body), routing_key=name)
        message = py_channel.basic_get(name)
        assert (message.body, message.headers) == ("a", {"x-delivery-count": 0})
        py_channel.basic_reject(message.delivery_tag, requeue=True)
        message = py_channel.basic_get(name)
        assert (message.body, message.headers) == ("a", {"x-delivery-count": 1})
        py_channel.basic_ack(message.delivery_tag)
        assert py_channel.queue_purge(name) == 1
    finally:
        py_channel.queue_delete(name)
