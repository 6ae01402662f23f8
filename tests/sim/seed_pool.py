"""Seeds run in two processes: one that runs them all, in the process of a test, would be the last
test to end. They run the compiled build, when there is one (tests/support/build.py); tests compare
the traces of some with those of the sources.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final, TypeVar

from support.build import BUILD
from support.collector import collect_seldom

WORKERS: Final = 2
CHUNK: Final = 5
"""Seeds that a process takes at once."""

NICENESS: Final = 5
"""Seeds take the CPU time that others leave, who wait for one another: they begin first, and fill
what would be idle."""

Report = TypeVar("Report")


def prepare(build: str) -> None:
    """Said to each process, before it imports anything of the package."""
    sys.path.insert(0, build)
    os.nice(NICENESS)
    collect_seldom()


def reports_of(run: Callable[[int], Report], seeds: Iterable[int]) -> list[Report]:
    """What came of each seed."""
    context = get_context("spawn")
    with ProcessPoolExecutor(WORKERS, context, prepare, [str(BUILD)]) as pool:
        return list(pool.map(run, seeds, chunksize=CHUNK))
