"""Goal: the checkers see what they are there to see.

Method: plant a bug, run seeds until one fails. A bug that is not noticed within SEEDS seeds means
that the simulation would pass idly over it.
"""

from __future__ import annotations

import pytest

from sim.canaries import CANARIES
from sluicemq.sim.history import History
from sluicemq.sim.model import QueueModel
from sluicemq.sim.run import simulate

SEEDS = 100

SEEN_BY_CLIENTS = (
    "confirm_lost",
    "confirm_told_twice",
    "confirm_covers_too_much",
    "delivered_twice",
    "dealt_in_disorder",
    "redelivered_without_its_flag",
    "prefetch_overlooked",
    "publish_lost_on_its_way",
    "a_dead_letter_goes_to_one_grave_only",
    "the_last_dead_letter_is_forgotten",
    "a_dead_letter_comes_twice",
    "a_delayed_message_comes_too_early",
    "a_delayed_message_is_forgotten",
    "a_stream_confirms_before_the_sync",
    "a_stream_has_lost_an_entry",
)
"""Bugs that break what was promised to clients in plain sight."""


def first_caught() -> str:
    """What the first failing seed says; "" when none fails."""
    for seed in range(SEEDS):
        report = simulate(seed)
        if report.failure:
            return report.failure
    return ""


@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CANARIES[name](monkeypatch)
    assert first_caught(), f"{name} was not noticed in {SEEDS} seeds"


@pytest.mark.parametrize("name", SEEN_BY_CLIENTS)
def test_a_planted_bug_is_seen_by_clients_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with the models of the queues switched off: two ways to notice it."""
    for method in ("watch", "compare_depth", "compare_contents"):
        monkeypatch.setattr(QueueModel, method, lambda *_: None)
    monkeypatch.setattr(History, "told_what_is_safe", False)
    CANARIES[name](monkeypatch)
    assert first_caught(), f"{name} was not noticed in {SEEDS} seeds"
