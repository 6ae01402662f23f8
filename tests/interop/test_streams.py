"""Streams, by pika and aio-pika: where a consumer begins, what it gets, what is refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import AMQPError, ChannelClosedByBroker, ConnectionClosedByBroker
from pika_client import (
    PATIENCE_SECONDS,
    Connect,
    closed_with,
    numbered,
    settle,
    wait_until,
)

from support.broker import Ctl, Target

STREAM = {"x-queue-type": "stream"}
OFFSET = "x-stream-offset"


@pytest.fixture
def stream(connect: Connect, name: str) -> Iterator[str]:
    owner = connect().channel()
    owner.queue_declare(name, durable=True, arguments=STREAM)
    yield name
    connect().channel().queue_delete(name)


def fill(channel: BlockingChannel, stream: str, count: int, start: int = 0) -> None:
    """Confirmed one by one: each is a chunk of its own."""
    channel.confirm_delivery()
    for body in numbered(count, start=start):
        channel.basic_publish("", stream, body)


class Reader:
    """A consumer of a stream on a channel of its own."""

    def __init__(
        self,
        connection: BlockingConnection,
        stream: str,
        offset: object = "first",
        prefetch: int = 100,
        acks: bool = False,
    ) -> None:
        self.connection = connection
        self.channel = connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.got: list[tuple[int, bytes]] = []
        self.properties: list[pika.BasicProperties] = []
        self.redelivered = False

        def take(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
            self.got.append((properties.headers[OFFSET], body))
            self.properties.append(properties)
            self.redelivered |= method.redelivered
            if acks:
                channel.basic_ack(method.delivery_tag)

        arguments = {} if offset is None else {OFFSET: offset}
        self.tag = self.channel.basic_consume(stream, take, arguments=arguments)

    def wait(self, count: int) -> list[tuple[int, bytes]]:
        wait_until(self.connection, lambda: len(self.got) >= count)
        return self.got

    def exactly(self, count: int) -> list[tuple[int, bytes]]:
        self.wait(count)
        settle(self.connection)
        assert len(self.got) == count
        return self.got

    def wait_for(self, last: int) -> None:
        """Until that number has come, and no more comes."""
        wait_until(self.connection, lambda: self.got and int(self.got[-1][1]) == last)
        settle(self.connection)


def from_offset(first: int, end: int) -> list[tuple[int, bytes]]:
    return list(enumerate(numbered(end - first, start=first), first))


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        ("first", 0),
        (0, 0),
        (-1, 0),
        (7, 7),
        ("last", 9),
        (9, 9),
        ("1h", 0),
        ("2Y", 0),
        (datetime.now(UTC) - timedelta(hours=1), 0),
    ],
)
def test_begins_where_it_is_asked_to(
    connection: BlockingConnection, stream: str, offset: object, first: int
) -> None:
    fill(connection.channel(), stream, 10)
    reader = Reader(connection, stream, offset)
    assert reader.exactly(10 - first) == from_offset(first, 10)
    assert not reader.redelivered


@pytest.mark.parametrize(
    "offset",
    ["next", None, 10, datetime.now(UTC) + timedelta(hours=1)],
    ids=["next", "None", "10", "in an hour"],
)
def test_begins_with_what_comes_next(
    connection: BlockingConnection, stream: str, offset: object
) -> None:
    fill(connection.channel(), stream, 10)
    reader = Reader(connection, stream, offset)
    settle(connection)
    assert reader.got == []
    fill(connection.channel(), stream, 3, start=10)
    assert reader.exactly(3) == from_offset(10, 13)


def test_waits_for_an_offset_that_is_far_ahead(connection: BlockingConnection, stream: str) -> None:
    reader = Reader(connection, stream, 15)
    fill(connection.channel(), stream, 20)
    assert reader.exactly(5) == from_offset(15, 20)


def test_a_time_divides_what_was_before_from_what_came_after(
    connection: BlockingConnection, stream: str
) -> None:
    channel = connection.channel()
    fill(channel, stream, 4)
    time.sleep(1.1)  # timestamps have seconds
    between = datetime.now(UTC).replace(microsecond=0)
    fill(channel, stream, 4, start=4)
    assert Reader(connection, stream, between).exactly(4) == from_offset(4, 8)
    assert Reader(connection, stream, "1h").exactly(8) == from_offset(0, 8)
    recent = Reader(connection, stream, "1s")
    settle(connection)
    fill(channel, stream, 1, start=8)
    wait_until(connection, lambda: recent.got and recent.got[-1] == from_offset(8, 9)[0])
    assert recent.got == from_offset(9 - len(recent.got), 9)
    assert len(recent.got) <= 5, "with what is older than a second"


def test_reading_takes_nothing_out(connection: BlockingConnection, stream: str) -> None:
    fill(connection.channel(), stream, 30)
    readers = [Reader(connection, stream, start) for start in (0, 0, 10, 20)]
    for reader, start in zip(readers, (0, 0, 10, 20), strict=True):
        assert reader.exactly(30 - start) == from_offset(start, 30)
    again = Reader(connection, stream)
    assert again.exactly(30) == from_offset(0, 30)
    assert not again.redelivered


def test_what_is_not_acknowledged_is_never_redelivered(
    connection: BlockingConnection, stream: str
) -> None:
    fill(connection.channel(), stream, 10)
    reader = Reader(connection, stream, prefetch=4)
    reader.exactly(4)
    reader.channel.close()
    again = Reader(connection, stream, prefetch=4)
    assert again.exactly(4) == from_offset(0, 4)
    assert not again.redelivered


def test_the_prefetch_bounds_what_is_out(connection: BlockingConnection, stream: str) -> None:
    fill(connection.channel(), stream, 10)
    reader = Reader(connection, stream, prefetch=3)
    reader.exactly(3)
    reader.channel.basic_ack(2)  # any one gives credit for one
    reader.exactly(4)
    reader.channel.basic_ack(4, multiple=True)
    assert reader.exactly(7) == from_offset(0, 7)


def test_acknowledging_as_it_goes_it_gets_everything(
    connection: BlockingConnection, stream: str
) -> None:
    channel = connection.channel()
    for body in numbered(3000):
        channel.basic_publish("", stream, body)
    reader = Reader(connection, stream, prefetch=10, acks=True)
    assert reader.wait(3000) == from_offset(0, 3000)


def test_large_and_empty_messages_come_whole(connection: BlockingConnection, stream: str) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    bodies = [b"", b"x" * 300_000, b"", bytes(range(256)) * 40]
    for body in bodies:
        channel.basic_publish("", stream, body)
    assert Reader(connection, stream).exactly(4) == list(enumerate(bodies))


def test_properties_come_back_with_the_offset(connection: BlockingConnection, stream: str) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    sent = pika.BasicProperties(
        content_type="text/plain",
        headers={"a": 1, "b": "two", OFFSET: 77},
        delivery_mode=1,
        priority=3,
        correlation_id="c",
        expiration="1",
        message_id="m",
    )
    channel.basic_publish("", stream, b"x", sent)
    channel.basic_publish("", stream, b"y", pika.BasicProperties(content_encoding="e"))
    channel.basic_publish("", stream, b"z", pika.BasicProperties(headers={}))
    reader = Reader(connection, stream)
    reader.exactly(3)
    first, second, third = reader.properties
    assert first.headers == {"a": 1, "b": "two", OFFSET: 0}
    first.headers = sent.headers
    assert first == sent
    assert (second.content_encoding, second.headers) == ("e", {OFFSET: 1})
    assert third.headers == {OFFSET: 2}


def test_a_binding_leads_there(
    connection: BlockingConnection, stream: str, exchange: Callable[..., str]
) -> None:
    channel = connection.channel()
    topic = exchange("topic")
    channel.queue_bind(stream, topic, "a.#")
    channel.confirm_delivery()
    for key in ("a.b", "c", "a", "a.b.c"):
        channel.basic_publish(topic, key, key.encode())
    assert [body for _, body in Reader(connection, stream).exactly(3)] == [b"a.b", b"a", b"a.b.c"]


def test_a_transaction_is_seen_when_it_is_committed(
    connection: BlockingConnection, stream: str
) -> None:
    channel = connection.channel()
    channel.tx_select()
    reader = Reader(connection, stream)
    for body in numbered(3):
        channel.basic_publish("", stream, body)
    settle(connection)
    assert reader.got == []
    channel.tx_commit()
    channel.basic_publish("", stream, b"never")
    channel.tx_rollback()
    assert reader.exactly(3) == from_offset(0, 3)


def test_dead_letters_may_go_there(
    connection: BlockingConnection, stream: str, target: Target
) -> None:
    if not target.is_own:
        pytest.skip("RabbitMQ 3.10 loses them on the way")
    channel = connection.channel()
    dying = f"{stream}-dying"
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream}
    channel.queue_declare(dying, exclusive=True, arguments=arguments | {"x-message-ttl": 1})
    channel.confirm_delivery()
    for body in numbered(5):
        channel.basic_publish("", dying, body)
    reader = Reader(connection, stream)
    assert reader.exactly(5) == from_offset(0, 5)
    assert reader.properties[0].headers["x-first-death-reason"] == "expired"


def test_deleting_it_cancels_its_consumers(connect: Connect, name: str) -> None:
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(name, durable=True, arguments=STREAM)
    fill(channel, name, 3)
    reader = Reader(connection, name)
    reader.exactly(3)
    cancelled: list[object] = []
    reader.channel.add_on_cancel_callback(cancelled.append)
    assert channel.queue_delete(name).method.message_count == 0
    wait_until(connection, lambda: cancelled)
    channel.queue_declare(name, durable=True, arguments=STREAM)
    assert Reader(connection, name).exactly(0) == []
    channel.queue_delete(name)


# -- refusals


def connection_closed_with(connection: BlockingConnection, act: Callable[[], object]) -> str:
    with pytest.raises(ConnectionClosedByBroker) as closed:
        act()
        wait_until(connection, lambda: connection.is_closed)
    assert closed.value.reply_code == 540
    return closed.value.reply_text.removeprefix("NOT_IMPLEMENTED - ")


def nothing(*_: object) -> None:
    """A consumer's callback."""


