"""Goal: the simulation of whole nodes sees what it is there to see.

Method: plant a bug, run seeds until one fails. A bug that is not noticed within SEEDS seeds means
that the simulation would pass idly over it.
"""

from __future__ import annotations

from typing import Final

import pytest

from sim.first_seeds import is_caught, planted
from sim.nodes_canaries import CANARIES
from sluicemq.sim.nodes import run
from sluicemq.sim.nodes.run import simulate_nodes

SEEDS: Final = 50
FIRST: Final = {
    "two_votes_in_a_term": 50,
    "a_stale_append_truncates": 50,
    "what_is_sent_again_is_taken_again": 250,
}
"""The first of these seeds, where it is not 0. Since entries are few and large (decision 27) little
is sent twice, and since candidates take turns few ask for votes at one time: these bugs show in one
seed of thirty and of some hundred."""
IN_TIME_MS: Final = 15_000
"""What a bug holds up is not waited for as long as elsewhere."""


@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch, rewrite: bool) -> None:
    monkeypatch.setattr(run, "IN_TIME_MS", IN_TIME_MS)

    def fails(seed: int) -> bool:
        with planted(CANARIES[name]):
            return bool(simulate_nodes(seed).failure)

    first = FIRST.get(name, 0)
    found = is_caught(f"whole nodes: {name}", range(first, first + SEEDS), fails, rewrite)
    assert found, f"{name} passed {SEEDS} seeds"
