"""Goal: what nodes of a cluster have said stays true, whatever becomes of some of them.

Method: real processes under clients that go from node to node, hurt again and again (`torture.py`).
At the end every node knows what was declared, all queues are drained, and nothing may be missing or
come twice unmarked.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.sites import proxied
from cluster.torture import Run, queues_of

FAULTS = {"classic": 4, "mirrored": 12, "quorum": 12}


@pytest.mark.parametrize("kind", FAULTS)
def test_nothing_is_lost_whatever_becomes_of_nodes(kind: str, tmp_path: Path) -> None:
    with proxied(tmp_path, 3) as site:
        run = Run(site, 1, queues_of(kind), is_replicated=kind != "classic")
        verdict = run.whole(FAULTS[kind])
    print(verdict.line(), *run.table(), sep="\n")
    assert sum(map(len, run.silences.values())) == FAULTS[kind]
    assert len(run.ledger.known) > FAULTS[kind], "hardly anything was declared"
    assert verdict.counts["confirmed"] >= 100, "hardly anything was confirmed"
