"""Goal: mirrored queues of whole nodes keep their promises in seeded runs while nodes die, links
are cut and policies change, and planted bugs are noticed.

Method: `python -m sluicemq.sim.nodes SEED --mirrored`, some seeds in the run, all with
`make thorough`, in two processes; one of them again from the sources.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest

from sim.first_seeds import is_caught, planted
from sim.mirrored_nodes_canaries import CANARIES
from sim.seed_pool import reports_of
from sluicemq.sim.nodes import run
from sluicemq.sim.nodes.run import NodesReport, simulate_mirrored
from support.thorough import thorough

BUSY: Final = (2, 3, 4, 8, 10, 13, 83)
"""Seeds with faults while much is published. In some a mirror goes on without a majority."""
ONCE_FAILED: Final = (525, 654)
"""Seeds that once failed: the member that had gone on alone did not count for what its former group
had committed; a node that had stood still had its member go on alone, though there was a master."""
RUN: Final = (*thorough(BUSY, range(100)), *ONCE_FAILED)
ENGAGED: Final = thorough(
    {"promotions": 3, "lost by promotions": 2}, {"promotions": 15, "lost by promotions": 4}
)
"""In so many of these a mirror goes on without a majority, or without confirmed messages."""
SEEDS: Final = 60
FIRST: Final = {"a_deposed_master_goes_on": 60}
"""The first of these seeds, where it is not 0: this bug shows in one seed of thirty, and in none
before."""
IN_TIME_MS: Final = 15_000
"""What a bug holds up is not waited for as long as elsewhere."""


@cache
def reports() -> list[NodesReport]:
    """All seeds, once a test run."""
    return reports_of(simulate_mirrored, RUN)


@pytest.mark.timeout(1800)
def test_no_promise_is_broken() -> None:
    failed = [report.line() for report in reports() if report.failure]
    assert not failed, "replay with `python -m sluicemq.sim.nodes SEED --mirrored`"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("figure", ["promotions", "lost by promotions"])
def test_mirrors_go_on_without_a_majority(figure: str) -> None:
    engaged = sum(bool(report.figures[figure]) for report in reports())
    assert engaged >= ENGAGED[figure], "what these seeds do not reach is not checked"


@pytest.mark.timeout(1800)
def test_a_seed_is_a_run() -> None:
    assert simulate_mirrored(RUN[0]).digest == reports()[0].digest


@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch, rewrite: bool) -> None:
    monkeypatch.setattr(run, "IN_TIME_MS", IN_TIME_MS)

    def fails(seed: int) -> bool:
        with planted(CANARIES[name]):
            return bool(simulate_mirrored(seed).failure)

    first = FIRST.get(name, 0)
    found = is_caught(f"mirrored nodes: {name}", range(first, first + SEEDS), fails, rewrite)
    assert found, f"{name} passed {SEEDS} seeds"
