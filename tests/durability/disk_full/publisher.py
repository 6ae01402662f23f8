"""A pika client in a thread of its own that publishes numbered persistent messages and remembers
which of them the broker has promised to keep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pika
from pika_client import parameters

from support.broker import Target

WINDOW: Final = 100
"""Messages without a confirm at a time, unless a test says otherwise."""
PATIENCE_SECONDS: Final = 240.0
PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)


class Publisher(threading.Thread):
    """Publishes to `queue` until told to stop, number 0 first. Attributes may be read from any
    thread."""

    def __init__(self, target: Target, queue: str, body_bytes: int, window: int = WINDOW) -> None:
        super().__init__(daemon=True, name="publisher")
        self.queue = queue
        self.padding = b"." * body_bytes
        self.window = window
        self.published = 0
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        self.settled = 0
        """Up to this delivery tag everything has been confirmed or refused."""
        self.blocked = ""
        self.reasons: list[str] = []
        """Each reason why it was blocked, in order."""
        self.stopping = False
        self.channel: Any = None
        self.connection = pika.SelectConnection(
            parameters(target),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self.opened),
            on_open_error_callback=lambda connection, _: connection.ioloop.stop(),
            on_close_callback=lambda connection, _: connection.ioloop.stop(),
        )
        self.connection.add_on_connection_blocked_callback(self.was_blocked)
        self.connection.add_on_connection_unblocked_callback(self.was_unblocked)

    def run(self) -> None:
        self.connection.ioloop.start()

    def finish(self) -> None:
        """Publish no more, and end."""
        self.stopping = True
        if self.is_alive():
            self.connection.ioloop.add_callback_threadsafe(self.connection.ioloop.stop)
        self.join(PATIENCE_SECONDS)

    def opened(self, channel: Any) -> None:
        self.channel = channel
        channel.confirm_delivery(self.answered, callback=lambda _: self.publish())

    def publish(self) -> None:
        """As many as the window lets; blocked or not: a client need not know the extension."""
        while not self.stopping and self.published - self.settled < self.window:
            body = b"%08d" % self.published + self.padding
            self.channel.basic_publish("", self.queue, body, PERSISTENT)
            self.published += 1

    def answered(self, frame: Any) -> None:
        """A confirm or a refusal, of one or of all up to it."""
        tag, method = frame.method.delivery_tag, frame.method
        low = self.settled + 1 if method.multiple else tag
        numbers = range(low - 1, tag)
        (self.confirmed if method.NAME == "Basic.Ack" else self.refused).update(numbers)
        self.settled = len(self.confirmed) + len(self.refused)
        self.publish()

    def was_blocked(self, _: Any, frame: Any) -> None:
        self.blocked = str(frame.method.reason)
        self.reasons.append(self.blocked)

    def was_unblocked(self, _: Any, __: Any) -> None:
        self.blocked = ""


def wait_for(done: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Until `done()`; AssertionError saying `what` after so long."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {what}"
        time.sleep(0.02)


def declare(target: Target, *queues: str) -> None:
    """Durable queues. (On a full disk that would wait, as everything does that must be kept.)"""
    with pika.BlockingConnection(parameters(target)) as connection:
        for queue in queues:
            connection.channel().queue_declare(queue, durable=True)


def drain(target: Target, queue: str) -> list[int]:
    """The numbers of all messages that are in the queue now, in its order; they are taken."""
    found: list[int] = []
    with pika.BlockingConnection(parameters(target)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=100)
        messages = channel.queue_declare(queue, passive=True).method.message_count
        coming = channel.consume(queue, inactivity_timeout=PATIENCE_SECONDS)
        while len(found) < messages:
            method, _, body = next(coming)
            if method is None:
                break
            found.append(int(body[:8]))
            channel.basic_ack(method.delivery_tag)
        channel.cancel()
    return found
