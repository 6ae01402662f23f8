"""Goal: what nodes of a cluster have said stays true, whatever becomes of some of them.

Method: real processes under clients that go from node to node, hurt again and again (`torture.py`).
At the end every node knows what was declared, all queues are drained, and nothing may be missing or
come twice unmarked.
"""

from __future__ import annotations

from pathlib import Path

from cluster.sites import proxied
from cluster.torture import Run, queues_of

FAULTS = 6


def test_classic_queues_and_definitions_outlast_what_becomes_of_nodes(tmp_path: Path) -> None:
    with proxied(tmp_path, 3) as site:
        run = Run(site, 1, queues_of("classic"), is_replicated=False)
        verdict = run.whole(FAULTS)
    print(verdict.line(), *run.table(), sep="\n")
    assert sum(map(len, run.silences.values())) == FAULTS
    assert len(run.ledger.known) > FAULTS, "hardly anything was declared"
    assert verdict.counts["confirmed"] >= 100, "hardly anything was confirmed"
