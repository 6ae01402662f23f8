"""Goal: a message that a quorum queue has confirmed is delivered once and not again when its
acknowledgement was heard, however often the broker is killed.

Method: the real process, killed at a random moment under publishers with confirms and consumers
that acknowledge, a few times on one directory whose files are small. An acknowledgement has surely
been heard when the depth of the queue was told on the same channel afterwards. Then everything is
taken out.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from support import broker

CYCLES = 6
LEAST_EACH = 20
"""Messages that each queue confirms in a life."""
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {"x-queue-type": "quorum"},
    "paged": {"x-queue-type": "quorum", "x-max-in-memory-bytes": 0},
}
SETTINGS = (
    "storage.journal_file_size_limit=65536",
    "storage.reserve_bytes=0",
    "raft.segment_max_entries=64",
)
PATIENCE_SECONDS = 240.0


class Client(Thread):
    """Does something with a channel until the broker is gone."""

    def __init__(self, target: broker.Target, queue: str) -> None:
        super().__init__()
        self.target = target
        self.queue = queue

    def run(self) -> None:
        with suppress(AMQPError, OSError):
            self.work(connect(self.target).channel())

    def work(self, channel: BlockingChannel) -> None:
        raise NotImplementedError


class Publisher(Client):
    """Publishes with confirms, one after the other."""

    def __init__(self, target: broker.Target, queue: str, name: str, seed: int) -> None:
        super().__init__(target, queue)
        self.name = name
        self.random = Random(seed)
        self.confirmed: list[bytes] = []

    def work(self, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        while True:
            body = b"%s %s %d " % (self.queue.encode(), self.name.encode(), len(self.confirmed))
            body += b"." * self.random.choice((0, 50, 50, 5000))
            channel.basic_publish("", self.queue, body)
            self.confirmed.append(body)


class Consumer(Client):
    """Acknowledges some of what it gets; the rest comes back when it is killed."""

    def __init__(self, target: broker.Target, queue: str) -> None:
        super().__init__(target, queue)
        self.got: list[bytes] = []
        self.acknowledged: set[bytes] = set()
        self.settled: set[bytes] = set()
        """Those of which it is sure that this was heard."""

    def work(self, channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=20)
        unsure: list[bytes] = []
        for method, _, body in channel.consume(self.queue):
            assert method is not None
            self.got.append(body)
            if len(self.got) % 4 == 0:
                channel.basic_nack(method.delivery_tag, requeue=True)
                continue
            self.acknowledged.add(body)
            channel.basic_ack(method.delivery_tag)
            unsure.append(body)
            if len(unsure) >= 10:
                channel.queue_declare(self.queue, passive=True)
                self.settled.update(unsure)
                unsure.clear()


class Book:
    """What all clients of all lives know of one queue."""

    def __init__(self) -> None:
        self.confirmed: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.settled: set[bytes] = set()

    def take(self, publisher: Publisher, consumer: Consumer) -> None:
        again = self.settled.intersection(consumer.got)
        assert not again, f"{len(again)} come again that were acknowledged"
        self.confirmed.update(publisher.confirmed)
        self.acknowledged |= consumer.acknowledged
        self.settled |= consumer.settled


def connect(target: broker.Target) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(target.user, target.password)
    where = pika.ConnectionParameters(target.host, target.port, credentials=credentials)
    return pika.BlockingConnection(where)


def life(directory: Path, number: int, random: Random, books: dict[str, Book]) -> None:
    """One life of the broker; it ends by kill -9."""
    errors = directory / "stderr.txt"
    process: broker.Process = broker.start(directory, *SETTINGS, errors=errors)
    target = broker.await_ready(process, errors)
    connection = connect(target)
    for queue, arguments in QUEUES.items():
        connection.channel().queue_declare(queue, durable=True, arguments=arguments)
    connection.close()
    publishers = {
        queue: Publisher(target, queue, f"{number}", random.randrange(1 << 30)) for queue in QUEUES
    }
    consumers = {queue: Consumer(target, queue) for queue in QUEUES}
    clients = [*publishers.values(), *consumers.values()]
    for client in clients:
        client.start()
    enough = random.randrange(100, 400)

    def is_enough() -> bool:
        confirmed = [len(each.confirmed) for each in publishers.values()]
        settled = all(each.settled for each in consumers.values())
        return sum(confirmed) >= enough and min(confirmed) >= LEAST_EACH and settled

    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_enough():
        assert time.monotonic() < deadline, "hardly anything is confirmed and settled"
        time.sleep(0.01)
    process.kill()
    process.wait()
    for client in clients:
        client.join()
    if process.stdout is not None:
        process.stdout.close()
    for queue, book in books.items():
        book.take(publishers[queue], consumers[queue])


def take_all(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Everything that is ready."""
    bodies: list[bytes] = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2])
    return bodies


def test_nothing_that_quorum_queues_confirmed_is_lost_by_kill_9(tmp_path: Path) -> None:
    random = Random(3)
    books = {queue: Book() for queue in QUEUES}
    for number in range(CYCLES):
        life(tmp_path, number, random, books)
    with broker.serving(tmp_path) as target:
        channel = connect(target).channel()
        for queue, book in books.items():
            left = Counter(take_all(channel, queue))
            assert len(book.confirmed) >= LEAST_EACH * CYCLES
            assert book.settled
            lost = book.confirmed - book.acknowledged - left.keys()
            assert not lost, f"{len(lost)} of {len(book.confirmed)} are lost in {queue}"
            assert not book.settled.intersection(left), "what was acknowledged is there"
            assert max(left.values(), default=1) == 1, "a message is there twice"
