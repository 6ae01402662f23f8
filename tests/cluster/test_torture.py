"""Goal: what nodes of a cluster have said stays true, whatever becomes of some of them.

Method: real processes under clients that go from node to node, hurt again and again (`torture.py`).
At the end every node knows what was declared, all queues are drained, and nothing may be missing or
come twice unmarked.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from cluster.sites import proxied
from cluster.torture import QUEUES, Run, queues_of
from support.thorough import thorough

FAULTS = {("classic",): 4, ("mirrored", "quorum"): 12}
"""By the kinds of queues that one cluster has."""


@pytest.mark.parametrize("kinds", FAULTS, ids="-".join)
def test_nothing_is_lost_whatever_becomes_of_nodes(kinds: tuple[str, ...], tmp_path: Path) -> None:
    each = QUEUES if len(kinds) == 1 else thorough(1, 2)
    queues = {
        name: arguments
        for kind in kinds
        for name, arguments in islice(queues_of(kind).items(), each)
    }
    with proxied(tmp_path, 3) as site:
        run = Run(site, 1, queues, is_replicated=kinds != ("classic",))
        verdict = run.whole(FAULTS[kinds])
    print(verdict.line(), *run.table(), sep="\n")
    assert sum(map(len, run.silences.values())) == FAULTS[kinds]
    assert len(run.ledger.known) > FAULTS[kinds], "hardly anything was declared"
    assert verdict.counts["confirmed"] >= 100, "hardly anything was confirmed"
