"""kombu's integration tests of its transport on py-amqp."""

from __future__ import annotations

from running import pytest
from sources import Sdist
from suite import Outcome, Suite, Workplace

TESTS = "t/integration/test_py_amqp.py"


def run(workplace: Workplace) -> list[Outcome]:
    where = {"RABBITMQ_HOST": "127.0.0.1", "RABBITMQ_5672_TCP": str(workplace.port)}
    return pytest(workplace, TESTS, environment=where)


SUITE = Suite(
    "kombu",
    "5.7.0",
    Sdist("kombu", "5.7.0", TESTS),
    run,
)
