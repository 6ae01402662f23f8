"""Goal: the simulation of Raft sees what it is there to see.

Method: plant a bug, run seeds until one fails. A bug that is not noticed within SEEDS seeds means
that the simulation would pass idly over it.
"""

from __future__ import annotations

import pytest

from sim.first_seeds import is_caught, planted
from sim.raft_canaries import CANARIES
from sluicemq.sim.raft.run import simulate

SEEDS = 50


@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_bug_is_caught(name: str, rewrite: bool) -> None:
    def fails(seed: int) -> bool:
        with planted(CANARIES[name]):
            return bool(simulate(seed).failure)

    found = is_caught(f"Raft: {name}", range(SEEDS), fails, rewrite)
    assert found, f"{name} passed {SEEDS} seeds"
