"""Goal: 200 seeded runs break no promise, and a seed is a run. Method: run them, some twice."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache

from sluicemq.sim.report import Report
from sluicemq.sim.run import simulate

SEEDS = range(200)
REPLAYED = range(0, 200, 20)
WORKERS = 2

ENGAGED = {
    "reader paused": 500,
    "writer refused": 100,
    "gate reader>channel": 500,
    "gate channel>queue": 500,
    "gate queue>store": 50,
    "alarms": 50,
    "clients told blocked": 50,
    "redelivered": 500,
}
"""What must have happened over all seeds: a simulation in which flow control has nothing to do
would pass idly."""


@cache
def reports() -> list[Report]:
    """All seeds, once a test run."""
    with ProcessPoolExecutor(WORKERS) as pool:
        return list(pool.map(simulate, SEEDS, chunksize=10))


def digests(seeds: range, hash_seed: str) -> list[str]:
    """Of each seed, run in a process of its own."""
    program = (
        "from sluicemq.sim.run import simulate\n"
        f"for seed in {list(seeds)}: print(simulate(seed).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_no_promise_is_broken() -> None:
    failed = [f"seed {r.seed}: {r.phase}: {r.failure}" for r in reports() if r.failure]
    assert not failed, "replay with `sluicemq sim SEED`:\n" + "\n".join(failed)


def test_flow_control_had_something_to_do() -> None:
    sums = {name: sum(report.figures[name] for report in reports()) for name in ENGAGED}
    idle = {name: sums[name] for name, least in ENGAGED.items() if sums[name] < least}
    assert not idle


def test_every_profile_is_simulated() -> None:
    assert {report.profile for report in reports()} == {
        "adaptive",
        "rabbitmq-3.5",
        "rabbitmq-3.8",
    }


def test_same_seed_gives_same_trace_under_another_hash_seed() -> None:
    expected = [reports()[seed].digest for seed in REPLAYED]
    assert digests(REPLAYED, "1") == expected
    assert digests(REPLAYED, "4242") == expected
    assert len(set(expected)) == len(expected)
