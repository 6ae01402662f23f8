"""Python's collector of garbage, in a process that runs tests.

Collecting thousands of tests makes millions of objects that stay. The collector would go through
them again and again, a fifth of the CPU time until the first test runs; so it begins behind them.
"""

from __future__ import annotations

import gc

import pytest

from support.collector import collect_seldom

gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    collect_seldom()
