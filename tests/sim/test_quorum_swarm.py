"""Goal: in whole runs with quorum queues the checkers see what they are there to see.

Method: plant a bug, run seeds with quorum queues until one fails. A bug that is not noticed within
RUNS runs means that the simulation would pass idly over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from sim.first_seeds import is_caught
from sim.quorum_swarm_canaries import QUORUM_SWARM_CANARIES
from sim.test_canaries import SOUND_STEPS, fails_with
from sim.test_canaries import switch_models_off as switch_classic_models_off
from sluicemq.sim import run
from sluicemq.sim.quorum_checks import QuorumChecks
from sluicemq.sim.quorum_model import QuorumModel
from sluicemq.sim.run import simulate
from sluicemq.sim.swarm import Swarm, swarm_of
from support.thorough import only_thorough

RUNS: Final = 100
SEEDS: Final = [seed for seed in range(400) if swarm_of(seed).features.quorum is not None][:RUNS]
SOUND: Final = SEEDS[:6]
EVENTS_MAX: Final = 100_000
"""A run that is not over by then goes in circles: none of them has half as many events."""


@pytest.fixture(autouse=True)
def no_circles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "EVENTS_MAX", EVENTS_MAX)


SEEN_BY_CLIENTS: Final = (
    "enqueued_twice",
    "refused_and_taken_all_the_same",
    "unsent_is_counted_as_returned",
)
"""Bugs that break what was promised to clients in plain sight."""


def dies_for_good(swarm: Swarm) -> bool:
    return any(queue.at_least_once for queue in swarm.queues)


def rejects(swarm: Swarm) -> bool:
    return any(queue.rejects and queue.max_length for queue in swarm.queues)


NEEDS: Final[dict[str, Callable[[Swarm], bool]]] = {
    "dead_letter_settled_before_its_target_has_it": dies_for_good,
    "length_limit_decided_by_one_member": rejects,
    "refused_and_taken_all_the_same": rejects,
}
"""What a seed must have so that the code with the bug is run at all."""


def seeds_for(name: str) -> Iterator[int]:
    """Those in which the bug can show at all."""
    is_needed = NEEDS.get(name, lambda _: True)
    return filter(lambda seed: is_needed(swarm_of(seed)), SEEDS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUORUM_SWARM_CANARIES)
def test_a_planted_bug_is_caught(name: str, rewrite: bool) -> None:
    fails = fails_with(QUORUM_SWARM_CANARIES[name])
    found = is_caught(f"quorum queues: {name}", seeds_for(name), fails, rewrite)
    assert found, f"{name} was not noticed in {RUNS} runs"


def switch_models_off(patch: pytest.MonkeyPatch) -> None:
    switch_classic_models_off(patch)
    for method in ("enqueued", "settled", "died", "delivered", "limited"):
        patch.setattr(QuorumModel, method, lambda *_: None)
    patch.setattr(QuorumModel, "remember", lambda _: None)
    patch.setattr(QuorumChecks, "replaced", lambda *_: None)


@only_thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SEEN_BY_CLIENTS)
def test_a_planted_bug_is_seen_by_clients_alone(
    name: str, monkeypatch: pytest.MonkeyPatch, rewrite: bool
) -> None:
    """The same without looking into the queues: two ways to notice it."""
    switch_models_off(monkeypatch)
    fails = fails_with(QUORUM_SWARM_CANARIES[name])
    found = is_caught(f"quorum queues, by clients: {name}", seeds_for(name), fails, rewrite)
    assert found, f"{name} was not noticed in {RUNS} runs"


@only_thorough
def test_clients_alone_see_nothing_where_no_bug_is(monkeypatch: pytest.MonkeyPatch) -> None:
    switch_models_off(monkeypatch)
    failures = [simulate(seed, SOUND_STEPS).failure for seed in SOUND]
    assert not any(failures), failures
