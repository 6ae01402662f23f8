"""aio-pika's tests."""

from __future__ import annotations

from running import pytest
from sources import Sdist
from suite import Outcome, Suite, Workplace

TESTS = "tests"


def run(workplace: Workplace) -> list[Outcome]:
    """Without those over TLS, those that look for leaks in the client by timing, and those that
    race the client against a proxy: they fail now and then, against RabbitMQ too. Over quorum
    queues without the file that repeats another one, for on RabbitMQ that takes very long there."""
    plugins = ("aiomisc", "broker_of_interop")
    left_out = ["--ignore=tests/test_amqps.py", "--ignore=tests/test_memory_leak.py"]
    if workplace.over_quorum:
        left_out.append("--ignore=tests/test_amqp_robust.py")
    races = "not reconnect_stairway and not survives_close_timeout"
    return pytest(workplace, TESTS, *left_out, "-k", races, plugins=plugins)


SUITE = Suite(
    "aio_pika",
    "10.2.1",
    Sdist("aio-pika", "10.2.1", TESTS),
    run,
)
