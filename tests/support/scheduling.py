"""How a whole run of the tests is spread over processes (pytest-xdist, `--numprocesses`).

A process takes file after file, so that what the tests of a file share is made once. Tests that
have a Spark session (one a process; its JVM takes a gigabyte) go to two processes only: those of
the AMQP data source, and those of the lab. What takes longest begins first.
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

SLOW = ("tests/durability/", "tests/interop/", "tests/lab/", "tests/sim/")


class FileScheduling(LoadFileScheduling):
    """By file, but all that share a Spark session as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
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


def order(nodeid: str) -> tuple[bool, bool, bool]:
    """Tests with less begin first."""
    return (
        not session_of(nodeid),
        not nodeid.startswith(OWN_DRIVERS),
        not nodeid.startswith(SLOW),
    )
