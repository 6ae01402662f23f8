"""How a whole run of the tests is spread over processes (pytest-xdist, `--numprocesses`).

A process takes file after file, so that what the tests of a file share is made once; where they
are long and share nothing, it takes test after test. Tests that have a Spark session (one a
process; its JVM takes a gigabyte) go to two processes only: those of the AMQP data source, and
those of the lab. What takes longest begins first, so that nothing long is left to run alone.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SESSIONS = ("tests/spark/test_amqp_", "tests/spark/")
OWN_DRIVERS = (
    "tests/spark/test_amqp_attempts",
    "tests/spark/test_amqp_example_kill",
    "tests/spark/test_amqp_executors",
    "tests/spark/test_amqp_kill",
    "tests/spark/test_amqp_languages",
    "tests/spark/test_amqp_shuffles",
)
"""These start Spark themselves, in other processes: they are spread as files are."""

SINGLY = (
    "tests/cluster/test_real_links",
    "tests/durability/test_kill",
    "tests/durability/test_strace",
    "tests/sim/test_canaries",
    "tests/sim/test_damage",
    "tests/sim/test_storage_crashes",
    "tests/spark/test_amqp_kill",
)
"""Their tests are long and share nothing that takes long."""

LONGEST = (
    "tests/spark/test_amqp_kill",
    "tests/sim/test_seeds",
    "tests/spark/test_amqp_attempts",
    "tests/spark/test_amqp_shuffles",
    "tests/spark/test_amqp_executors",
    "tests/spark/test_amqp_languages",
    "tests/spark/test_amqp_example_kill",
    "tests/interop/test_durable",
    "tests/sim/test_link_seeds",
    *SINGLY,
)
"""Files that take longer than a minute in all, in this order; the Spark sessions go before them."""

SLOW = ("tests/cluster/", "tests/durability/", "tests/interop/", "tests/lab/", "tests/sim/")


class FileScheduling(LoadFileScheduling):
    """By file, but all that share a Spark session as if they were one, and some one by one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(SINGLY):
            return nodeid
        return session_of(nodeid) or super()._split_scope(nodeid)


def session_of(nodeid: str) -> str:
    """What a test shares its Spark session with; "" when it has none."""
    if nodeid.startswith(OWN_DRIVERS):
        return ""
    return next((session for session in SESSIONS if nodeid.startswith(session)), "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    return FileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: order(item.nodeid))


def order(nodeid: str) -> tuple[bool, int, bool]:
    """Tests with less begin first."""
    places = (place for place, name in enumerate(LONGEST) if nodeid.startswith(name))
    return (
        not session_of(nodeid),
        next(places, len(LONGEST)),
        not nodeid.startswith((*OWN_DRIVERS, *SLOW)),
    )