def prefetching(channel: BlockingChannel) -> BlockingChannel:
    channel.basic_qos(prefetch_count=10)
    return channel


@pytest.mark.parametrize(
    ("what", "act"),
    [
        ("basic.get", lambda channel, stream: channel.basic_get(stream)),
        ("queue.purge", lambda channel, stream: channel.queue_purge(stream)),
        (
            "automatic acknowledgement",
            lambda channel, stream: prefetching(channel).basic_consume(
                stream, nothing, auto_ack=True
            ),
        ),
    ],
)
def test_refuses_what_would_take_messages_out(
    connect: Connect, stream: str, what: str, act: Callable[[BlockingChannel, str], object]
) -> None:
    connection = connect()
    channel = connection.channel()
    text = connection_closed_with(connection, lambda: act(channel, stream))
    assert text == f"{what} not supported by stream queues queue '{stream}' in vhost '/'"


@pytest.mark.parametrize("method", ["basic_nack", "basic_reject"])
@pytest.mark.parametrize("requeue", [True, False])
def test_refuses_to_give_back(connect: Connect, stream: str, method: str, requeue: bool) -> None:
    connection = connect()
    fill(connection.channel(), stream, 3)
    reader = Reader(connection, stream)
    reader.exactly(3)
    act = getattr(reader.channel, method)
    text = connection_closed_with(connection, lambda: act(1, requeue=requeue))
    assert text.startswith("basic.nack and basic.reject not supported by stream queues")


