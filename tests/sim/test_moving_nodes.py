"""Goal: clusters keep their promises in seeded runs while nodes join, lose their data, are removed
and come back as new ones, and planted bugs are noticed.

Method: `python -m sluicemq.sim.nodes SEED --moving`, some seeds in the run, all with
`make thorough`.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest

from sim.first_seeds import is_caught, planted
from sim.moving_nodes_canaries import CANARIES
from sluicemq.sim.nodes import run
from sluicemq.sim.nodes.run import NodesReport, simulate_moving
from support.thorough import thorough

SEEDS: Final = 50
RUN: Final = range(thorough(8, 100))
IN_TIME_MS: Final = 15_000
"""What a bug holds up is not waited for as long as elsewhere."""


ONCE_FAILED: Final = {
    42100017: "a queue was declared with a member on a node that was removed just before",
    48021840: "a node was away from the declaration of a queue until members were added to it",
    48070145: "an entry that waited to be read was sent as what a snapshot had left of it",
    48020609: "a node that was removed before it heard of its cluster did not end",
}
"""Seeds that once failed, and why."""


@cache
def report(seed: int) -> NodesReport:
    """That of a seed, once a test run."""
    return simulate_moving(seed)


@pytest.mark.parametrize("seed", RUN)
def test_no_promise_is_broken(seed: int) -> None:
    assert not report(seed).failure, "\n".join(report(seed).lines())


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_seed_that_once_failed_passes(seed: int) -> None:
    assert not report(seed).failure, "\n".join([ONCE_FAILED[seed], *report(seed).lines()])


@pytest.mark.parametrize("figure", ["joined nodes", "departed nodes"])
def test_there_is_something_to_check(figure: str) -> None:
    assert sum(report(seed).figures[figure] for seed in RUN) >= len(RUN) // 4


@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch, rewrite: bool) -> None:
    monkeypatch.setattr(run, "IN_TIME_MS", IN_TIME_MS)

    def fails(seed: int) -> bool:
        with planted(CANARIES[name]):
            return bool(simulate_moving(seed).failure)

    found = is_caught(f"moving nodes: {name}", range(SEEDS), fails, rewrite)
    assert found, f"{name} passed {SEEDS} seeds"
