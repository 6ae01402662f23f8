"""Direct reply-to with real clients: pika's way, and kombu's."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import kombu
import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika_client import Connect, closed_with, consume, wait_until

from support.broker import Target

PSEUDO = "amq.rabbitmq.reply-to"


@pytest.fixture
def server(connect: Connect, name: str) -> Iterator[str]:
    """Doubles every body, on a connection and a thread of its own; the name of its queue."""
    channel = connect().channel()
    channel.queue_declare(name, exclusive=False, auto_delete=True)
    stop = threading.Event()

    def answer(
        channel: BlockingChannel, _: object, properties: BasicProperties, body: bytes
    ) -> None:
        back = BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, body + body, back)

    channel.basic_consume(name, answer, auto_ack=True)

    def serve() -> None:
        while not stop.is_set():
            channel.connection.process_data_events(time_limit=0.05)

    thread = threading.Thread(target=serve)
    thread.start()
    yield name
    stop.set()
    thread.join()


def test_calls_with_pika(channel: BlockingChannel, server: str) -> None:
    replies = consume(channel, PSEUDO, auto_ack=True)
    for number in range(200):
        properties = BasicProperties(reply_to=PSEUDO, correlation_id=str(number))
        channel.basic_publish("", server, b"%d." % number, properties)
    found = replies.wait(200)
    assert [delivery.body for delivery in found] == [b"%d.%d." % (n, n) for n in range(200)]
    assert [delivery.properties.correlation_id for delivery in found] == [
        str(n) for n in range(200)
    ]


def test_one_call_after_another(channel: BlockingChannel, server: str) -> None:
    """As the tutorials do it: a new consumer for each call."""
    for number in range(10):
        replies = consume(channel, PSEUDO, auto_ack=True)
        channel.basic_publish("", server, b"%d" % number, BasicProperties(reply_to=PSEUDO))
        assert replies.wait(1)[0].body == b"%d%d" % (number, number)
        channel.basic_cancel(replies.tag)


def test_large_replies(channel: BlockingChannel, server: str) -> None:
    replies = consume(channel, PSEUDO, auto_ack=True)
    channel.basic_publish("", server, b"x" * 1_000_000, BasicProperties(reply_to=PSEUDO))
    assert len(replies.wait(1)[0].body) == 2_000_000


def test_a_server_can_ask_whether_the_client_is_still_there(
    connect: Connect, channel: BlockingChannel, queue: str
) -> None:
    client = connect().channel()
    consume(client, PSEUDO, auto_ack=True)
    requests = consume(channel, queue)
    asking = channel.connection.channel()
    consume(asking, PSEUDO, auto_ack=True)
    asking.basic_publish("", queue, b"x", BasicProperties(reply_to=PSEUDO))
    address = requests.wait(1)[0].properties.reply_to
    assert channel.queue_declare(address, passive=True).method.consumer_count == 1
    asking.close()
    wait_until(channel.connection, lambda: asking.is_closed)
    code, text = closed_with(lambda: channel.queue_declare(address, passive=True))
    assert (code, text) == (404, f"NOT_FOUND - no queue '{address}' in vhost '/'")


def test_calls_with_kombu(target: Target, server: str) -> None:
    url = f"amqp://{target.user}:{target.password}@{target.host}:{target.port}//"
    replies: list[tuple[str, str]] = []

    def receive(body: str, message: kombu.Message) -> None:
        replies.append((message.properties["correlation_id"], body))

    with kombu.Connection(url) as connection:
        channel = connection.channel()
        # kombu declares what it consumes from; this one must only be looked at
        queue = kombu.Queue(PSEUDO, exchange="", no_ack=True, no_declare=True)
        producer = kombu.Producer(channel)
        with kombu.Consumer(channel, [queue], callbacks=[receive], no_ack=True):
            for number in range(50):
                producer.publish(
                    b"%d" % number,
                    exchange="",
                    routing_key=server,
                    reply_to=PSEUDO,
                    correlation_id=str(number),
                    content_type="application/octet-stream",
                    content_encoding="binary",
                )
            while len(replies) < 50:
                connection.drain_events(timeout=240)
    assert replies == [(str(n), f"{n}{n}") for n in range(50)]
