"""aiormq's tests."""

from __future__ import annotations

from running import pytest
from sources import Sdist
from suite import Outcome, Suite, Workplace

TESTS = "tests"


def run(workplace: Workplace) -> list[Outcome]:
    """Without the half that repeats everything over TLS."""
    plugins = ("aiomisc", "broker_of_interop")
    return pytest(workplace, TESTS, "-k", "not amqps", plugins=plugins)


SUITE = Suite(
    "aiormq",
    "7.2.4",
    Sdist("aiormq", "7.2.4", TESTS),
    run,
    takes_long=True,
)
