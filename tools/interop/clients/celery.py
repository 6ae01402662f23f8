"""Celery: this project's tests with real workers, as Celery's own need Redis besides."""

from __future__ import annotations

from running import project_pytest
from sources import Here
from suite import Outcome, Suite, Workplace


def run(workplace: Workplace) -> list[Outcome]:
    return project_pytest(workplace, "tests/interop/test_celery.py")


SUITE = Suite(
    "celery",
    "5.7.0",
    Here(),
    run,
    what="chords, retries, ETA, priorities, RPC results; this project's tests",
)
