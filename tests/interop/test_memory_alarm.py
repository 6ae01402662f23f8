"""The memory alarm of our own broker: publishers are held up and told so, consumers never are. And
paging, which is there so that it does not come to that.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pamqp import commands
from pika_client import consume, depth, fetch, parameters, publish, wait_until

from support import broker
from support.broker import Target
from support.peer import FRAME_MAX, METHOD, Peer, body, call, channel_open, describe, header

Basic, Connection, Queue = commands.Basic, commands.Connection, commands.Queue

LIMIT_BYTES = 120 * 1024 * 1024
BODY_BYTES = 100_000
MESSAGE = call(Basic.Publish(routing_key="backlog")) + header(BODY_BYTES) + body(b"x" * BODY_BYTES)
PATIENCE_SECONDS = 240.0


@pytest.fixture
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    """A broker that may use little memory, and pages out nothing before it has used it up."""
    yield from limited(request, tmp_path, "vm_memory_high_watermark_paging_ratio=1")


@pytest.fixture
def paging(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    """A broker that may use little memory."""
    yield from limited(request, tmp_path)


def limited(request: pytest.FixtureRequest, tmp_path: Path, *settings: str) -> Iterator[Target]:
    if request.config.getoption("--broker-url"):
        pytest.skip("needs a broker of our own")
    limit = f"vm_memory_high_watermark.absolute={LIMIT_BYTES}"
    with broker.serving(tmp_path, limit, *settings) as target:
        yield target


def fill(target: Target, publisher: Peer) -> threading.Thread:
    """Publishes into the queue `backlog` until the broker stops reading and beyond the limit."""
    with pika.BlockingConnection(parameters(target)) as connection:
        connection.channel().queue_declare("backlog")
    messages = 3 * LIMIT_BYTES // BODY_BYTES

    def run() -> None:
        for _ in range(messages):
            publisher.send(MESSAGE)

    publisher.socket.settimeout(3 * PATIENCE_SECONDS)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def await_method(peer: Peer, name: str) -> str:
    """The text behind the next method, which must be `name`."""
    got = peer.read(PATIENCE_SECONDS)
    assert got is not None
    assert got.kind == METHOD
    assert describe(got) == name
    return got.payload[5:].decode("utf-8", "replace")


def test_publishers_are_blocked_and_told_and_let_go_again(small: Target) -> None:
    with Peer(small) as publisher:
        publisher.log_in().open()
        thread = fill(small, publisher)
        assert "memory" in await_method(publisher, "Connection.Blocked")
        with pika.BlockingConnection(parameters(small)) as connection:
            channel = connection.channel()
            before = depth(channel, "backlog")
            assert before * BODY_BYTES < 1.5 * LIMIT_BYTES
            assert small.rss_bytes() < 2 * LIMIT_BYTES
            assert thread.is_alive()
            channel.queue_purge("backlog")
            await_method(publisher, "Connection.Unblocked")
            while thread.is_alive():
                channel.queue_purge("backlog")
                connection.sleep(0.05)
        publisher.socket.settimeout(PATIENCE_SECONDS)


def test_consumers_are_served_while_publishers_are_blocked(small: Target) -> None:
    with Peer(small) as publisher:
        publisher.log_in().open()
        thread = fill(small, publisher)
        await_method(publisher, "Connection.Blocked")
        with pika.BlockingConnection(parameters(small)) as connection:
            channel = connection.channel()
            assert fetch(channel, "backlog", auto_ack=True) is not None
            inbox = consume(channel, "backlog", acks=True)
            messages = 3 * LIMIT_BYTES // BODY_BYTES
            while len(inbox.deliveries) < messages - 1:
                count = len(inbox.deliveries)
                wait_until(connection, lambda count=count: len(inbox.deliveries) > count)
            assert len(inbox.deliveries) == messages - 1
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def test_pika_hears_blocked_and_unblocked(small: Target) -> None:
    heard: list[str] = []
    with Peer(small) as publisher:
        publisher.log_in().open()
        fill(small, publisher)
        await_method(publisher, "Connection.Blocked")
        with pika.BlockingConnection(parameters(small)) as connection:
            connection.add_on_connection_blocked_callback(
                lambda _, frame: heard.append(f"blocked: {frame.method.reason}")
            )
            connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
            publish(connection.channel(), "nowhere", b"held up")
            wait_until(connection, lambda: heard)
            with pika.BlockingConnection(parameters(small)) as other:
                admin = other.channel()
                while len(heard) < 2:
                    admin.queue_purge("backlog")
                    connection.process_data_events(time_limit=0.05)
    assert heard[0].startswith("blocked: low on memory")
    assert heard[1] == "unblocked"


def begin_bodies(peer: Peer, channels: int) -> None:
    """On each channel four frames of a body that is never finished: half a mebibyte."""
    for number in range(1, channels + 1):
        peer.send(channel_open(number))
    piece = bytes(FRAME_MAX - 8)
    for number in range(1, channels + 1):
        begun = call(Basic.Publish(routing_key="backlog"), number)
        begun += header(100_000_000, channel=number)
        peer.send(begun + 4 * body(piece, number))


def test_bodies_that_are_never_finished_do_not_pass_the_limit(small: Target) -> None:
    """Three connections begin three times the limit. They are stopped at it, and closed when they
    have kept the others waiting for a while; then everybody goes on."""
    peak = 0
    with Peer(small) as first, Peer(small) as second, Peer(small) as third:
        peers = [first, second, third]
        threads = []
        for peer in peers:
            peer.log_in().socket.settimeout(PATIENCE_SECONDS)
            threads.append(threading.Thread(target=begin_bodies_or_fail, args=(peer,)))
            threads[-1].start()
        while any(thread.is_alive() for thread in threads):
            peak = max(peak, small.rss_bytes())
            threads[0].join(0.02)
    assert peak < 1.15 * LIMIT_BYTES
    with pika.BlockingConnection(parameters(small)) as connection:
        channel = connection.channel()
        channel.queue_declare("backlog")
        publish(channel, "backlog", b"at last")
        wait_until(connection, lambda: depth(channel, "backlog") == 1)


def begin_bodies_or_fail(peer: Peer) -> None:
    """Until the broker closes the connection."""
    with contextlib.suppress(ConnectionError):
        begin_bodies(peer, 256)


def test_flood_that_nobody_consumes_goes_to_disk(paging: Target) -> None:
    """Three times what memory may hold; all of it comes back, in order."""
    with Peer(paging) as publisher:
        publisher.log_in().open()
        thread = fill(paging, publisher)
        thread.join(3 * PATIENCE_SECONDS)
        assert not thread.is_alive()
        assert paging.rss_bytes() < 2 * LIMIT_BYTES
        messages = 3 * LIMIT_BYTES // BODY_BYTES
        with pika.BlockingConnection(parameters(paging)) as connection:
            channel = connection.channel()
            wait_until(connection, lambda: depth(channel, "backlog") == messages)
            inbox = consume(channel, "backlog", acks=True)
            while len(inbox.deliveries) < messages:
                count = len(inbox.deliveries)
                wait_until(connection, lambda count=count: len(inbox.deliveries) > count)
            assert set(inbox.bodies) == {b"x" * BODY_BYTES}


def test_consumer_that_does_not_read_keeps_no_alarm_up(paging: Target) -> None:
    """A hundred and fifty channels on a queue that is on disk, all unread: a window over all of
    them bounds what they are sent, and others publish as before."""
    with pika.BlockingConnection(parameters(paging)) as connection:
        channel = connection.channel()
        channel.queue_declare("backlog", durable=True, arguments={"x-queue-mode": "lazy"})
        channel.confirm_delivery()
        for _ in range(1500):
            publish(channel, "backlog", b"x" * BODY_BYTES)
        with Peer(paging, 16384) as reader:
            reader.log_in()
            for number in range(1, 151):
                reader.send(channel_open(number))
            for number in range(1, 151):
                reader.send(call(Basic.Consume(queue="backlog"), number))
            before = depth(channel, "backlog")
            wait_until(connection, lambda: depth(channel, "backlog") < before)
            peak = 0
            for _ in range(40):
                connection.sleep(0.05)
                peak = max(peak, paging.rss_bytes())
                publish(channel, "backlog", b"y")
            assert peak < LIMIT_BYTES
            assert before - depth(channel, "backlog") < 600
