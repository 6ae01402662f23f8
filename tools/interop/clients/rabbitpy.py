"""rabbitpy's integration tests."""

from __future__ import annotations

from running import pytest
from sources import Sdist
from suite import Outcome, Suite, Workplace

TESTS = "tests/test_integration.py"


def run(workplace: Workplace) -> list[Outcome]:
    where = {"RABBITMQ_URL": workplace.url + "%2F"}
    return pytest(workplace, TESTS, "tests/integration", environment=where)


SUITE = Suite("rabbitpy", "3.0.2", Sdist("rabbitpy", "3.0.2", TESTS), run)
