"""aio-pika's tests of its robust connection, which repeat the others: they take as long, and run
beside them."""

from __future__ import annotations

from running import pytest
from sources import Sdist
from suite import Outcome, Suite, Workplace

from clients.aio_pika import NO_RACES, PLUGINS, ROBUST, TESTS


def run(workplace: Workplace) -> list[Outcome]:
    return pytest(workplace, f"{TESTS}/{ROBUST}", "-k", NO_RACES, plugins=PLUGINS)


SUITE = Suite(
    "aio_pika_robust",
    "10.2.1",
    Sdist("aio-pika", "10.2.1", TESTS),
    run,
    what="its tests of robust connections",
    takes_long=True,
)
