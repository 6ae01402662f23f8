"""The indexes of the still needed entries up to a snapshot's. There may be very many ranges of
them, so a question about one entry never looks at all of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import chain, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class LiveIndexes:
    """The indexes in `ranges`, which ascend and do not overlap. None of them is empty."""

    __slots__ = ("bounds", "ranges")

    def __init__(self, ranges: Sequence[range] = ()) -> None:
        self.ranges = (*ranges,)
        self.bounds = array("Q", chain.from_iterable((each.start, each.stop) for each in ranges))
        """The beginning and the end of each range, one after the other: an index is in a range if
        an odd number of them is at or before it."""

    def __contains__(self, index: int) -> bool:
        return bool(bisect_right(self.bounds, index) & 1)

    def count(self, first: int, last: int) -> int:
        """Return how many indexes there are from `first` to `last`, both inclusive."""
        bounds = self.bounds
        start, end = bisect_right(bounds, first), bisect_left(bounds, last + 1)
        inner = bounds[start:end]
        if start & 1:
            inner.insert(0, first)
        if end & 1:
            inner.append(last + 1)
        return sum(inner[1::2]) - sum(inner[::2])

    def behind(self, index: int) -> Iterator[int]:
        """Yield the indexes above this one, ascending."""
        at = bisect_right(self.bounds, index + 1) // 2
        for number in range(max(at - 1, 0), len(self.ranges)):
            some = self.ranges[number]
            yield from range(max(some.start, index + 1), some.stop)

    def has_any(self, first: int, last: int) -> bool:
        """Tell whether there is any index from `first` to `last`, both inclusive."""
        bounds = self.bounds
        start = bisect_right(bounds, first)
        return bool(start & 1) or (start < len(bounds) and bounds[start] <= last)


NOTHING_LIVE = LiveIndexes()
"""No entry up to the snapshot's is needed."""


def joined(ranges: Sequence[range], count_max: int) -> tuple[range, ...]:
    """Return at most `count_max` ranges, at least one, that cover all indexes of `ranges` and as
    few others as possible: it joins those with the smallest gaps between them."""
    excess = len(ranges) - count_max
    if excess <= 0:
        return (*ranges,)
    gaps = [after.start - before.stop for before, after in pairwise(ranges)]
    widest = sorted(gaps)[excess - 1]
    ties = excess - sum(gap < widest for gap in gaps)
    found: list[range] = []
    start = ranges[0].start
    for gap, (before, after) in zip(gaps, pairwise(ranges), strict=True):
        if gap > widest or (gap == widest and not ties):
            found.append(range(start, before.stop))
            start = after.start
        elif gap == widest:
            ties -= 1
    found.append(range(start, ranges[-1].stop))
    return (*found,)
