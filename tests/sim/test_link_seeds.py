"""Goal: no promise of the links between nodes is broken in seeded runs, a seed is a run, and what
the promises are there for does happen.

Method: run them all once, in two processes; run some again from the sources, under another hash
seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import sluicemq
from sim.seed_pool import reports_of
from sluicemq.sim.cluster.__main__ import main
from sluicemq.sim.cluster.run import LinkReport, simulate_links
from support.thorough import thorough

SEEDS = range(thorough(12, 40))
REPLAYED = (1, 8)

ENGAGED = {
    "ups": 25,
    "downs": 16,
    "floods": 0.1,
    "suspicions": 2.2,
    "received": 1_800,
    "held up": 110,
    "grants": 1_400,
    "crashes": 5.5,
    "freezes": 2,
    "cuts": 6,
    "tears": 3,
    "leaves": 0.8,
    "wipes": 0.6,
    "flipped": 2.5,
}
"""What must have happened in a seed on average; about half of what does."""


@cache
def reports() -> list[LinkReport]:
    """All seeds, once a test run."""
    return reports_of(simulate_links, SEEDS)


def digests(hash_seed: str) -> list[str]:
    """Of each seed that is replayed, by the sources, in a process of its own."""
    program = (
        "from sluicemq.sim.cluster.run import simulate_links\n"
        f"for seed in {REPLAYED}: print(simulate_links(seed).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ
        | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(sluicemq.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_no_promise_is_broken() -> None:
    failed = [report.line() for report in reports() if report.failure]
    assert failed == []


@pytest.mark.parametrize("figure", ENGAGED)
def test_there_is_something_to_check(figure: str) -> None:
    found = sum(report.figures.get(figure, 0) for report in reports())
    assert found >= ENGAGED[figure] * len(SEEDS)


def test_a_seed_is_a_run() -> None:
    first = [reports()[seed].digest for seed in REPLAYED]
    assert digests(hash_seed="1") == first
    assert len({*first}) == len(first)


def test_the_command_runs_seeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["links", "5", "--count", "2"])
    assert main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == reports()[5].line()
    assert lines[-1] == "2 seeds, 0 failed"
