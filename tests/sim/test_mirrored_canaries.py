"""Goal: the simulation of mirrored queues sees what it is there to see.

Method: plant a bug, run seeds until one fails.
"""

from __future__ import annotations

import pytest

from sim.first_seeds import is_caught
from sim.mirrored_canaries import CANARIES, OF_STORAGE
from sluicemq.sim.raft.mirrored_run import simulate_mirrored

SEEDS = 50


@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch, rewrite: bool) -> None:
    CANARIES[name](monkeypatch)

    def fails(seed: int) -> bool:
        """Tell whether a seed notices something, if only by an exception."""
        try:
            return bool(simulate_mirrored(seed).failure)
        except Exception:
            return True

    found = is_caught(f"mirrored: {name}", range(SEEDS), fails, rewrite)
    assert found, f"{name} passed {SEEDS} seeds"


@pytest.mark.parametrize("name", OF_STORAGE)
def test_a_planted_bug_is_caught_in_a_real_storage(
    name: str, monkeypatch: pytest.MonkeyPatch, rewrite: bool
) -> None:
    OF_STORAGE[name](monkeypatch)

    def fails(seed: int) -> bool:
        return bool(simulate_mirrored(seed, with_storage=True).failure)

    found = is_caught(f"stored mirrors: {name}", range(SEEDS), fails, rewrite)
    assert found, f"{name} passed {SEEDS} seeds"
