"""pika: connections and channels from opening to closing, and what a refused log-in looks like."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import (
    AMQPConnectionError,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)
from pika_client import Connect, closed_with, consume, parameters, publish, wait_until

from support.broker import Target


def tuned(connection: BlockingConnection) -> Any:
    return connection._impl.params


def test_opens_and_closes(connect: Connect) -> None:
    connection = connect()
    assert connection.is_open
    connection.close()
    assert connection.is_closed


def test_tells_who_it_is_and_what_it_can(connect: Connect) -> None:
    properties = connect()._impl.server_properties
    assert properties["product"]
    assert properties["version"]
    for capability in (
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
    ):
        assert properties["capabilities"][capability] is True


def test_offers_rabbitmqs_limits(connect: Connect) -> None:
    impl = connect(heartbeat=None)._impl
    assert impl.params.frame_max == 131072
    assert impl.params.channel_max == 2047
    assert impl.params.heartbeat == 60


@pytest.mark.parametrize("frame_max", [4096, 8192, 131072])
def test_keeps_to_a_smaller_frame_max(connect: Connect, frame_max: int, name: str) -> None:
    channel = connect(frame_max=frame_max).channel()
    channel.queue_declare(name, exclusive=True)
    body = bytes(range(256)) * 1200
    publish(channel, name, body)
    inbox = consume(channel, name, auto_ack=True)
    assert inbox.wait(1)[0].body == body


def test_channel_max_limits_channels(connect: Connect) -> None:
    connection = connect(channel_max=3)
    numbers = [connection.channel().channel_number for _ in range(3)]
    assert numbers == [1, 2, 3]


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("nobody", "guest")])
def test_refuses_a_wrong_log_in(connect: Connect, user: str, password: str) -> None:
    with pytest.raises(ProbableAuthenticationError) as caught:
        connect(credentials=pika.PlainCredentials(user, password))
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN" in repr(
        caught.value
    )


def test_refuses_an_unknown_virtual_host(connect: Connect) -> None:
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as caught:
        connect(virtual_host="nosuch")
    assert "NOT_ALLOWED - vhost nosuch not found" in repr(caught.value)


def test_client_properties_may_hold_anything(connect: Connect) -> None:
    nested = {"a": {"b": [1, "two", {"c": True}]}, "connection_name": "näme"}
    assert connect(client_properties=nested).is_open


def test_heartbeats_keep_an_idle_connection(connect: Connect) -> None:
    connection = connect(heartbeat=2)
    assert tuned(connection).heartbeat == 2
    connection.sleep(6)
    connection.channel()


def test_many_channels_on_one_connection(connection: BlockingConnection, name: str) -> None:
    channels = [connection.channel() for _ in range(200)]
    assert [channel.channel_number for channel in channels] == list(range(1, 201))
    channels[0].queue_declare(name, exclusive=True)
    for number, channel in enumerate(channels):
        channel.basic_publish("", name, b"%d" % number)
    inbox = consume(channels[99], name, auto_ack=True)
    assert sorted(map(int, (d.body for d in inbox.exactly(200)))) == list(range(200))


def test_a_channel_number_can_be_used_again(connection: BlockingConnection) -> None:
    for _ in range(5):
        channel = connection.channel(7)
        assert channel.channel_number == 7
        channel.close()


def test_a_channel_error_leaves_other_channels_alone(
    connection: BlockingConnection, queue: str
) -> None:
    broken, other = connection.channel(), connection.channel()
    code, text = closed_with(lambda: broken.queue_declare(f"{queue}-missing", passive=True))
    assert (code, text) == (404, f"NOT_FOUND - no queue '{queue}-missing' in vhost '/'")
    assert broken.is_closed
    publish(other, queue, b"still here")
    assert other.basic_get(queue, auto_ack=True)[2] == b"still here"
    assert connection.channel(broken.channel_number).is_open


def test_a_connection_error_closes_all_channels(connection: BlockingConnection, name: str) -> None:
    channels = [connection.channel() for _ in range(3)]
    with pytest.raises(ConnectionClosedByBroker) as caught:
        channels[1].exchange_declare(name, "nosuch")
    assert caught.value.reply_code == 503
    assert caught.value.reply_text == "COMMAND_INVALID - unknown exchange type 'nosuch'"
    assert all(channel.is_closed for channel in channels)


def test_unacknowledged_messages_come_back_when_a_channel_closes(
    connection: BlockingConnection, queue: str
) -> None:
    first, second = connection.channel(), connection.channel()
    publish(second, queue, b"1", b"2")
    consume(first, queue).wait(2)
    first.close()
    inbox = consume(second, queue, auto_ack=True)
    assert [(d.body, d.redelivered) for d in inbox.exactly(2)] == [(b"1", True), (b"2", True)]


def test_unacknowledged_messages_come_back_when_a_connection_breaks(
    connect: Connect, shared_queue: str
) -> None:
    broken, whole = connect(), connect()
    other = whole.channel()
    publish(other, shared_queue, b"1", b"2", b"3")
    consume(broken.channel(), shared_queue).wait(3)
    broken._impl._transport._sock.shutdown(2)
    inbox = consume(other, shared_queue, auto_ack=True)
    assert [(d.body, d.redelivered) for d in inbox.exactly(3)] == [
        (b"1", True),
        (b"2", True),
        (b"3", True),
    ]
    with pytest.raises(AMQPConnectionError):
        wait_until(broken, lambda: broken.is_closed)


def test_flow_on_is_answered(connection: BlockingConnection) -> None:
    assert connection.channel().flow(True) is True


def test_flow_off_is_not_implemented(connection: BlockingConnection) -> None:
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.channel().flow(False)
    assert caught.value.reply_code == 540


def test_closing_a_channel_twice_is_the_clients_business_only(
    connection: BlockingConnection,
) -> None:
    channel = connection.channel()
    channel.close()
    with pytest.raises(pika.exceptions.ChannelWrongStateError):
        channel.close()
    assert connection.is_open


def test_a_hundred_connections_come_and_go(target: Target) -> None:
    opened = [pika.BlockingConnection(parameters(target)) for _ in range(100)]
    assert all(connection.channel().is_open for connection in opened)
    for connection in opened:
        connection.close()


def test_update_secret_is_accepted(connection: BlockingConnection) -> None:
    connection.update_secret("guest", "rotation")
    assert connection.channel().is_open


def test_publishing_on_to_a_missing_exchange_fails_once(
    connection: BlockingConnection, name: str
) -> None:
    """What was sent behind the failing method is dropped until close-ok."""
    channel = connection.channel()

    def publish_on() -> None:
        for number in range(100):
            channel.basic_publish(f"{name}-missing", "k", b"%d" % number)
        channel.queue_declare(name, exclusive=True)

    assert closed_with(publish_on)[0] == 404
    assert connection.channel().is_open
