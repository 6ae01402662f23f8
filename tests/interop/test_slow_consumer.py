"""A client that does not read its socket costs the broker a socket buffer, and others nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pika
import pytest
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel
from pika_client import Connect, depth, parameters, wait_until

from support.broker import Target
from support.peer import FRAME_MAX, Peer, body, call, header

Basic, Queue = commands.Basic, commands.Queue

MIB = 1024 * 1024
BODY_BYTES = 100_000
SLACK_BYTES = 40 * MIB
UNREAD_BYTES_EACH = 8 * MIB
"""What may be on its way to one client that does not read; the broker's window is 4 MiB."""
SMALL_BUFFER = 16384
NEWCOMERS = 5


def flood(target: Target, exchange: str, key: str, count: int) -> threading.Thread:
    """Publishes `count` messages of BODY_BYTES; ends when the broker has taken them all."""
    message = call(Basic.Publish(exchange=exchange, routing_key=key)) + header(BODY_BYTES)
    message += body(b"x" * BODY_BYTES)
    assert BODY_BYTES < FRAME_MAX

    def publish() -> None:
        with Peer(target) as peer:
            peer.log_in().open()
            for _ in range(count):
                peer.send(message)
            peer.send(call(Queue.Declare(exclusive=True))).expect("Queue.DeclareOk")

    thread = threading.Thread(target=publish)
    thread.start()
    return thread


def slow_consumer(target: Target, queue: str) -> Peer:
    """Consumes without acknowledging and never reads again."""
    peer = Peer(target, SMALL_BUFFER).log_in().open()
    peer.send(call(Basic.Consume(queue=queue, no_ack=True))).expect("Basic.ConsumeOk")
    return peer


def newcomers(target: Target, until: threading.Thread) -> None:
    """While the flood lasts, others connect, publish and get: a few at least, if it is over soon;
    who does not read is there all the same."""
    served = 0
    while until.is_alive() or served < NEWCOMERS:
        connection = pika.BlockingConnection(parameters(target))
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x")
        assert channel.basic_get(queue, auto_ack=True)[2] == b"x"
        connection.close()
        served += 1


@pytest.fixture
def channel(connect: Connect) -> Iterator[BlockingChannel]:
    yield connect().channel()


def test_others_are_served_beside_a_client_that_does_not_read(
    target: Target, channel: BlockingChannel, shared_queue: str
) -> None:
    """200 MB for one who takes nothing: what he does not read stays in the queue, once."""
    before = target.rss_bytes() if target.is_own else 0
    with slow_consumer(target, shared_queue):
        publisher = flood(target, "", shared_queue, 2000)
        newcomers(target, publisher)
        publisher.join()
        assert depth(channel, shared_queue) > 1500
        if target.is_own:
            assert target.rss_bytes() - before < 2000 * BODY_BYTES + SLACK_BYTES
        channel.queue_purge(shared_queue)


def test_ten_clients_that_do_not_read_share_one_copy(
    target: Target, channel: BlockingChannel, name: str
) -> None:
    """20 MB fanned out to ten of them: 200 MB if anything were copied towards their sockets."""
    channel.exchange_declare(name, "fanout", auto_delete=True)
    queues = [f"{name}-{number}" for number in range(10)]
    for queue in queues:
        channel.queue_declare(queue)
        channel.queue_bind(queue, name)
    before = target.rss_bytes() if target.is_own else 0
    with ExitStack() as consumers:
        for queue in queues:
            consumers.enter_context(slow_consumer(target, queue))
        flood(target, name, "", 200).join()
        if target.is_own:
            grown = target.rss_bytes() - before
            assert grown < 200 * BODY_BYTES + 10 * UNREAD_BYTES_EACH + SLACK_BYTES
    for queue in queues:
        channel.queue_delete(queue)


def test_a_slow_reader_gets_everything_in_order_at_last(
    target: Target, channel: BlockingChannel, shared_queue: str
) -> None:
    with slow_consumer(target, shared_queue) as peer:
        for number in range(400):
            channel.basic_publish("", shared_queue, b"%06d" % number + b"x" * 50_000)
        for number in range(400):
            peer.expect("Basic.Deliver")
            assert peer.content()[:6] == b"%06d" % number


def test_what_a_vanished_slow_reader_was_sent_comes_back(
    target: Target, channel: BlockingChannel, shared_queue: str
) -> None:
    """With acknowledgements nothing is lost when a client that never read breaks off."""
    peer = Peer(target, SMALL_BUFFER).log_in().open()
    peer.send(call(Basic.Consume(queue=shared_queue))).expect("Basic.ConsumeOk")
    for number in range(300):
        channel.basic_publish("", shared_queue, b"%06d" % number + b"x" * 50_000)
    wait_until(channel.connection, lambda: depth(channel, shared_queue) < 300)
    peer.socket.close()
    wait_until(channel.connection, lambda: depth(channel, shared_queue) == 300)
    for number in range(300):
        assert channel.basic_get(shared_queue, auto_ack=True)[2][:6] == b"%06d" % number
