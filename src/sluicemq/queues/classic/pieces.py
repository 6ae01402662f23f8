"""How much a queue does at a time, and what it costs: turns are bounded by work."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Item = TypeVar("Item")

DEALS_MAX: Final = 100
"""Deliveries of one serving: it takes about a millisecond. Then others have their turn."""

PART_WORK: Final = 3
CONSUMER_WORK: Final = 5
DEAL_WORK: Final = 8
"""Units of work of settling a part of a run, of a consumer's coming or going, of a delivery."""

LIMIT_WORK: Final = 500
"""Units of work that a queue spends at a time on messages that must go for their age or its
length; then others have their turn."""

PIECE_MAX: Final = 100
"""Unacknowledged runs or consumers that a long command deals with in a piece."""

MESSAGES_A_UNIT: Final = 16
"""Messages that are looked through, taken out or freed in a unit of work."""

RETURNS_A_UNIT: Final = 4
"""Messages whose returns are counted, or forgotten, in a unit of work."""

MIXED_SIZES_MAX: Final = 64
"""Consumers that are asked at a time for messages of different sizes: those that cost a window the
same, and are dealt together, may be fewer."""


def work_of(messages: int) -> int:
    """Return the units of work for a part of a run, or a chunk, with so many messages."""
    return PART_WORK + messages // MESSAGES_A_UNIT


def batched(items: Iterable[Item], count: int) -> Iterator[list[Item]]:
    """Give all items in order, at most `count` at a time."""
    rest = iter(items)
    while some := [*islice(rest, count)]:
        yield some
