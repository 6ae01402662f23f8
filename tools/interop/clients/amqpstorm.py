"""AMQPStorm's functional tests."""

from __future__ import annotations

from running import pytest
from sources import Sdist
from suite import Outcome, Suite, Workplace

TESTS = "amqpstorm/tests/functional"


def run(workplace: Workplace) -> list[Outcome]:
    """Without those over TLS, and those of the HTTP API. The client knows only its default port:
    that is made the broker's."""
    connection = workplace.sources / "amqpstorm" / "connection.py"
    connection.write_text(connection.read_text().replace("5672", str(workplace.port)))
    user = {"AMQP_USERNAME": "guest", "AMQP_PASSWORD": "guest"}
    where = user | {"AMQP_HOST": "127.0.0.1", "AMQP_URI": workplace.url + "%2F"}
    left_out = [f"--ignore={TESTS}/{name}" for name in ("management", "ssl", "test_web_based.py")]
    return pytest(workplace, TESTS, *left_out, environment=where)


SUITE = Suite(
    "amqpstorm",
    "3.1.4",
    Sdist("amqpstorm", "3.1.4", TESTS),
    run,
    what="its functional tests",
)
