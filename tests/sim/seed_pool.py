"""Seeds run in two processes: one that runs them all, in the process of a test, would be the last
test to end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final, TypeVar

from support.collector import collect_seldom

WORKERS: Final = 2
CHUNK: Final = 5
"""Seeds that a process takes at once."""

NICENESS: Final = 5
"""Seeds take the CPU time that others leave, who wait for one another: they begin first, and fill
what would be idle."""

Report = TypeVar("Report")


def give_way() -> None:
    """Said to each process."""
    os.nice(NICENESS)
    collect_seldom()


def reports_of(run: Callable[[int], Report], seeds: Iterable[int]) -> list[Report]:
    """What came of each seed."""
    context = get_context("spawn")
    with ProcessPoolExecutor(WORKERS, context, initializer=give_way) as pool:
        return list(pool.map(run, seeds, chunksize=CHUNK))
