"""Goal: no rule of Raft is broken in 200 seeded runs, a seed is a run, and what the rules are there
for does happen.

Method: run them all once, in two processes; run some again from the sources, under another hash
seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import pytest

import sluicemq
from sim.seed_pool import reports_of
from sluicemq.sim.raft.__main__ import main
from sluicemq.sim.raft.linearizable import RegisterHistory
from sluicemq.sim.raft.promise import RuleBroken
from sluicemq.sim.raft.run import STEPS, Report, simulate
from support.thorough import thorough

SEEDS = range(200)
RUN_STEPS = thorough(4500, STEPS)
"""Of each."""
REPLAYED = range(0, 200, 40)

ENGAGED = {
    "leaders": 400,
    "committed": 7_500,
    "changes": 140,
    "writes": 6_500,
    "reads": 6_500,
    "truncations": 70,
    "snapshots": 350,
    "pieces": 800,
    "silences": 5_000,
}
"""What must have happened over all seeds; about half of what does."""


@cache
def reports() -> list[Report]:
    """All seeds, once a test run."""
    return reports_of(partial(simulate, steps=RUN_STEPS), SEEDS)


def digests(seeds: range, hash_seed: str) -> list[int]:
    """Of each seed, by the sources, in a process of its own."""
    program = (
        "from sluicemq.sim.raft.run import simulate\n"
        f"for seed in {list(seeds)}: print(simulate(seed, {RUN_STEPS}).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ
        | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(sluicemq.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(line) for line in done.stdout.split()]


@pytest.mark.timeout(1800)
def test_no_rule_is_broken() -> None:
    failed = [report.line() for report in reports() if report.failure]
    assert failed == []


def test_who_is_to_be_removed_may_be_needed_for_that() -> None:
    """The only member with the entry that removes it refuses the others, and could not lead."""
    assert not simulate(1495).failure


def test_a_leader_whose_term_is_over_does_not_say_who_has_gone() -> None:
    """One that had stopped for long moved again, and of its members one had been removed since."""
    assert not simulate(827369).failure


def test_a_leader_that_does_not_know_what_is_agreed_on_does_not_say_who_has_gone() -> None:
    """The next one had a learner whose process the end of the run had let go."""
    assert not simulate(12282).failure


@pytest.mark.parametrize("figure", ENGAGED)
def test_there_is_something_to_check(figure: str) -> None:
    assert sum(report.figures[figure] for report in reports()) >= ENGAGED[figure]


def test_a_seed_is_a_run() -> None:
    first = [reports()[seed].digest for seed in REPLAYED]
    assert digests(REPLAYED, hash_seed="1") == first
    assert len({*first}) == len(first)


def test_the_command_runs_seeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["raft", "5", "--count", "2", "--steps", "500"])
    assert main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == simulate(5, steps=500).line()
    assert lines[-1] == "2 seeds, 0 failed"


def test_a_history_may_have_a_write_that_was_not_answered() -> None:
    history = RegisterHistory(0)
    history.write_begins(1, 1)
    history.read_ends(0, 2, 3)
    history.read_ends(1, 4, 5)
    history.read_ends(1, 6, 7)


def test_a_history_may_not_go_back() -> None:
    history = RegisterHistory(0)
    history.write_begins(1, 1)
    history.read_ends(1, 2, 3)
    with pytest.raises(RuleBroken, match="not linearizable"):
        history.read_ends(0, 4, 5)


def test_a_history_may_not_overlook_a_write_that_was_answered() -> None:
    history = RegisterHistory(0)
    history.write_begins(1, 1)
    history.write_ends(1, 2)
    with pytest.raises(RuleBroken, match="not linearizable"):
        history.read_ends(0, 3, 4)


def test_writes_at_one_time_may_be_seen_in_either_order_and_not_in_both() -> None:
    history = RegisterHistory(0)
    history.write_begins(1, 1)
    history.write_begins(2, 1)
    history.write_ends(1, 9)
    history.write_ends(2, 9)
    history.read_ends(2, 2, 3)
    history.read_ends(1, 4, 5)
    with pytest.raises(RuleBroken, match="not linearizable"):
        history.read_ends(2, 6, 7)


def test_what_nobody_has_written_is_not_read() -> None:
    with pytest.raises(RuleBroken, match="nobody has written"):
        RegisterHistory(0).read_ends(7, 1, 2)
