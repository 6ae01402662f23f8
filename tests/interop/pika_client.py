"""Short words for what the tests do with pika again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker

from support.broker import Target

Connect = Callable[..., BlockingConnection]
"""Opens a connection; pika's connection parameters are its options."""

Declare = Callable[..., str]
"""Declares a queue, its x-arguments as options; gives the name."""

PATIENCE_SECONDS = 240.0
QUIET_SECONDS = 0.3
"""How long nothing must come before we believe that nothing will."""


def parameters(target: Target, **options: Any) -> pika.ConnectionParameters:
    """How to reach `target`; `options` win."""
    options.setdefault("credentials", pika.PlainCredentials(target.user, target.password))
    options.setdefault("socket_timeout", PATIENCE_SECONDS)
    options.setdefault("stack_timeout", PATIENCE_SECONDS)
    return pika.ConnectionParameters(host=target.host, port=target.port, **options)


def closed_with(action: Callable[[], object]) -> tuple[int, str]:
    """Reply code and text with which the broker closes the channel when `action` runs."""
    try:
        action()
    except ChannelClosedByBroker as closed:
        return closed.reply_code, closed.reply_text
    raise AssertionError("the broker did not close the channel")


def wait_until(connection: BlockingConnection, done: Callable[[], object]) -> None:
    """Serve the connection until `done()`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        connection.process_data_events(time_limit=0.01)


def settle(connection: BlockingConnection) -> None:
    """Serve the connection for a moment, so that whatever is on its way arrives."""
    deadline = time.monotonic() + QUIET_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        connection.process_data_events(time_limit=left)


@dataclass
class Delivery:
    """One message as it came."""

    tag: int
    body: bytes
    redelivered: bool
    consumer: str
    properties: pika.BasicProperties


@dataclass
class Inbox:
    """A consumer that keeps what it gets; `acks` makes it acknowledge at once."""

    channel: BlockingChannel
    queue: str
    acks: bool = False
    deliveries: list[Delivery] = field(default_factory=list)
    tag: str = ""

    def start(self, **options: Any) -> Inbox:
        self.tag = self.channel.basic_consume(self.queue, self._receive, **options)
        return self

    def _receive(self, channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        self.deliveries.append(
            Delivery(method.delivery_tag, body, method.redelivered, method.consumer_tag, properties)
        )
        if self.acks:
            channel.basic_ack(method.delivery_tag)

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.deliveries]

    def wait(self, count: int) -> list[Delivery]:
        """The first `count` deliveries, when they are there."""
        wait_until(self.channel.connection, lambda: len(self.deliveries) >= count)
        return self.deliveries[:count]

    def exactly(self, count: int) -> list[Delivery]:
        """The deliveries, when there are `count` and no more come."""
        self.wait(count)
        settle(self.channel.connection)
        assert len(self.deliveries) == count
        return self.deliveries


def consume(channel: BlockingChannel, queue: str, acks: bool = False, **options: Any) -> Inbox:
    """Start a consumer that keeps what it gets."""
    return Inbox(channel, queue, acks).start(**options)


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """Publish to a queue through the default exchange."""
    for body in bodies:
        channel.basic_publish("", queue, body)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def depth(channel: BlockingChannel, queue: str) -> int:
    """Ready messages, by a passive declare."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def wait_for_depth(channel: BlockingChannel, queue: str, count: int) -> None:
    """RabbitMQ may answer a declaration before what was published earlier is in the queue."""
    wait_until(channel.connection, lambda: depth(channel, queue) == count)


def fetch(channel: BlockingChannel, queue: str, **options: Any) -> tuple[bytes, bool] | None:
    """One basic.get: body and redelivered flag, or None when the queue is empty."""
    method, _, body = channel.basic_get(queue, **options)
    return None if method is None else (body, method.redelivered)


def fetch_all(channel: BlockingChannel, queue: str, most: int = 1 << 30) -> list[bytes]:
    """Everything that is ready, acknowledged; no more than `most`."""
    bodies: list[bytes] = []
    while len(bodies) < most and (got := fetch(channel, queue, auto_ack=True)) is not None:
        bodies.append(got[0])
    return bodies
