"""The quorum queues of a run, and their small bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from sluicemq.sim.plans import QueuePlan
from sluicemq.sim.records import DYING, FADING, GRAVE, VOLATILE, WORK

QUORUM_GRAVES: Final = "quorum-graves"
"""The dead letter exchange of the queue whose dead letters must arrive."""
QUORUM_WORK: Final = "quorum-work"
QUORUM_DYING: Final = "quorum-dying"
QUORUM_FADING: Final = "quorum-fading"
QUORUM_VOLATILE: Final = "quorum-volatile"


@dataclass(frozen=True, kw_only=True, slots=True)
class QuorumBounds:
    """The small bounds of quorum queues in a run, and the number of entries between snapshots."""

    segment_entries: int
    batch_size: int
    """Appends to logs that share a sync."""
    commands_limit: int
    """Batches of a channel in flight."""
    backlog_bytes: int
    snapshot_entries: int
    bodies_bytes: int
    read_bytes: int
    quantum_bytes: int
    """Bytes written for classic queues."""


def quorum_bounds_of(seed: int) -> QuorumBounds | None:
    """Return the bounds of a run; None for every other seed, which has no quorum queues."""
    dice = Random(f"quorum {seed}")
    if dice.randrange(2):
        return None
    return QuorumBounds(
        segment_entries=dice.choice((2, 5, 20)),
        batch_size=dice.choice((1, 3, 4096)),
        commands_limit=dice.choice((1, 3, 32)),
        backlog_bytes=dice.choice((500, 5000, 1 << 20)),
        snapshot_entries=dice.choice((3, 8, 30)),
        bodies_bytes=dice.choice((0, 1000, 20_000)),
        read_bytes=dice.choice((400, 4000, 100_000)),
        quantum_bytes=dice.choice((1, 300, 3000, 1 << 20)),
    )


def quorum_plans(seed: int) -> tuple[QueuePlan, ...]:
    """Return the quorum queues of a run: at least one for work, and some that dead-letter messages,
    or are deleted and redeclared."""
    dice = Random(f"quorum queues {seed}")
    plans = [_work(dice)]
    if dice.randrange(2):
        plans += _dying(dice)
    if dice.randrange(3) == 0:
        plans += _fading(dice)
    if dice.randrange(2):
        plans.append(_volatile(dice))
    return (*plans,)


def _work(dice: Random) -> QueuePlan:
    plan = QueuePlan(
        name=QUORUM_WORK,
        durable=True,
        promise=WORK,
        is_quorum=True,
        single_active=dice.randrange(4) == 0,
        delivery_limit=dice.choice((None, -1)),
        in_memory_bytes=dice.choice((None, None, 0, 2000)),
    )
    if dice.randrange(3) == 0:
        plan = replace(plan, rejects=True, max_length=dice.choice((1, 5, 20)))
    return plan


def _dying(dice: Random) -> list[QueuePlan]:
    """Return a queue whose dead letters must arrive, and the queues that get them."""
    graves = [f"{GRAVE} of {QUORUM_DYING} {n}" for n in range(dice.choice((1, 1, 2)))]
    is_direct = len(graves) == 1 and dice.randrange(2) == 0
    dying = QueuePlan(
        name=QUORUM_DYING,
        durable=True,
        promise=DYING,
        is_quorum=True,
        rejects=True,
        at_least_once=True,
        message_ttl_ms=dice.choice((None, 0, 1, 30, 300)),
        max_length=dice.choice((None, None, 2, 20)),
        delivery_limit=dice.choice((None, 0, 1, 2)),
        single_active=dice.randrange(6) == 0,
        graves=(*graves,),
        dead_letters_by=("", graves[0]) if is_direct else (QUORUM_GRAVES, None),
    )
    return [
        dying,
        *(
            QueuePlan(
                name=name,
                durable=True,
                promise=GRAVE,
                is_quorum=dice.randrange(3) > 0,
                bound_to=(QUORUM_GRAVES, ""),
            )
            for name in graves
        ),
    ]


def _fading(dice: Random) -> list[QueuePlan]:
    """Return a queue whose dead letters arrive at most once, and the queues that get them."""
    grave = f"{GRAVE} of {QUORUM_FADING}"
    fading = QueuePlan(
        name=QUORUM_FADING,
        durable=True,
        promise=FADING,
        is_quorum=True,
        rejects=dice.randrange(3) == 0,
        message_ttl_ms=dice.choice((None, 0, 5, 100)),
        max_length=dice.choice((None, 0, 2, 20)),
        delivery_limit=dice.choice((None, 0, 1)),
        graves=(grave,),
        dead_letters_by=("", grave),
    )
    return [
        fading,
        QueuePlan(name=grave, durable=True, promise=GRAVE, is_quorum=dice.randrange(2) == 0),
    ]


def _volatile(dice: Random) -> QueuePlan:
    return QueuePlan(
        name=QUORUM_VOLATILE,
        durable=True,
        promise=VOLATILE,
        is_quorum=True,
        expires_ms=dice.choice((None, 20, 200)),
        message_ttl_ms=dice.choice((None, 0, 1, 5)),
        max_length=dice.choice((None, 0, 20)),
        rejects=dice.randrange(3) == 0,
        delivery_limit=dice.choice((None, 0, 1)),
    )
