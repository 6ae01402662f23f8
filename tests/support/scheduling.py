"""How a whole run of the tests is spread over processes (pytest-xdist, `--numprocesses`).

A process takes file after file, so that what the tests of a file share is made once; where they
are long and share nothing, it takes test after test. Tests that have a Spark session (one a
process; its JVM takes a gigabyte) go to three processes only: those of the AMQP data source in two
halves, and those of the lab. What takes longest begins first, so that nothing long is left to run
alone.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).resolve().parents[2]

SPARK = "tests/spark/"
SESSION = re.compile(r"\bspark: SparkSession\b")
"""What a test file has that asks for the session; others start Spark themselves, or not at all."""

HALF = "tests/spark/test_amqp_n"
"""About as many seconds are before this name as behind it."""

SINGLY = (
    "tests/cluster/test_real_links",
    "tests/durability/test_kill",
    "tests/durability/test_quorum_in_memory",
    "tests/durability/test_strace",
    "tests/sim/test_canaries",
    "tests/sim/test_damage",
    "tests/sim/test_quorum_crashes",
    "tests/sim/test_raft_storage_crashes",
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

SLOW = (
    "tests/cluster/",
    "tests/durability/",
    "tests/interop/",
    "tests/lab/",
    "tests/sim/",
    SPARK,
)


class FileScheduling(LoadFileScheduling):
    """By file, but all that share a Spark session as if they were one, and some one by one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(SINGLY):
            return nodeid
        return session_of(file_of(nodeid)) or super()._split_scope(nodeid)


@cache
def session_of(file: str) -> str:
    """What the tests of a file share their Spark session with; "" when they have none."""
    if not file.startswith(SPARK) or not SESSION.search((ROOT / file).read_text(encoding="utf-8")):
        return ""
    if not file.startswith("tests/spark/test_amqp_"):
        return "lab"
    return "one half" if file < HALF else "other half"


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    return FileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: order(item.nodeid))


def order(nodeid: str) -> tuple[bool, int, bool]:
    """Tests with less begin first."""
    places = (place for place, name in enumerate(LONGEST) if nodeid.startswith(name))
    return (
        not session_of(file_of(nodeid)),
        next(places, len(LONGEST)),
        not nodeid.startswith(SLOW),
    )
