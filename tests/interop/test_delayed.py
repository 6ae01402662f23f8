"""Goal: a confirmed persistent message that an exchange delays survives kill -9, and comes when it
is due, not before. Method: a broker of our own, killed while messages wait and while they are due.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika_client import fetch_all
from test_durable import Life

MESSAGES = 300
LONGEST_MS = 4000
LARGE = 20_000
"""Bytes: every tenth body is too large for the queue index."""
SOME = 20
"""Messages that are taken between two looks whether it is time for the next kill."""
PATIENCE_S = 240.0


@pytest.fixture
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Life]:
    if request.config.getoption("--broker-url"):
        pytest.skip("needs a broker of our own")
    life = Life(tmp_path)
    yield life
    life.end(signal.SIGKILL)
    assert "Traceback" not in life.said()


def declare(channel: BlockingChannel) -> None:
    arguments = {"x-delayed-type": "topic"}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
    channel.queue_declare("arrived", durable=True)
    channel.queue_bind("arrived", "later", "task.#")


def publish(channel: BlockingChannel, number: int, delay_ms: int) -> None:
    """Returns when it is confirmed. The body says when it is due."""
    due = time.time() + delay_ms / 1000
    body = f"{number} {due}".encode().ljust(LARGE if number % 10 == 0 else 0)
    properties = pika.BasicProperties(headers={"x-delay": delay_ms}, delivery_mode=2)
    channel.basic_publish("later", f"task.{number % 7}", body, properties)


def test_nothing_is_lost_and_nothing_comes_early_when_the_broker_is_killed(life: Life) -> None:
    channel = life.start()
    declare(channel)
    for number in range(MESSAGES):
        publish(channel, number, 200 + number * 37 % (LONGEST_MS - 200))
    arrived: dict[int, float] = {}
    end = time.monotonic() + PATIENCE_S
    kills = 3
    while len(arrived) < MESSAGES and time.monotonic() < end:
        for body in fetch_all(channel, "arrived", SOME):
            number, due = body.split()
            arrived[int(number)] = time.time() - float(due)
        time.sleep(0.05)
        if kills and len(arrived) > MESSAGES * (4 - kills) // 5:
            kills -= 1
            channel = life.again(signal.SIGKILL)
    assert kills == 0
    assert sorted(arrived) == list(range(MESSAGES))
    assert min(arrived.values()) > -0.01


def test_what_is_due_while_the_broker_is_down_comes_when_it_is_back(life: Life) -> None:
    channel = life.start()
    declare(channel)
    for number, delay_ms in enumerate((3000, 1000, 2000)):
        publish(channel, number, delay_ms)
    life.end(signal.SIGKILL)
    time.sleep(3)
    channel = life.start()
    bodies: list[bytes] = []
    end = time.monotonic() + PATIENCE_S
    while len(bodies) < 3 and time.monotonic() < end:
        bodies += fetch_all(channel, "arrived")
    assert [int(body.split()[0]) for body in bodies] == [1, 2, 0]
