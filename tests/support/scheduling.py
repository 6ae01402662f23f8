"""How a whole run of the tests is spread over processes (pytest-xdist, `--numprocesses`).

A process takes file after file, so that what the tests of a file share is made once; where they
are long and share nothing, it takes test after test. Tests that have a Spark session, or a cluster
of Spark's, go to one process each: their JVMs take gigabytes, and long to get warm. What takes
longest begins first, so that nothing long is left to run alone.
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
CLUSTER = re.compile(r"\b(spark_master: str|cluster_jobs: Path)\b")
"""What a test file has that asks for the session, or for the cluster; others start Spark
themselves, or not at all."""

SINGLY = (
    "tests/cluster/test_real_links",
    "tests/durability/test_kill",
    "tests/durability/test_quorum_in_memory",
    "tests/durability/test_strace",
    "tests/sim/test_canaries",
    "tests/spark/test_amqp_kill",
    "tests/spark/test_amqp_languages",
)
"""Their tests are long and share nothing that takes long."""

LONGEST = (
    "tests/sim/test_seeds",
    "tests/spark/test_amqp_languages",
    "tests/spark/test_amqp_example_kill",
    "tests/interop/test_durable",
    "tests/sim/test_nodes_seeds",
    "tests/sim/test_quorum_crashes",
    "tests/sim/test_link_seeds",
    "tests/lab/test_run",
    *SINGLY,
)
"""Files that take longer than a minute in all, in this order; what Spark shares goes before."""

SLOW = (
    "tests/cluster/",
    "tests/durability/",
    "tests/interop/",
    "tests/lab/",
    "tests/management/",
    "tests/sim/",
    SPARK,
)


class FileScheduling(LoadFileScheduling):
    """By file, but all that share something of Spark's as if they were one, and some one by one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(SINGLY):
            return nodeid
        return shared_by(file_of(nodeid)) or super()._split_scope(nodeid)


@cache
def shared_by(file: str) -> str:
    """What the tests of a file share with others: the Spark session, the cluster, or ""."""
    if not file.startswith(SPARK):
        return ""
    text = (ROOT / file).read_text(encoding="utf-8")
    if SESSION.search(text):
        return "a session"
    return "a cluster" if CLUSTER.search(text) else ""


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
        not shared_by(file_of(nodeid)),
        next(places, len(LONGEST)),
        not nodeid.startswith(SLOW),
    )
