"""Goal: a message that was confirmed and then died is in every queue its dead-letter exchange leads
to, or still where it was, however often the broker is killed; some come twice.

Method: the real process, killed at a random moment under publishers that wait for each confirm, a
few times on one directory. Messages expire, are too many, or are rejected by a consumer; small
bodies are in the queue index, large ones in the message store. Then everything is taken out.
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

CYCLES = 5
LEAST_EACH = 10
"""Messages of each source that are confirmed in a life."""
KEPT = 20
SOURCES: dict[str, dict[str, int]] = {
    "expiring": {"x-message-ttl": 20},
    "short": {"x-max-length": KEPT},
    "rejected": {},
}
DEAD = ("dead-a", "dead-b")
PERSISTENT = pika.BasicProperties(delivery_mode=2)
PATIENCE_SECONDS = 240.0


class Client(Thread):
    """Does something with a channel until the broker is gone."""

    def __init__(self, target: broker.Target) -> None:
        super().__init__()
        self.target = target

    def run(self) -> None:
        with suppress(AMQPError, OSError):
            self.work(connect(self.target).channel())

    def work(self, channel: BlockingChannel) -> None:
        raise NotImplementedError


class Publisher(Client):
    """Publishes to one source, one confirm after the other."""

    def __init__(self, target: broker.Target, queue: str, life: int, seed: int) -> None:
        super().__init__(target)
        self.queue = queue
        self.life = life
        self.random = Random(seed)
        self.confirmed: list[bytes] = []

    def work(self, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        while True:
            body = b"%s %d %d " % (self.queue.encode(), self.life, len(self.confirmed))
            body += b"." * self.random.choice((0, 50, 50, 5000))
            channel.basic_publish("", self.queue, body, PERSISTENT)
            self.confirmed.append(body)


class Rejecter(Client):
    """Rejects whatever comes."""

    def work(self, channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=50)
        channel.basic_consume("rejected", self.reject)
        channel.start_consuming()

    def reject(self, channel: BlockingChannel, method: Any, _: Any, __: bytes) -> None:
        channel.basic_nack(method.delivery_tag, requeue=False)


def connect(target: broker.Target) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(target.user, target.password)
    where = pika.ConnectionParameters(target.host, target.port, credentials=credentials)
    return pika.BlockingConnection(where)


def declare(target: broker.Target) -> None:
    connection = connect(target)
    channel = connection.channel()
    channel.exchange_declare("dlx", "fanout", durable=True)
    for queue in DEAD:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "dlx")
    for queue, arguments in SOURCES.items():
        given = {**arguments, "x-dead-letter-exchange": "dlx"}
        channel.queue_declare(queue, durable=True, arguments=given)
    connection.close()


def life(directory: Path, number: int, random: Random) -> list[Publisher]:
    """One life of the broker; it ends by kill -9."""
    errors = directory / "stderr.txt"
    process: broker.Process = broker.start(directory, errors=errors)
    target = broker.await_ready(process, errors)
    declare(target)
    publishers = [Publisher(target, queue, number, random.randrange(1 << 30)) for queue in SOURCES]
    clients = [*publishers, Rejecter(target)]
    for client in clients:
        client.start()
    enough = random.randrange(100, 300)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (
        sum(len(publisher.confirmed) for publisher in publishers) < enough
        or min(len(publisher.confirmed) for publisher in publishers) <= LEAST_EACH
    ):
        assert time.monotonic() < deadline, "hardly anything is confirmed"
        time.sleep(0.01)
    process.kill()
    process.wait()
    for client in clients:
        client.join()
    if process.stdout is not None:
        process.stdout.close()
    return publishers


def take_all(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Everything that is ready."""
    bodies: list[bytes] = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2])
    return bodies


def bury_the_rest(channel: BlockingChannel) -> None:
    """Reject what is left."""
    while (method := channel.basic_get("rejected")[0]) is not None:
        channel.basic_reject(method.delivery_tag, requeue=False)


def take_until(channel: BlockingChannel, queue: str, wanted: set[bytes]) -> list[bytes]:
    """What is in the queue, until all that is wanted has come or nothing comes for long."""
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not wanted <= set(found) and time.monotonic() < deadline:
        if some := take_all(channel, queue):
            deadline = time.monotonic() + PATIENCE_SECONDS
        found += some
        time.sleep(0.01)
    return found


def test_no_dead_letter_is_lost_by_kill_9(tmp_path: Path) -> None:
    random = Random(7)
    publishers = [each for number in range(CYCLES) for each in life(tmp_path, number, random)]
    confirmed = [body for publisher in publishers for body in publisher.confirmed]
    assert len(confirmed) >= 100 * CYCLES
    with broker.serving(tmp_path) as target:
        channel = connect(target).channel()
        bury_the_rest(channel)
        left = take_all(channel, "short")
        assert len(left) <= KEPT
        counts = Counter(body.partition(b" ")[0] for body in confirmed)
        assert min(counts[queue.encode()] for queue in SOURCES) > LEAST_EACH * CYCLES
        for queue in DEAD:
            wanted = set(confirmed) - set(left)
            dead = take_until(channel, queue, wanted)
            lost = wanted - set(dead)
            assert not lost, f"{len(lost)} of {len(confirmed)} are not in {queue}"
            assert max(Counter(dead).values()) <= CYCLES + 1, "oftener than once in a life"
