"""How a whole run of the tests is spread over processes (pytest-xdist, `--numprocesses`).

A process takes file after file, so that what the tests of a file share is made once; where they
are long and share nothing, it takes test after test. All tests that have the Spark session go to
one process, and all that have the cluster of Spark's to another: their JVMs take gigabytes, and
long to get warm. What takes longest begins first, so that nothing long is left to run alone.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SHARED: Final = {"spark": "session", "cluster_jobs": "cluster", "spark_master": "cluster"}
"""Fixtures whose tests go to one process, and the name of that group."""

SINGLY = (
    "tests/cluster/test_real_links",
    "tests/cluster/test_torture",
    "tests/durability/test_kill",
    "tests/durability/test_quorum_in_memory",
    "tests/durability/test_strace",
    "tests/sim/test_canaries",
    "tests/spark/test_amqp_kill",
    "tests/spark/test_amqp_languages",
)
"""Their tests are long and share nothing that takes long."""

LONGEST = (
    "tests/sim/test_nodes_seeds",
    "tests/sim/test_seeds",
    "tests/spark/test_amqp_languages",
    "tests/spark/test_amqp_example_kill",
    "tests/spark/test_amqp_kill",
    "tests/cluster/test_torture",
    "tests/sim/test_quorum_crashes",
    "tests/interop/test_durable",
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
    "tests/spark/",
)


class FileScheduling(LoadFileScheduling):
    """By file, but all that share something of Spark's as if they were one, and some one by one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.rfind("@") > nodeid.rfind("]"):  # where xdist puts the name of a group
            return nodeid.rpartition("@")[2]
        return nodeid if nodeid.startswith(SINGLY) else super()._split_scope(nodeid)


def group_of(item: pytest.Item) -> str:
    """The group whose tests share something of Spark's with this one, or ""."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return next((SHARED[name] for name in fixtures if name in SHARED), "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    return FileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In order; with `--dist loadgroup` xdist adds the names of groups to those of tests."""
    items.sort(key=order)
    for item in items:
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))


def order(item: pytest.Item) -> tuple[bool, int, bool]:
    """Tests with less begin first."""
    places = (place for place, name in enumerate(LONGEST) if item.nodeid.startswith(name))
    return (
        not group_of(item),
        next(places, len(LONGEST)),
        not item.nodeid.startswith(SLOW),
    )
