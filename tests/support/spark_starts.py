"""Tests that run again when Spark gave one of its Python processes too little time.

Spark waits ten seconds until a process that it has started connects, which no setting changes. On
a machine under load that can be too short; the process has not run anything of ours until then.
"""

from __future__ import annotations

from typing import Final

import pytest
from _pytest.runner import runtestprotocol

TOO_LATE: Final = "Python worker failed to connect back"
TRIES: Final = 3


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(TRIES):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(came_too_late(report) for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def came_too_late(report: pytest.TestReport) -> bool:
    """Did the test itself fail, and for this?"""
    return report.when == "call" and report.failed and TOO_LATE in report.longreprtext
