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
FIRST = {"a_forgetful_member_votes": 50}
"""The first of these seeds, where it is not 0. Since candidates take turns few votes are given to
two, and this bug shows in one seed of forty."""


@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_bug_is_caught(name: str, rewrite: bool) -> None:
    def fails(seed: int) -> bool:
        with planted(CANARIES[name]):
            return bool(simulate(seed).failure)

    first = FIRST.get(name, 0)
    found = is_caught(f"Raft: {name}", range(first, first + SEEDS), fails, rewrite)
    assert found, f"{name} passed {SEEDS} seeds"
