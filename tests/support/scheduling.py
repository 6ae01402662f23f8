"""How a whole run of the tests is spread over processes (pytest-xdist, `--numprocesses`).

A process takes file after file, so that what the tests of a file share is made once; where they
are long and share nothing, it takes test after test. All tests that have the Spark session go to
one process, and all that have the cluster of Spark's to another: their JVMs take gigabytes, and
long to get warm. What takes longest begins first, so that nothing long is left to run alone; and
as no process has more to do than the one with the Spark session, all others give way to it.
"""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

ROOT: Final = Path(__file__).resolve().parents[2]
SPARK: Final = "tests/spark/"

SHARED: Final = {"spark": "session", "cluster_jobs": "cluster", "spark_master": "cluster"}
"""Fixtures whose tests go to one process, and the name of that group."""

ASKED_BY_ALL: Final = re.compile(r'\bpytestmark = .*\busefixtures\("(\w+)"\)')
ALL: Final = "all"
"""The name under which the group of whole files is."""

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
    "tests/spark/test_amqp_kill",
    "tests/cluster/test_torture",
    "tests/interop/test_durable",
    "tests/durability/disk_full",
    "tests/lab/test_run",
    "tests/management/test_browser",
    "tests/durability/test_faults",
    "tests/cluster/test_founding_nodes",
    "tests/house/test_packages",
    "tests/testing/",
    *SINGLY,
    "tests/wire/test_limits",
)
"""Files that take longest, in this order; what Spark shares goes before. Simulations do nothing but
compute: those that run in processes of their own begin first, and give way to all others."""

SLOW = (
    "tests/cluster/",
    "tests/durability/",
    "tests/interop/",
    "tests/lab/",
    "tests/management/",
    "tests/tls/",
    "tests/conformance/test_net",
    SPARK,
)
"""These wait more than they compute. What does nothing but compute comes last."""

NICENESS: Final = 3
"""Of a process with tests that share nothing of Spark's, and of all that it starts."""


class FileScheduling(LoadFileScheduling):
    """By file, but all that share something of Spark's as if they were one, and some one by one."""

    def _split_scope(self, nodeid: str) -> str:
        if group := group_of(nodeid):
            return group
        return nodeid if nodeid.startswith(SINGLY) else super()._split_scope(nodeid)


def group_of(nodeid: str) -> str:
    """The group whose tests share something of Spark's with this one, or ""."""
    file, _, test = nodeid.partition("[")[0].partition("::")
    if not file.startswith(SPARK):
        return ""
    groups = groups_in(file)
    return groups.get(test, groups.get(ALL, ""))


@cache
def groups_in(file: str) -> dict[str, str]:
    """By name, the group of each function of a test file that asks for something shared, or for a
    fixture of the file that does. (Who spreads the tests has their names alone.)"""
    text = (ROOT / file).read_text(encoding="utf-8")
    tree = ast.parse(text)
    asked = {
        node.name: [each.arg for each in node.args.args]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    groups, known = dict(SHARED), 0
    while len(groups) > known:
        known = len(groups)
        for name, arguments in asked.items():
            found = next((groups[each] for each in arguments if each in groups), "")
            if found:
                groups.setdefault(name, found)
    for name in ASKED_BY_ALL.findall(text):
        groups[ALL] = groups.get(name, "")
    return groups


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    return FileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if hasattr(item.config, "workerinput") and not group_of(item.nodeid):
        give_way()


@cache
def give_way() -> None:
    """Have this process take the CPU time that Spark leaves, from now on."""
    os.nice(NICENESS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        asked = {SHARED[name] for name in getattr(item, "fixturenames", ()) if name in SHARED}
        known = asked <= {group_of(item.nodeid)}
        assert known, (
            f"{item.nodeid} shares {asked}, which its file does not say so that it is seen"
        )
    items.sort(key=lambda item: order(item.nodeid))


def order(nodeid: str) -> tuple[bool, int, bool]:
    """Tests with less begin first."""
    places = (place for place, name in enumerate(LONGEST) if nodeid.startswith(name))
    return (
        not group_of(nodeid),
        next(places, len(LONGEST)),
        not nodeid.startswith(SLOW),
    )
