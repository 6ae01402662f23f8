"""How much a queue does in one go, and what it costs: turns are bounded by work."""

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
"""Units of work of settling a part of a lot, of a consumer's coming or going, of a delivery."""

PIECE_MAX: Final = 100
"""Lots, chunks or consumers that a long command deals with in a piece."""

UNEVEN_MAX: Final = 64
"""Consumers that are asked at a time for messages of different sizes: those that cost a window the
same, and are dealt together, may be fewer."""


def batched(items: Iterable[Item], count: int) -> Iterator[list[Item]]:
    """All of them, in order, at most `count` at a time."""
    rest = iter(items)
    while some := [*islice(rest, count)]:
        yield some
