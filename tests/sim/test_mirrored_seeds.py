"""Goal: a mirrored queue loses nothing that was confirmed, confirms nothing that is not on all
mirrors of the in-sync set, and goes on when mirrors die, in seeded runs; a seed is a run.

Method: run them all once, in two processes; run one again from the sources; hold what happened
against what the rules are there for.
"""

from __future__ import annotations

import sys
from functools import cache, partial

import pytest

from sim.seed_pool import reports_of
from sluicemq.sim.raft.__main__ import main
from sluicemq.sim.raft.mirrored_run import simulate_mirrored
from sluicemq.sim.raft.run import STEPS, Report
from support.thorough import thorough

SEEDS = range(thorough(40, 600))
STORED_SEEDS = range(1000, thorough(1012, 1300))
RUN_STEPS = thorough(4500, STEPS)

ENGAGED = {
    "masters": 70,
    "confirms": 750,
    "delivered": 2200,
    "drops": 60,
    "joins": 85,
    "held up": 3500,
    "handed over": 22,
    "flagged": 900,
    "snapshots": 150,
}
"""What must have happened over all seeds; about half of what does."""


@cache
def reports() -> list[Report]:
    """All seeds, once a test run."""
    return reports_of(partial(simulate_mirrored, steps=RUN_STEPS), SEEDS)


def test_nothing_is_lost() -> None:
    assert [report.line() for report in reports() if report.failure] == []


def test_nothing_is_lost_in_a_real_storage() -> None:
    """Bodies are read from the logs of a node's storage, which are rewritten to what is needed."""
    run = [simulate_mirrored(seed, RUN_STEPS, with_storage=True) for seed in STORED_SEEDS]
    assert [report.line() for report in run if report.failure] == []
    assert sum(report.figures["pieces"] for report in run) > 30


@pytest.mark.parametrize("figure", ENGAGED)
def test_there_is_something_to_check(figure: str) -> None:
    assert sum(report.figures[figure] for report in reports()) >= ENGAGED[figure]


def test_a_seed_is_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["raft", "5", "--count", "1", "--steps", str(RUN_STEPS), "--mirrored"]
    monkeypatch.setattr(sys, "argv", command)
    assert main() == 0
    assert capsys.readouterr().out.splitlines() == [reports()[5].line(), "1 seeds, 0 failed"]
