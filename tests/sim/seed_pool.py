"""Seeds run in two processes: one that runs them all, in the process of a test, would be the last
test to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final, TypeVar

from support.collector import collect_seldom

WORKERS: Final = 2
CHUNK: Final = 5
"""Seeds that a process takes at once."""

Report = TypeVar("Report")


def reports_of(run: Callable[[int], Report], seeds: Iterable[int]) -> list[Report]:
    """What came of each seed."""
    context = get_context("spawn")
    with ProcessPoolExecutor(WORKERS, context, initializer=collect_seldom) as pool:
        return list(pool.map(run, seeds, chunksize=CHUNK))
