"""`python -m sluicemq.sim.nodes SEED --count N`: prints one line for each seed, and the trace of
those that failed. The exit code is 1 when a seed failed.
"""

from __future__ import annotations

import argparse
import gc
import sys
from typing import Final

from sluicemq.sim.nodes.run import simulate_mirrored, simulate_moving, simulate_nodes

YOUNG: Final = 50_000
"""The garbage collector runs after this many new objects; with Python's 700 a seed takes a quarter
longer."""


def main() -> int:
    """Run the seeds that the command line names."""
    gc.set_threshold(YOUNG)
    parser = argparse.ArgumentParser(prog="python -m sluicemq.sim.nodes", description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="run so many seeds, from SEED on")
    parser.add_argument("--nodes", type=int, help="so many nodes; without it the seed chooses")
    parser.add_argument("--failed-only", action="store_true", help="no line for what passed")
    parser.add_argument("--mirrored", action="store_true", help="all queues are mirrored ones")
    parser.add_argument(
        "--short", action="store_true", help="half the messages in half the time, as in the tests"
    )
    parser.add_argument("--tight", action="store_true", help="with bounds that are soon reached")
    parser.add_argument("--moving", action="store_true", help="nodes join, and are forgotten")
    chosen = parser.parse_args()
    simulate = simulate_mirrored if chosen.mirrored else simulate_nodes
    simulate = simulate_moving if chosen.moving else simulate
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        report = simulate(seed, chosen.nodes, chosen.short, chosen.tight)
        if report.failure or not chosen.failed_only:
            print(report.line(), flush=True)
        if report.failure:
            failed += 1
            print("\n".join([*report.notes, report.trace]))
    print(f"{chosen.count} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
