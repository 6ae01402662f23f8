"""How long quorum queues agree on nothing when the node that leads them is lost, in simulated time.

    PYTHONPATH=tests .venv/bin/python bench/failovers.py [--seeds 5] [--queues 20] [--nodes 3]
        [--sync-ms 5] [--network-ms 1]

Whole brokers of a cluster; one that leads all queues is killed, cut off, or made deaf, in a run of
its own for each seed. It prints the median, the 99th percentile and the worst of all queues, and
how many of them took longer than 3 s. `bench/three_nodes.py` measures the same of real processes.
"""

from __future__ import annotations

import argparse
import statistics

from history import keep

from support.failovers import FAULTS, Failover, Machines

WANTED_MS = 3_000


def main() -> None:
    """The faults, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--queues", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--sync-ms", type=float, default=5)
    parser.add_argument("--network-ms", type=float, default=1)
    options = parser.parse_args()
    machines = Machines(sync_ms=options.sync_ms, network_ms=options.network_ms)
    for fault in FAULTS:
        found: list[int] = []
        for seed in range(options.seeds):
            found += Failover(fault, options.queues, seed, machines, options.nodes).silences_ms
        found.sort()
        median_ms, worst_ms = statistics.median(found), found[-1]
        p99_ms = found[(len(found) - 1) * 99 // 100]
        late = sum(each > WANTED_MS for each in found)
        print(
            f"{fault}: {len(found)} failovers, {median_ms:.0f} ms at the median, {p99_ms} ms at the"
            f" 99th percentile, {worst_ms} ms at the worst; {late} of them longer than 3 s",
            flush=True,
        )
        figures = {"median_ms": median_ms, "p99_ms": p99_ms, "worst_ms": worst_ms}
        case = f"{fault}, {options.nodes} nodes, syncs of {machines.sync_ms:g} ms"
        keep("failovers", case, **figures)


if __name__ == "__main__":
    main()
