"""Goal: no promise is broken in 200 seeded runs, and a seed is a run.

Method: run them all once, in two processes; run some again, under other hash seeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import pytest

import sluicemq
from sluicemq.config import PROFILES
from sluicemq.sim.report import Report
from sluicemq.sim.run import STEPS, simulate

SEEDS = range(200)
REPLAYED = range(0, 200, 20)
WORKERS = 2
REGRESSIONS = Path(__file__).with_name("regressions.txt")

ENGAGED = {
    "confirmed": 20_000,
    "redelivered": 2_000,
    "returned": 200,
    "reader paused": 4_000,
    "pulls": 700,
    "writer refused": 5_000,
    "gate reader>channel": 8_000,
    "gate channel>queue": 6_000,
    "gate queue>store": 1_000,
    "gate deliveries": 6_000,
    "gate store full": 300,
    "blocked ms reader": 40_000,
    "alarms": 300,
    "clients told blocked": 300,
    "fault broken": 300,
    "fault channel_errors": 200,
    "fault silent": 30,
    "fault stalls": 800,
}
"""What must have happened over all seeds: a simulation in which flow control has nothing to do
would pass idly."""


@cache
def reports() -> list[Report]:
    """All seeds, once a test run."""
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        return list(pool.map(simulate, SEEDS, chunksize=5))


def digests(seeds: range, hash_seed: str) -> list[str]:
    """Of each seed, run in a process of its own."""
    program = (
        "from sluicemq.sim.run import simulate\n"
        f"for seed in {list(seeds)}: print(simulate(seed).digest)"
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


@pytest.mark.timeout(600)
def test_no_promise_is_broken() -> None:
    failed = [f"seed {r.seed}: {r.phase}: {r.failure}" for r in reports() if r.failure]
    assert not failed, "replay with `sluicemq sim SEED`:\n" + "\n".join(failed)


@pytest.mark.timeout(600)
def test_flow_control_had_something_to_do() -> None:
    sums = {name: sum(report.figures[name] for report in reports()) for name in ENGAGED}
    idle = {name: sums[name] for name, least in ENGAGED.items() if sums[name] < least}
    assert not idle, f"less than {ENGAGED}"
    stopped = [report.seed for report in reports() if report.figures["reader paused"]]
    assert len(stopped) > len(SEEDS) // 2, "a reader must have stopped in most of the runs"


@pytest.mark.timeout(600)
def test_every_profile_is_simulated() -> None:
    assert {report.profile for report in reports()} == set(PROFILES)


@pytest.mark.timeout(600)
def test_same_seed_gives_same_trace_under_another_hash_seed() -> None:
    expected = [reports()[seed].digest for seed in REPLAYED]
    assert digests(REPLAYED, "1") == expected
    assert digests(REPLAYED, "4242") == expected
    assert len(set(expected)) == len(expected)


def test_a_profile_can_be_chosen_for_a_seed() -> None:
    chosen = [simulate(5, steps=300, profile=profile) for profile in PROFILES]
    assert [report.profile for report in chosen] == list(PROFILES)
    assert not any(report.failure for report in chosen)


def regressions() -> list[tuple[str, str]]:
    """Seeds that once failed: `SEED what was wrong`, or `SEED/STEPS what was wrong`, on each
    line."""
    lines = [line for line in REGRESSIONS.read_text().splitlines() if line[:1] not in ("", "#")]
    return [(line.split()[0], line) for line in lines]


@pytest.mark.parametrize(("which", "line"), regressions())
def test_a_seed_that_once_failed_passes(which: str, line: str) -> None:
    seed, _, steps = which.partition("/")
    report = simulate(int(seed), int(steps or STEPS))
    assert not report.failure, f"{line}\n{report.trace}"
