"""Goal: what was confirmed is acknowledged, or somewhere, however often the broker is killed and
whatever rules move it about: retries in a circle, expiry, limits that drop or refuse, priorities,
lazy queues, delays.

Method: the real process, killed at random moments under publishers that wait for each confirm and
consumers that acknowledge, reject and requeue at random; the queues' arguments are thrown from a
seed. Every rule that lets go of a message leads to a queue that keeps it. Then all is taken out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from durability.test_dead_letter_kill import Client, connect, take_all
from support import broker
from support.thorough import thorough

CYCLES = 3
WORKED = ("work", "refusing", "short")
"""Queues that have a consumer."""
PATIENCE_SECONDS = 240.0
DELAY_MS_MAX = 400


class Publisher(Client):
    """Publishes to one address, one confirm after the other; what is refused was not promised."""

    def __init__(self, target: broker.Target, exchange: str, key: str, seed: str) -> None:
        super().__init__(target)
        self.address = (exchange, key)
        self.seed = seed
        self.random = Random(seed)
        self.confirmed: list[bytes] = []

    def work(self, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        number = 0
        while True:
            number += 1
            body = f"{self.seed} {number} ".encode()
            body += b"." * self.random.choice((0, 50, 50, 5000))
            try:
                channel.basic_publish(*self.address, body, self.properties())
            except NackError:
                time.sleep(0.01)
            else:
                self.confirmed.append(body)

    def properties(self) -> pika.BasicProperties:
        random = self.random
        given: dict[str, Any] = {"delivery_mode": 2}
        if random.random() < 0.4:
            given["priority"] = random.randrange(6)
        if self.address[1] == "brief" and random.random() < 0.3:
            given["expiration"] = str(random.choice((0, 20, 100)))
        if self.address[0] == "later":
            given["headers"] = {"x-delay": random.randrange(DELAY_MS_MAX)}
        return pika.BasicProperties(**given)


class Worker(Client):
    """Acknowledges, rejects or requeues."""

    def __init__(self, target: broker.Target, queue: str, seed: str) -> None:
        super().__init__(target)
        self.queue = queue
        self.random = Random(seed)
        self.acknowledged: list[bytes] = []

    def work(self, channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=self.random.choice((1, 10, 100)))
        channel.basic_consume(self.queue, self.decide)
        channel.start_consuming()

    def decide(self, channel: BlockingChannel, method: Any, _: Any, body: bytes) -> None:
        chance = self.random.random()
        if chance < 0.2:
            self.acknowledged.append(body)
            channel.basic_ack(method.delivery_tag)
        else:
            channel.basic_nack(method.delivery_tag, requeue=chance < 0.5)


def arguments(random: Random) -> dict[str, dict[str, Any]]:
    """Of all queues."""

    def some(chance: float, **given: Any) -> dict[str, Any]:
        return (
            {f"x-{key.replace('_', '-')}": each for key, each in given.items()}
            if (random.random() < chance)
            else {}
        )

    dead = {"x-dead-letter-exchange": "dead"}
    refusal = random.choice(("reject-publish", "reject-publish-dlx"))
    limit = random.choice((0, 1, 5, 50))
    queues: dict[str, dict[str, Any]] = {
        "work": {"x-dead-letter-exchange": "retry"},
        "wait": {
            "x-message-ttl": random.choice((0, 10, 100)),
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "work",
        },
        "short": {**dead, "x-max-length": limit},
        "refusing": {**dead, "x-max-length": random.choice((1, 5, 50)), "x-overflow": refusal},
        "brief": {**dead, "x-message-ttl": random.choice((0, 20, 200))},
        "grave": {},
    }
    return {
        queue: {
            **given,
            **some(0.3, max_priority=random.choice((1, 3, 10))),
            **some(0.2, queue_mode="lazy"),
            **some(0.2, single_active_consumer=True),
        }
        for queue, given in queues.items()
    }


def declare(target: broker.Target, queues: dict[str, dict[str, Any]]) -> None:
    connection = connect(target)
    channel = connection.channel()
    channel.exchange_declare("retry", "fanout", durable=True)
    channel.exchange_declare("dead", "topic", durable=True)
    kind = {"x-delayed-type": "fanout"}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=kind)
    for queue, given in queues.items():
        channel.queue_declare(queue, durable=True, arguments=given)
    channel.queue_bind("wait", "retry")
    channel.queue_bind("grave", "dead", "#")
    channel.queue_bind("brief", "later")
    connection.close()


def life(directory: Path, random: Random, seed: str) -> tuple[list[Publisher], list[Worker]]:
    """One life of the broker; it ends by kill -9."""
    errors = directory / "stderr.txt"
    process: broker.Process = broker.start(directory, errors=errors)
    target = broker.await_ready(process, errors)
    addresses = [("", queue) for queue in (*WORKED, "brief")] + [("later", "")]
    publishers = [Publisher(target, *address, f"{seed}{address}") for address in addresses]
    workers = [Worker(target, queue, f"{seed} {queue}") for queue in WORKED]
    for client in (*publishers, *workers):
        client.start()
    enough = random.randrange(30, 200)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(len(publisher.confirmed) for publisher in publishers) < enough:
        assert time.monotonic() < deadline, "hardly anything is confirmed"
        time.sleep(0.005)
    process.kill()
    process.wait()
    for client in (*publishers, *workers):
        client.join()
    if process.stdout is not None:
        process.stdout.close()
    return publishers, workers


def take_until(channel: BlockingChannel, queues: Iterable[str], wanted: set[bytes]) -> set[bytes]:
    """What is in the queues, until all that is wanted has come or nothing comes for long."""
    found: set[bytes] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not wanted <= found and time.monotonic() < deadline:
        if some := [body for queue in queues for body in take_all(channel, queue)]:
            deadline = time.monotonic() + PATIENCE_SECONDS
        found.update(some)
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("seed", thorough([1], [1, 2]))
def test_no_rule_loses_what_was_confirmed(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    queues = arguments(random)
    with broker.serving(tmp_path) as target:
        declare(target, queues)
    lives = [life(tmp_path, random, f"{seed} {number}") for number in range(CYCLES)]
    confirmed = {body for publishers, _ in lives for each in publishers for body in each.confirmed}
    acknowledged = {body for _, workers in lives for each in workers for body in each.acknowledged}
    assert len(confirmed) > 20 * CYCLES
    with broker.serving(tmp_path) as target:
        channel = connect(target).channel()
        found = take_until(channel, queues, confirmed - acknowledged)
    lost = confirmed - acknowledged - found
    assert not lost, f"{len(lost)} of {len(confirmed)}, like {min(lost)[:60]!r}; {queues}"
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()