def test_refuses_a_channel_wide_prefetch(connect: Connect, stream: str) -> None:
    connection = connect()
    channel = prefetching(connection.channel())
    channel.basic_qos(prefetch_count=10, global_qos=True)
    act = lambda: channel.basic_consume(stream, nothing)  # noqa: E731
    text = connection_closed_with(connection, act)
    assert text == f"queue '{stream}' in vhost '/' does not support global qos"


def test_wants_a_prefetch(channel: BlockingChannel, stream: str) -> None:
    code, text = closed_with(lambda: channel.basic_consume(stream, nothing))
    where = f"queue '{stream}' in vhost '/'"
    assert (code, text) == (
        406,
        f"PRECONDITION_FAILED - consumer prefetch count is not set for '{where}'",
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({OFFSET: "0h"}, '{where}: {{invalid_stream_offset_arg,{{longstr,<<"0h">>}}}}'),
        ({OFFSET: "5"}, '{where}: {{invalid_stream_offset_arg,{{longstr,<<"5">>}}}}'),
        ({"x-priority": 1}, "{where} of queue type rabbit_stream_queue"),
    ],
)
def test_refuses_arguments_of_consumers(
    channel: BlockingChannel, stream: str, arguments: dict[str, Any], text: str
) -> None:
    prefetching(channel)
    code, said = closed_with(lambda: channel.basic_consume(stream, nothing, arguments=arguments))
    [key] = arguments
    where = f"invalid arg '{key}' for queue '{stream}' in vhost '/'"
    assert (code, said) == (406, "PRECONDITION_FAILED - " + text.format(where=where))


