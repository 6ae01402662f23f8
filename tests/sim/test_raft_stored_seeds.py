"""Goal: whole groups keep Raft's rules with the storage that nodes have, whatever crashes.

Method: the simulation of Raft with each member's log in journal, segments and checkpoints over
simulated files; after each crash what a start finds is held against what was said to be durable.
Its machine's snapshots need entries of the log, which laggards are sent with them. Planted bugs are
seen within SEEDS seeds.
"""

from __future__ import annotations

import sys
from functools import cache, partial

import pytest

from sim.first_seeds import is_caught, planted
from sim.raft_stored_canaries import CANARIES
from sim.seed_pool import reports_of
from sluicemq.sim.raft.__main__ import main
from sluicemq.sim.raft.run import Report, simulate
from support.thorough import thorough

RUNS = range(thorough(18, 36))
SEEDS = 50
FIRST = {
    "uncommitted_entries_in_segments": 50,
    "pieces_are_taken_for_an_earlier_snapshot": 50,
}
"""The first of these seeds, where it is not 0. Since candidates take turns leaders change less, and
these bugs show in one seed of ten or twenty."""

ENGAGED = {
    "leaders": 50,
    "committed": 1_250,
    "changes": 12,
    "reads": 1_000,
    "truncations": 10,
    "snapshots": 25,
    "pieces": 500,
}
"""What must have happened over all runs; about half of what does."""


@cache
def reports() -> list[Report]:
    """All runs, once."""
    return reports_of(partial(simulate, with_storage=True), RUNS)


@pytest.mark.timeout(1800)
def test_no_rule_is_broken() -> None:
    assert [report.line() for report in reports() if report.failure] == []


@pytest.mark.parametrize("figure", ENGAGED)
def test_there_is_something_to_check(figure: str) -> None:
    assert sum(report.figures[figure] for report in reports()) >= ENGAGED[figure]


def test_a_seed_is_a_run() -> None:
    assert simulate(3, with_storage=True).digest == reports()[3].digest


def test_the_command_runs_seeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["raft", "5", "--count", "2", "--steps", "500", "--storage"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == simulate(5, 500, with_storage=True).line()
    assert lines[-1] == "2 seeds, 0 failed"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_bug_is_caught(name: str, rewrite: bool) -> None:
    def fails(seed: int) -> bool:
        """Tell whether a seed notices something, if only by an exception."""
        with planted(CANARIES[name]):
            try:
                return bool(simulate(seed, with_storage=True).failure)
            except Exception:
                return True

    first = FIRST.get(name, 0)
    found = is_caught(f"Raft, stored: {name}", range(first, first + SEEDS), fails, rewrite)
    assert found, f"{name} passed {SEEDS} seeds"
