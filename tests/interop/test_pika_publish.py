"""pika: publishing: what arrives is what was sent; returns; confirms."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ConnectionClosedByBroker, NackError, UnroutableError
from pika_client import (
    Connect,
    closed_with,
    consume,
    depth,
    fetch_all,
    numbered,
    publish,
    wait_until,
)

FOUR_MIB = 4 * 1024 * 1024

ALL_PROPERTIES = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"k": "v"},
    "delivery_mode": 2,
    "priority": 5,
    "correlation_id": "correlation",
    "reply_to": "reply",
    "expiration": "60000",
    "message_id": "message",
    "timestamp": 1_700_000_000,
    "type": "type",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "cluster",
}

ALL_FIELDS = {
    "bool": True,
    "no": False,
    "int": -5,
    "big": 2**40,
    "negative": -(2**40),
    "text": "tëxt",
    "empty": "",
    "bytes": b"\x00\xff",
    "none": None,
    "decimal": Decimal("3.14"),
    "time": datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC),
    "list": [1, "two", [3, {"four": 4}], None, True],
    "table": {"inner": {"deeper": {"deepest": [1, 2, 3]}}, "": "empty key"},
}


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 131064, 131065, 300_000, FOUR_MIB])
def test_bodies_of_any_size_arrive_whole(
    channel: BlockingChannel, connection: BlockingConnection, queue: str, size: int
) -> None:
    """131072 is the frame size: a body frame holds 8 bytes less."""
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    publish(connection.channel(), queue, body, b"next", body)
    inbox = consume(channel, queue, auto_ack=True)
    assert [delivery.body == body for delivery in inbox.exactly(3)] == [True, size == 4, True]
    publish(channel, queue, body)
    wait_until(connection, lambda: len(inbox.deliveries) == 4)


@pytest.mark.parametrize(("sender", "receiver"), [(4096, 131072), (131072, 4096)])
def test_bodies_are_cut_anew_for_a_client_with_other_frames(
    connect: Connect, shared_queue: str, sender: int, receiver: int
) -> None:
    body = bytes(range(256)) * 4000
    publish(connect(frame_max=sender).channel(), shared_queue, body)
    inbox = consume(connect(frame_max=receiver).channel(), shared_queue, auto_ack=True)
    assert inbox.exactly(1)[0].body == body


@pytest.mark.parametrize("how", ["consume", "get", "return"])
def test_all_properties_arrive(channel: BlockingChannel, queue: str, how: str) -> None:
    sent = pika.BasicProperties(**ALL_PROPERTIES)
    got = round_trip(channel, queue, sent, how)
    assert {key: getattr(got, key) for key in ALL_PROPERTIES} == ALL_PROPERTIES


@pytest.mark.parametrize("how", ["consume", "get", "return"])
def test_headers_of_all_types_arrive(channel: BlockingChannel, queue: str, how: str) -> None:
    got = round_trip(channel, queue, pika.BasicProperties(headers=ALL_FIELDS), how)
    expected = ALL_FIELDS | {"time": ALL_FIELDS["time"].replace(tzinfo=None)}  # type: ignore[attr-defined]
    received = dict(got.headers)
    if received["time"].tzinfo is not None:
        expected["time"] = ALL_FIELDS["time"]
    assert received == expected
    assert received["bool"] is True


def round_trip(
    channel: BlockingChannel, queue: str, properties: pika.BasicProperties, how: str
) -> pika.BasicProperties:
    """The properties as they come back from the broker."""
    if how == "return":
        returned: list[pika.BasicProperties] = []
        channel.add_on_return_callback(lambda _c, _m, given, _b: returned.append(given))
        channel.basic_publish("", f"{queue}?", b"x", properties, mandatory=True)
        wait_until(channel.connection, lambda: returned)
        return returned[0]
    channel.basic_publish("", queue, b"x", properties)
    if how == "get":
        return channel.basic_get(queue, auto_ack=True)[1]
    return consume(channel, queue, auto_ack=True).wait(1)[0].properties


def test_a_message_without_properties_stays_so(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"x")
    got = channel.basic_get(queue, auto_ack=True)[1]
    assert {key: getattr(got, key) for key in ALL_PROPERTIES} == dict.fromkeys(ALL_PROPERTIES)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"delivery_mode": 9}, "invalid message: {delivery_mode_unknown,9}"),
        ({"expiration": "abc"}, "invalid expiration 'abc': no_integer"),
        ({"expiration": "-1"}, "invalid expiration '-1': {value_negative,-1}"),
        ({"user_id": "x"}, "user_id property set to 'x' but authenticated user was 'guest'"),
    ],
)
def test_properties_that_are_refused(
    channel: BlockingChannel, queue: str, properties: dict[str, Any], text: str
) -> None:
    channel.confirm_delivery()
    sent = pika.BasicProperties(**properties)
    assert closed_with(lambda: channel.basic_publish("", queue, b"x", sent)) == (
        406,
        f"PRECONDITION_FAILED - {text}",
    )


def test_a_thousand_messages_keep_their_order(
    channel: BlockingChannel, connection: BlockingConnection, queue: str
) -> None:
    """Publisher and consumer share the connection."""
    inbox = consume(connection.channel(), queue, auto_ack=True)
    publish(channel, queue, *numbered(1000))
    inbox.exactly(1000)
    assert inbox.bodies == numbered(1000)


def test_publishers_do_not_mix_up_their_contents(connect: Connect, shared_queue: str) -> None:
    channels = [connect(frame_max=4096).channel() for _ in range(4)]
    inbox = consume(channels[0], shared_queue, auto_ack=True)
    bodies = [bytes([65 + number]) * 20_000 for number in range(len(channels))]
    for _ in range(5):
        for channel, body in zip(channels, bodies, strict=True):
            publish(channel, shared_queue, body)
    inbox.exactly(20)
    assert sorted(inbox.bodies) == sorted(bodies * 5)


def test_channels_of_one_connection_do_not_mix_up_their_contents(
    connect: Connect, name: str
) -> None:
    connection = connect(frame_max=4096)
    channels = [connection.channel() for _ in range(8)]
    channels[0].queue_declare(name, exclusive=True)
    inbox = consume(channels[0], name, auto_ack=True)
    bodies = [bytes([65 + number]) * 20_000 for number in range(len(channels))]
    for _ in range(5):
        for channel, body in zip(channels, bodies, strict=True):
            publish(channel, name, body)
    inbox.exactly(40)
    assert sorted(inbox.bodies) == sorted(bodies * 5)


def test_mandatory_and_unroutable_comes_back(channel: BlockingChannel, name: str) -> None:
    returned: list[tuple[int, str, str, str, bytes]] = []
    channel.add_on_return_callback(
        lambda _c, m, _p, body: returned.append(
            (m.reply_code, m.reply_text, m.exchange, m.routing_key, body)
        )
    )
    channel.basic_publish("amq.direct", name, b"a" * 200_000, mandatory=True)
    channel.basic_publish("amq.direct", name, b"not mandatory")
    channel.basic_publish("", name, b"", mandatory=True)
    wait_until(channel.connection, lambda: len(returned) == 2)
    assert returned == [
        (312, "NO_ROUTE", "amq.direct", name, b"a" * 200_000),
        (312, "NO_ROUTE", "", name, b""),
    ]


def test_mandatory_and_routed_does_not_come_back(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x", mandatory=True)
    assert fetch_all(channel, queue) == [b"x"]


def test_immediate_is_not_implemented(connection: BlockingConnection, queue: str) -> None:
    impl = connection.channel()._impl
    impl._send_method(
        pika.spec.Basic.Publish(exchange="", routing_key=queue, immediate=True),
        (pika.BasicProperties(), b"x"),
    )
    with pytest.raises(ConnectionClosedByBroker) as caught:
        wait_until(connection, lambda: connection.is_closed)
    assert caught.value.reply_code == 540
    assert caught.value.reply_text == "NOT_IMPLEMENTED - immediate=true"


def test_confirms_mean_the_message_is_there(
    connect: Connect, channel: BlockingChannel, queue: str
) -> None:
    publisher = connect().channel()
    publisher.confirm_delivery()
    for number in range(50):
        publish(publisher, queue, b"%d" % number)
        assert depth(channel, queue) == number + 1


def test_confirms_of_the_unroutable(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", name, b"dropped, and confirmed")
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", name, b"returned", mandatory=True)
    assert [message.body for message in caught.value.messages] == [b"returned"]


def test_a_message_for_several_queues_is_confirmed_once(
    channel: BlockingChannel, connection: BlockingConnection, name: str
) -> None:
    channel.exchange_declare(name, "fanout", auto_delete=True)
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(5)]
    for queue in queues:
        channel.queue_bind(queue, name)
    confirmed: list[int] = []
    confirm_with(connection, confirmed)(name, "", 100)
    wait_until(connection, lambda: len(confirmed) >= 100)
    assert sorted(confirmed) == list(range(1, 101))
    assert [depth(channel, queue) for queue in queues] == [100] * 5


def test_ten_thousand_confirms_each_once(
    channel: BlockingChannel, connection: BlockingConnection, queue: str
) -> None:
    confirmed: list[int] = []
    confirm_with(connection, confirmed)("", queue, 10_000)
    wait_until(connection, lambda: len(confirmed) >= 10_000)
    assert sorted(confirmed) == list(range(1, 10_001))
    assert depth(channel, queue) == 10_000


def confirm_with(
    connection: BlockingConnection, confirmed: list[int]
) -> Callable[[str, str, int], None]:
    """A publisher on its own channel that writes down every number confirmed.

    pika's blocking channel waits for each confirm; so this uses the channel below it.
    """
    impl = connection.channel()._impl
    outstanding = [1]

    def on_confirm(frame: Any) -> None:
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        tag = frame.method.delivery_tag
        first = outstanding[0] if frame.method.multiple else tag
        confirmed.extend(n for n in range(first, tag + 1) if n not in seen)
        seen.update(range(first, tag + 1))
        while outstanding[0] in seen:
            outstanding[0] += 1

    seen: set[int] = set()
    selected: list[object] = []
    impl.confirm_delivery(on_confirm, callback=selected.append)
    wait_until(connection, lambda: selected)

    def send(exchange: str, key: str, count: int) -> None:
        for _ in range(count):
            impl.basic_publish(exchange, key, b"x" * 100)

    return send


def test_a_second_confirm_select_changes_nothing(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel._impl._send_method(pika.spec.Confirm.Select(nowait=True))
    try:
        publish(channel, queue, b"1", b"2")
    except NackError:
        pytest.fail("a confirm was negative")
    assert depth(channel, queue) == 2


def test_persistent_messages_in_durable_queues_are_confirmed(
    channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    for body in numbered(20):
        channel.basic_publish("", name, body, persistent)
    assert fetch_all(channel, name) == numbered(20)
    channel.queue_delete(name)
