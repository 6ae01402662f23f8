"""What a run may have besides publishers and consumers of plain queues. Each seed has some of it,
or nothing: half of the seeds have plain queues only.

    dead letters  a queue that dead-letters messages, and the queues that get them
    delays        an exchange that delays messages, and the queues that get them
    stream        a stream that clients append to, and read from any offset
    quorum        quorum queues of every kind (quorum_plans.py)
    commands      an operator who looks, purges, deletes, sets policies and closes connections
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.sim.messages import LATER
from sluicemq.sim.plans import QueuePlan
from sluicemq.sim.quorum_plans import QuorumBounds, quorum_bounds_of, quorum_plans
from sluicemq.sim.records import DYING, GRAVE, LOG, VOLATILE

if TYPE_CHECKING:
    from collections.abc import Sequence

GRAVES: Final = "graves"
"""The exchange that leads to the graves."""
FIRST_GRAVE, SECOND_GRAVE = "grave0", "grave1"
DEAD: Final = "dead"
LATE: Final = "late"
"""The routing key of all delayed messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delays:
    """An exchange that delays messages, and its underlying exchange type."""

    exchange_type: str
    durable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Features:
    """The features of one run. `dead_letters` is the type of the dead letter exchange, "" without
    one. `cache_bytes` is how much of a stream's messages stays in RAM; None without a stream.
    `quorum` has the bounds of quorum queues; None without any."""

    dead_letters: str = ""
    cache_bytes: int | None = None
    delays: Delays | None = None
    commands: bool = False
    quorum: QuorumBounds | None = None

    def queues(self, seed: int, plain: tuple[QueuePlan, ...]) -> tuple[QueuePlan, ...]:
        """Return the queues of the plain run, and those that these features need."""
        if self.commands:  # a policy may dead-letter messages that may be lost
            plain = tuple(replace(q, buries=q.promise == VOLATILE) for q in plain)
        dying = dying_queues(seed, self.dead_letters) if self.dead_letters else ()
        late = late_queues(seed, self.delays) if self.delays else ()
        stream = () if self.cache_bytes is None else stream_of(seed)
        quorum = () if self.quorum is None else quorum_plans(seed)
        return (*plain, *quorum, *dying, *late, *stream)


NO_FEATURES: Final = Features()


def features_of(seed: int) -> Features:
    """Choose the features of a run by its seed."""
    dice = Random(f"features {seed}")
    if dice.randrange(2):
        return NO_FEATURES
    kinds = ("fanout", "direct", "topic")
    return Features(
        dead_letters=dice.choice((*kinds, "")),
        commands=dice.randrange(2) > 0,
        delays=delays_of(seed, kinds),
        quorum=quorum_bounds_of(seed),
        cache_bytes=Random(f"streams {seed}").choice((None, None, None, 0, 5_000, 1 << 20)),
    )


def delays_of(seed: int, kinds: Sequence[str]) -> Delays | None:
    """Return the delays of a run; None for two thirds of the seeds."""
    dice = Random(f"delays {seed}")
    if dice.randrange(3):
        return None
    return Delays(exchange_type=dice.choice(kinds), durable=dice.randrange(3) > 0)


def dying_queues(seed: int, exchange_type: str) -> tuple[QueuePlan, ...]:
    """Return a queue whose messages are dead-lettered by age, by length, or by its consumers'
    replies, and the queues they go to. The first of two such queues may dead-letter to the second.
    """
    dice = Random(f"graves {seed}")
    durable = dice.randrange(3) > 0
    graves = (FIRST_GRAVE, SECOND_GRAVE)[: dice.choice((1, 2))]
    by: tuple[str, str | None] = (GRAVES, None if exchange_type == "fanout" else DEAD)
    if len(graves) == 1 and dice.randrange(2):
        by = ("", FIRST_GRAVE)
    dying = QueuePlan(
        name=DYING,
        durable=durable,
        promise=DYING,
        message_ttl_ms=dice.choice((None, 0, 1, 30, 300)),
        max_length=dice.choice((None, None, 0, 2, 20)),
        delivery_limit=dice.choice((None, 0, 1)),
        lazy=dice.randrange(4) == 0,
        max_priority=dice.choice((0, 0, 3)),
        graves=graves,
        dead_letters_by=by,
    )
    plans = [
        QueuePlan(
            name=name,
            durable=durable or dice.randrange(2) > 0,
            promise=GRAVE,
            lazy=dice.randrange(4) == 0,
            max_priority=dice.choice((0, 0, 3)),
            bound_to=(GRAVES, DEAD),
        )
        for name in graves
    ]
    return (dying, *plans)


def late_queues(seed: int, delays: Delays) -> tuple[QueuePlan, ...]:
    """Return the queues that get delayed messages: each gets all of them."""
    dice = Random(f"late {seed}")
    return tuple(
        QueuePlan(
            name=f"{LATE}{number}",
            durable=delays.durable or dice.randrange(2) > 0,
            promise=GRAVE,
            lazy=dice.randrange(4) == 0,
            bound_to=(LATER, LATE),
        )
        for number in range(dice.choice((1, 2)))
    )


def stream_of(seed: int) -> tuple[QueuePlan, ...]:
    """Return one stream whose files are small, or none."""
    dice = Random(f"segments {seed}")
    size = dice.choice((4096, 4096, 20_000))
    return (QueuePlan(name=LOG, durable=True, promise=LOG, segment_bytes=size),)
