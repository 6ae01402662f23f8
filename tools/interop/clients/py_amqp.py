"""py-amqp's integration tests."""

from __future__ import annotations

from running import pytest
from sources import Sdist
from suite import Outcome, Suite, Workplace

TESTS = "t/integration"


def run(workplace: Workplace) -> list[Outcome]:
    """Without the half that repeats everything over TLS."""
    where = {"RABBITMQ_HOST": "127.0.0.1", "RABBITMQ_5672_TCP": str(workplace.port)}
    return pytest(workplace, TESTS, "-k", "not tls", environment=where)


SUITE = Suite("py_amqp", "5.4.2", Sdist("amqp", "5.4.2", TESTS), run)