DECLARATIONS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"durable": False}, {}, "invalid property 'non-durable' for {where}"),
    ({"exclusive": True}, {}, "invalid property 'exclusive-owner' for {where}"),
    ({"auto_delete": True}, {}, "invalid property 'auto-delete' for {where}"),
    *(
        ({}, {key: value}, f"invalid arg '{key}' for {{where}} of queue type rabbit_stream_queue")
        for key, value in [
            ("x-max-priority", 5),
            ("x-expires", 1000),
            ("x-message-ttl", 1000),
            ("x-max-length", 5),
            ("x-overflow", "reject-publish"),
            ("x-dead-letter-exchange", ""),
            ("x-queue-mode", "lazy"),
            ("x-single-active-consumer", True),
            ("x-delivery-limit", 3),
        ]
    ),
    ({}, {"x-max-age": "7"}, "invalid arg 'x-max-age' for {where}: invalid_max_age"),
    ({}, {"x-max-age": "7d"}, "invalid arg 'x-max-age' for {where}: invalid_max_age"),
    ({}, {"x-max-age": "0D"}, "invalid arg 'x-max-age' for {where}: invalid_max_age"),
    (
        {},
        {"x-max-age": 7},
        "invalid arg 'x-max-age' for {where}: {{unacceptable_type,signedint}}",
    ),
    (
        {},
        {"x-max-length-bytes": -5},
        "invalid arg 'x-max-length-bytes' for {where}: {{value_negative,-5}}",
    ),
    (
        {},
        {"x-stream-max-segment-size-bytes": 3_000_000_001},
        "Exceeded max value for x-stream-max-segment-size-bytes",
    ),
]


@pytest.mark.parametrize(("options", "arguments", "text"), DECLARATIONS)
def test_refuses_declarations(
    channel: BlockingChannel,
    name: str,
    options: dict[str, Any],
    arguments: dict[str, Any],
    text: str,
) -> None:
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(name, **{"durable": True} | options, arguments=STREAM | arguments)
    where = f"queue '{name}' in vhost '/'"
    wanted = "PRECONDITION_FAILED - " + text.format(where=where)
    assert (closed.value.reply_code, closed.value.reply_text) == (406, wanted)


def test_is_not_the_same_as_a_classic_queue(channel: BlockingChannel, stream: str) -> None:
    code, text = closed_with(lambda: channel.queue_declare(stream, durable=True))
    assert code == 406
    assert text.startswith("PRECONDITION_FAILED - inequivalent arg 'x-queue-type'")


