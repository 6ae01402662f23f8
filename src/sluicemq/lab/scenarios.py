"""The five stress scenarios, as one table.

They keep the shape of the stress tests in RabbitMQ's post "Quorum Queues and Flow Control" (May
2020): publishers : queues : consumers, in-flight limits as a percentage of the rate, prefetch equal
to one publisher's rate. A run on another machine scales the rate and the figures that depend on it,
never the shape; see `sluicemq.lab.plan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sluicemq.errors import Refused


@dataclass(frozen=True, slots=True)
class Limit:
    """One in-flight limit: at most `messages` unconfirmed per publisher, `percent` of its rate."""

    percent: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row of the table; rates in messages per second and publisher, unscaled."""

    number: int
    name: str
    publishers: int
    rate: int
    queues: int
    consumers: int
    limits: tuple[Limit, ...]
    multiple: bool
    """Whether the scenario is also run with the multiple flag (ack interval 10 % of prefetch)."""
    claims: tuple[str, ...]
    """The ids of the post's claims for which this scenario gives evidence."""


def _limits(*pairs: tuple[int, int]) -> tuple[Limit, ...]:
    return tuple(Limit(percent, messages) for percent, messages in pairs)


SCENARIOS: Final = (
    Scenario(
        number=1,
        name="few-fast",
        publishers=20,
        rate=1000,
        queues=10,
        consumers=20,
        limits=_limits((1, 10), (2, 20), (5, 50), (10, 100), (20, 200), (100, 1000)),
        multiple=False,
        claims=("1.a", "1.b", "1.c", "1.d", "7.c"),
    ),
    Scenario(
        number=2,
        name="few-fast-overload",
        publishers=20,
        rate=2000,
        queues=10,
        consumers=20,
        limits=_limits((1, 20), (2, 40), (5, 100), (10, 200), (20, 400), (100, 2000)),
        multiple=True,
        claims=("2.a", "2.b", "2.c", "2.d", "2.e", "7.b", "7.c", "7.d"),
    ),
    Scenario(
        number=3,
        name="many-slow",
        publishers=500,
        rate=30,
        queues=100,
        consumers=500,
        limits=_limits((6, 2), (10, 3), (20, 6), (50, 12), (100, 30), (200, 60)),
        multiple=False,
        claims=("3.a", "3.b", "7.c"),
    ),
    Scenario(
        number=4,
        name="many-slow-overload",
        publishers=500,
        rate=60,
        queues=100,
        consumers=500,
        limits=_limits((5, 3), (10, 6), (20, 12), (50, 24), (100, 60), (200, 120)),
        multiple=True,
        claims=("4.a", "4.b", "4.c", "4.d", "7.b", "7.c", "7.d"),
    ),
    Scenario(
        number=5,
        name="very-many-overload",
        publishers=1000,
        rate=100,
        queues=200,
        consumers=1000,
        limits=_limits((2, 2), (5, 5), (10, 10), (20, 20), (50, 50), (100, 100), (200, 200)),
        multiple=True,
        claims=("5.a", "5.b", "5.c", "5.d", "5.e", "7.a", "7.b", "7.c", "7.d"),
    ),
)


def scenario_named(word: str) -> Scenario:
    """Return the scenario of that number or name. Raises Refused when there is none."""
    for scenario in SCENARIOS:
        if word in (str(scenario.number), scenario.name):
            return scenario
    known = ", ".join(f"{scenario.number} ({scenario.name})" for scenario in SCENARIOS)
    raise Refused(f"unknown scenario {word!r}; there are {known}")
