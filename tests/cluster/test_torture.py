"""Goal: what nodes of a cluster have said stays true, whatever becomes of some of them.

Method: real processes under publishers and consumers that go from node to node, hurt again and
again (`torture.py`); then all queues are drained, and nothing be missing or come twice unmarked.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.sites import proxied
from cluster.torture import Run, queues_of


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_node_alone_is_killed(kind: str, tmp_path: Path) -> None:
    with proxied(tmp_path, 1) as site:
        run = Run(site, 1, queues_of(kind))
        verdict = run.whole(2)
        print(verdict.line(), *run.table(), sep="\n")
        assert verdict.counts["confirmed"] >= 100
        assert verdict.counts["seen"] >= 100
