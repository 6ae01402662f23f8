"""Goal: the checkers see what they are there to see.

Method: plant a bug, run seeds until one fails. A bug that is not noticed within SEEDS seeds means
that the simulation would pass idly over it. Seeds without the feature that a bug is in are not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from sim.canaries import CANARIES, Plant
from sim.first_seeds import is_caught, planted
from sluicemq.sim.history import History
from sluicemq.sim.model import QueueModel
from sluicemq.sim.run import STEPS, simulate
from sluicemq.sim.swarm import Swarm, swarm_of
from support.thorough import only_thorough, thorough

SEEDS = 100
SOUND = range(9)
SOUND_STEPS = thorough(1500, STEPS)


def with_dead_letters(swarm: Swarm) -> bool:
    return bool(swarm.features.dead_letters)


def with_delays(swarm: Swarm) -> bool:
    return swarm.features.delays is not None


def with_priorities(swarm: Swarm) -> bool:
    return any(queue.max_priority for queue in swarm.queues)


def with_a_delivery_limit(swarm: Swarm) -> bool:
    return any(queue.delivery_limit is not None for queue in swarm.queues)


def with_a_stream(swarm: Swarm) -> bool:
    return swarm.features.cache_bytes is not None


NEEDS: Final[dict[str, Callable[[Swarm], bool]]] = {
    "an_urgent_message_waits": with_priorities,
    "priorities_begin_anew_after_a_restart": with_priorities,
    "a_message_comes_back_once_too_often": with_a_delivery_limit,
    "a_return_is_remembered_for_ever": with_a_delivery_limit,
    "a_fault_confirms_what_it_loses": lambda swarm: swarm.mistake_percent > 0,
    "a_dead_letter_is_settled_twice": with_dead_letters,
    "the_last_dead_letter_is_forgotten": with_dead_letters,
    "a_delayed_message_comes_too_early": with_delays,
    "a_delayed_message_is_forgotten": with_delays,
    "nobody_looks_at_delayed_messages": with_delays,
    "a_delayed_message_leaves_before_it_is_safe": with_delays,
    "a_stream_confirms_before_the_sync": with_a_stream,
    "a_stream_skips_a_message": with_a_stream,
    "a_stream_has_lost_an_entry": with_a_stream,
    "a_reader_of_a_stream_is_forgotten": with_a_stream,
}
"""What a seed must have so that the code with the bug is run at all."""

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


def seeds_for(name: str) -> Iterator[int]:
    """Those in which the bug can show at all."""
    is_needed = NEEDS.get(name, lambda _: True)
    return filter(lambda seed: is_needed(swarm_of(seed)), range(SEEDS))


def fails_with(plant: Plant) -> Callable[[int], bool]:
    """Tell of a seed whether it notices a bug."""

    def fails(seed: int) -> bool:
        with planted(plant):
            return bool(simulate(seed).failure)

    return fails


@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_bug_is_caught(name: str, rewrite: bool) -> None:
    found = is_caught(f"node: {name}", seeds_for(name), fails_with(CANARIES[name]), rewrite)
    assert found, f"{name} was not noticed in {SEEDS} seeds"


def switch_models_off(patch: pytest.MonkeyPatch) -> None:
    for method in ("watch", "written", "compare_depth", "compare_contents"):
        patch.setattr(QueueModel, method, lambda *_: None)
    patch.setattr(History, "told_what_is_safe", False)


@only_thorough
@pytest.mark.parametrize("name", SEEN_BY_CLIENTS)
def test_a_planted_bug_is_seen_by_clients_alone(
    name: str, monkeypatch: pytest.MonkeyPatch, rewrite: bool
) -> None:
    """The same with the models of the queues switched off: two ways to notice it."""
    switch_models_off(monkeypatch)
    fails = fails_with(CANARIES[name])
    found = is_caught(f"node, by clients: {name}", seeds_for(name), fails, rewrite)
    assert found, f"{name} was not noticed in {SEEDS} seeds"


@only_thorough
def test_clients_alone_see_nothing_where_no_bug_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that are half switched off would see one everywhere."""
    switch_models_off(monkeypatch)
    failures = [simulate(seed, SOUND_STEPS).failure for seed in SOUND]
    assert not any(failures), failures
