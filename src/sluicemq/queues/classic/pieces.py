"""How much a queue does at a time, and what it costs: turns are bounded by work."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Item = TypeVar("Item")

DEALS_MAX: Final = 100
"""The most deliveries of one serving, which takes about a millisecond; then other queues have their
turn."""

PART_WORK: Final = 3
CONSUMER_WORK: Final = 5
DEAL_WORK: Final = 8
"""Units of work for settling a part of a run, for a consumer that comes or goes, or for a
delivery."""

LIMIT_WORK: Final = 500
"""Units of work that a queue spends at a time on messages beyond its age or length limits; then
other queues have their turn."""

PIECE_MAX: Final = 100
"""Unacknowledged runs or consumers that a long command handles at a time."""

MESSAGES_A_UNIT: Final = 16
"""Messages that are examined, taken out or freed for a unit of work."""

RETURNS_A_UNIT: Final = 4
"""Messages whose returns are counted, or forgotten, for a unit of work."""

MIXED_SIZES_MAX: Final = 64
"""The most consumers considered at a time for messages of different sizes: the messages of one
cost, which are dealt together, may be fewer."""


def work_of(messages: int) -> int:
    """Return the units of work for a part of a run, or a chunk, with so many messages."""
    return PART_WORK + messages // MESSAGES_A_UNIT


def batched(items: Iterable[Item], count: int) -> Iterator[list[Item]]:
    """Give all items in order, at most `count` at a time."""
    rest = iter(items)
    while some := [*islice(rest, count)]:
        yield some
