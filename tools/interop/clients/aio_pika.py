"""aio-pika's tests, but for those of its robust connection, which `aio_pika_robust.py` has."""

from __future__ import annotations

from running import pytest
from sources import Sdist
from suite import Outcome, Suite, Workplace

TESTS = "tests"
ROBUST = "test_amqp_robust.py"
PLUGINS = ("aiomisc", "broker_of_interop")
NO_RACES = "not reconnect_stairway and not survives_close_timeout"


def run(workplace: Workplace) -> list[Outcome]:
    """Without those over TLS, those that look for leaks in the client by timing, and those that
    race the client against a proxy: they fail now and then, against RabbitMQ too."""
    names = ("test_amqps.py", "test_memory_leak.py", ROBUST)
    left_out = [f"--ignore={TESTS}/{name}" for name in names]
    return pytest(workplace, TESTS, *left_out, "-k", NO_RACES, plugins=PLUGINS)


SUITE = Suite(
    "aio_pika",
    "10.2.1",
    Sdist("aio-pika", "10.2.1", TESTS),
    run,
    takes_long=True,
)
