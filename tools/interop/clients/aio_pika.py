"""aio-pika's tests."""

from __future__ import annotations

from running import pytest
from sources import Sdist
from suite import Outcome, Suite, Workplace

TESTS = "tests"


def run(workplace: Workplace) -> list[Outcome]:
    """Without those over TLS, and those that look for leaks in the client by timing."""
    plugins = ("aiomisc_pytest", "broker_of_interop")
    left_out = ("--ignore=tests/test_amqps.py", "--ignore=tests/test_memory_leak.py")
    return pytest(workplace, TESTS, *left_out, plugins=plugins)


SUITE = Suite(
    "aio_pika",
    "10.2.1",
    Sdist("aio-pika", "10.2.1", TESTS),
    run,
    known=(
        ("*test_dlx*", "x-dead-letter-exchange and x-message-ttl have no effect yet"),
        ("*test_expiration*", "x-message-ttl has no effect yet"),
        ("*test_delivery_fail*", "x-max-length and x-overflow have no effect yet"),
    ),
)
