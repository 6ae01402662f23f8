"""What is in memory of a queue that becomes lazy, or is not lazy any more.

RabbitMQ pages out so little that it would be one load again at once not at all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika_client import PATIENCE_SECONDS, Declare, fetch_all, numbered, wait_for_depth

from support.broker import Ctl, Target

COUNT = 300
Policy = Callable[[str | None], None]
InRam = Callable[[str, int], None]


@pytest.fixture
def policy(ctl: Ctl, name: str) -> Iterator[Policy]:
    """Says the mode of all queues of this test by policy; None: there is none any more."""

    def change(mode: str | None) -> None:
        if mode is None:
            ctl("clear_policy", name)
        else:
            definition = json.dumps({"queue-mode": mode})
            ctl("set_policy", "--apply-to", "queues", name, f"^{name}", definition)

    yield change
    ctl.run("clear_policy", name)


@pytest.fixture
def in_ram(ctl: Ctl, target: Target) -> InRam:
    """Waits until so many messages are in RAM."""

    def now(queue: str) -> int:
        told = json.loads(ctl("list_queues", "name", "messages_ready_ram", "--formatter", "json"))
        return next(int(row["messages_ready_ram"]) for row in told if row["name"] == queue)

    def wait(queue: str, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (target.is_own or count) and now(queue) != count:
            assert time.monotonic() < deadline, f"{now(queue)} messages are in memory"
            time.sleep(0.1)

    return wait


def fill(channel: BlockingChannel, queue: str, start: int = 0) -> None:
    """Every other one persistent."""
    for number, body in enumerate(numbered(COUNT, start)):
        properties = pika.BasicProperties(delivery_mode=1 + number % 2)
        channel.basic_publish("", queue, body, properties)


def test_by_policy_it_becomes_lazy_and_is_not_any_more(
    channel: BlockingChannel, declare: Declare, policy: Policy, in_ram: InRam
) -> None:
    queue = declare()
    fill(channel, queue)
    wait_for_depth(channel, queue, COUNT)
    in_ram(queue, COUNT)
    policy("lazy")
    in_ram(queue, 0)
    fill(channel, queue, COUNT)
    wait_for_depth(channel, queue, 2 * COUNT)
    in_ram(queue, 0)
    policy("default")  # without any policy RabbitMQ's queue would stay as it is
    assert fetch_all(channel, queue) == numbered(2 * COUNT)
    fill(channel, queue)
    wait_for_depth(channel, queue, COUNT)
    in_ram(queue, COUNT)


def test_the_argument_counts_more_than_the_policy(
    channel: BlockingChannel, declare: Declare, policy: Policy, in_ram: InRam
) -> None:
    policy("lazy")
    queue = declare(queue_mode="default")
    fill(channel, queue)
    wait_for_depth(channel, queue, COUNT)
    in_ram(queue, COUNT)


def test_with_priorities(
    channel: BlockingChannel, declare: Declare, policy: Policy, in_ram: InRam
) -> None:
    queue = declare(max_priority=2)
    for number, body in enumerate(numbered(COUNT)):
        channel.basic_publish("", queue, body, pika.BasicProperties(priority=number % 3))
    wait_for_depth(channel, queue, COUNT)
    policy("lazy")
    in_ram(queue, 0)
    bodies = numbered(COUNT)
    assert fetch_all(channel, queue) == [*bodies[2::3], *bodies[1::3], *bodies[0::3]]