def test_a_classic_queue_has_no_offsets(channel: BlockingChannel, queue: str) -> None:
    code, text = closed_with(
        lambda: channel.basic_consume(queue, nothing, arguments={OFFSET: "first"})
    )
    assert code == 406
    assert text.endswith("of queue type rabbit_classic_queue")


# -- retention


def test_what_is_too_much_goes_and_readers_begin_behind_it(connect: Connect, name: str) -> None:
    connection = connect()
    channel = connection.channel()
    bounds = {"x-max-length-bytes": 60_000, "x-stream-max-segment-size-bytes": 20_000}
    channel.queue_declare(name, durable=True, arguments=STREAM | bounds)
    try:
        channel.confirm_delivery()
        for number in range(200):
            channel.basic_publish("", name, str(number).encode().ljust(1000))
        reader = Reader(connection, name, 0, prefetch=300)
        reader.wait_for(199)
        offsets = [offset for offset, _ in reader.got]  # RabbitMQ's have a gap at each new file
        assert offsets == sorted(set(offsets))
        numbers = [int(body) for _, body in reader.got]
        assert 100 < numbers[0] < 180
        assert numbers == list(range(numbers[0], 200))
    finally:
        channel.queue_delete(name)


def test_a_policy_bounds_it_too(connect: Connect, name: str, ctl: Ctl) -> None:
    connection = connect()
    channel = connection.channel()
    bounds = {"x-stream-max-segment-size-bytes": 20_000}
    channel.queue_declare(name, durable=True, arguments=STREAM | bounds)
    try:
        channel.confirm_delivery()
        for number in range(100):
            channel.basic_publish("", name, str(number).encode().ljust(1000))
        assert len(Reader(connection, name, 0, prefetch=300).exactly(100)) == 100
        ctl("set_policy", name, f"^{name}$", '{"max-length-bytes": 40000}', "--apply-to", "queues")
        for number in range(100, 130):
            channel.basic_publish("", name, str(number).encode().ljust(1000))
        reader = Reader(connection, name, 0, prefetch=300)
        reader.wait_for(129)
        numbers = [int(body) for _, body in reader.got]
        assert 60 < numbers[0] < 115
        assert numbers == list(range(numbers[0], 130))
    finally:
        ctl("clear_policy", name)
        channel.queue_delete(name)


# -- aio-pika


def test_aio_pika_reads_on_where_it_was(broker_url: str, name: str) -> None:
    async def scenario() -> list[tuple[int, bytes]]:
        connection = await aio_pika.connect(broker_url)
        got: list[tuple[int, bytes]] = []
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(name, durable=True, arguments=STREAM)
            for body in numbered(20):
                await channel.default_exchange.publish(aio_pika.Message(body), name)
            for _ in range(2):
                reading = await connection.channel()
                await reading.set_qos(prefetch_count=5)
                mine = await reading.get_queue(name)
                following = got[-1][0] + 1 if got else "first"
                async with mine.iterator(arguments={OFFSET: following}) as messages:
                    async for message in messages:
                        got.append((int(str(message.headers[OFFSET])), message.body))
                        await message.ack()
                        if len(got) % 10 == 0:
                            break
                    await reading.close()
            await queue.delete(if_unused=False, if_empty=False)
        return got

    assert asyncio.run(asyncio.wait_for(scenario(), PATIENCE_SECONDS)) == from_offset(0, 20)


def test_nobody_is_disturbed_by_a_reader_that_breaks_off(connect: Connect, stream: str) -> None:
    fill(connect().channel(), stream, 50)
    for _ in range(3):
        connection = connect()
        Reader(connection, stream).wait(1)
        with pytest.raises(AMQPError):
            connection.channel().queue_declare(stream)
    assert Reader(connect(), stream).exactly(50) == from_offset(0, 50)
