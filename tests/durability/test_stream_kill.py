"""Goal: what a stream has confirmed is there after kill -9, in order, once, at its offset.

Method: the real process, killed at a random moment under publishers that wait for each confirm, a
few times on one directory; small segments, so that files are begun and ended all the time. Then
everything is read from the first offset on.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pika
from pika.exceptions import AMQPError

from support import broker

CYCLES = 5
PUBLISHERS = 3
ARGUMENTS = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 30_000}
PATIENCE_SECONDS = 240.0


class Publisher(Thread):
    """Publishes numbered messages, one confirm after the other, until the broker is gone."""

    def __init__(self, target: broker.Target, number: int, seed: int) -> None:
        super().__init__()
        self.target = target
        self.number = number
        self.random = Random(seed)
        self.sent: list[bytes] = []
        self.confirmed = 0

    def run(self) -> None:
        with suppress(AMQPError, OSError):
            channel = connect(self.target).channel()
            channel.confirm_delivery()
            while True:
                body = b"%d %d " % (self.number, len(self.sent))
                body += b"." * self.random.choice((0, 50, 50, 5000))
                self.sent.append(body)
                channel.basic_publish("", "s", body)
                self.confirmed = len(self.sent)


def connect(target: broker.Target) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(target.user, target.password)
    where = pika.ConnectionParameters(target.host, target.port, credentials=credentials)
    return pika.BlockingConnection(where)


def read_all(target: broker.Target, count: int) -> list[tuple[int, bytes]]:
    """The first `count` messages."""
    connection = connect(target)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=500)
    got: list[tuple[int, bytes]] = []

    def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        got.append((properties.headers["x-stream-offset"], body))
        assert not method.redelivered
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume("s", take, arguments={"x-stream-offset": "first"})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} came"
        connection.process_data_events(0.1)
    connection.close()
    return got


def cycle(directory: Path, number: int, random: Random) -> list[Publisher]:
    """One life of the broker; it ends by kill -9."""
    errors = directory / "stderr.txt"
    process: broker.Process = broker.start(directory, errors=errors)
    target = broker.await_ready(process, errors)
    connect(target).channel().queue_declare("s", durable=True, arguments=ARGUMENTS)
    publishers = [
        Publisher(target, number * PUBLISHERS + each, random.randrange(1 << 30))
        for each in range(PUBLISHERS)
    ]
    for publisher in publishers:
        publisher.start()
    enough = random.randrange(60, 300)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(publisher.confirmed for publisher in publishers) < enough:
        assert time.monotonic() < deadline, "hardly anything is confirmed"
        time.sleep(0.005)
    process.kill()
    process.wait()
    for publisher in publishers:
        publisher.join()
    if process.stdout is not None:
        process.stdout.close()
    return publishers


def test_nothing_a_stream_has_confirmed_is_lost_by_kill_9(tmp_path: Path) -> None:
    random = Random(4)
    lives = [each for number in range(CYCLES) for each in cycle(tmp_path, number, random)]
    confirmed = sum(publisher.confirmed for publisher in lives)
    assert confirmed > 50 * CYCLES
    with broker.serving(tmp_path) as target:
        depth = connect(target).channel().queue_declare("s", durable=True, passive=True).method
        got = read_all(target, depth.message_count)
    assert [offset for offset, _ in got] == list(range(len(got)))
    for publisher in lives:
        mark = b"%d " % publisher.number
        mine = [body for _, body in got if body.startswith(mark)]
        assert mine == publisher.sent[: len(mine)]
        assert len(mine) >= publisher.confirmed
    files = list(tmp_path.glob("streams/*/*.stream"))
    assert len(files) > CYCLES
