"""`python -m sluicemq.sim.raft SEED --count N --steps N --storage --mirrored`: prints one line for
each seed, and the trace of those that failed. The exit code is 1 when a seed failed.
"""

from __future__ import annotations

import argparse
import sys

from sluicemq.sim.raft.mirrored_run import simulate_mirrored
from sluicemq.sim.raft.run import STEPS, simulate


def main() -> int:
    """Run the seeds that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m sluicemq.sim.raft", description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="run so many seeds, from SEED on")
    parser.add_argument("--steps", type=int, default=STEPS, help="events of the phase with faults")
    parser.add_argument("--failed-only", action="store_true", help="no line for what passed")
    parser.add_argument(
        "--storage", action="store_true", help="keep logs in a node's storage, over simulated files"
    )
    parser.add_argument(
        "--mirrored", action="store_true", help="have the group agree on a mirrored queue"
    )
    chosen = parser.parse_args()
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        if chosen.mirrored:
            report = simulate_mirrored(seed, chosen.steps, with_storage=chosen.storage)
        else:
            report = simulate(seed, chosen.steps, with_storage=chosen.storage)
        if report.failure or not chosen.failed_only:
            print(report.line(), flush=True)
        if report.failure:
            failed += 1
            print("\n".join([*report.notes, report.trace]))
    print(f"{chosen.count} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
