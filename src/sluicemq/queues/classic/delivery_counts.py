"""How often each message of a queue with a delivery limit has come back from its consumers.

It is kept by position, beside the messages: paging does not touch it, and other queues know nothing
of it. It is in RAM only, so a restart begins to count anew.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from sluicemq.limits import RETURN_BYTES
from sluicemq.queues.classic.pieces import RETURNS_A_UNIT
from sluicemq.queues.effects import Comebacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.classic.unacked_runs import UnackedRun
    from sluicemq.queues.machine import Depth

Stretch: TypeAlias = tuple[int, int, bool]
"""Contents [start, end), and whether they have come back too often."""


FORGET_MAX: Final = 400
"""Messages that are forgotten in a piece."""


class DeliveryCounts:
    """Counts how often messages have come back. A message that has come back more than `limit`
    times is not delivered again."""

    __slots__ = ("counts", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.counts: dict[int, int] = {}
        """By position; there is none for what has never come back."""

    def come_back(self, run: UnackedRun, start: int, end: int, depth: Depth) -> list[Stretch]:
        """Count one return more for the contents [start, end) of a run. Returns them in stretches,
        each with whether it has come back too often."""
        counts = self.counts
        before = len(counts)
        for position in run.positions[start:end]:
            counts[position] = counts.get(position, 0) + 1
        depth.footprint += (len(counts) - before) * RETURN_BYTES
        if self.limit >= 1 and len(counts) - before == end - start:
            return [(start, end, False)]  # each for the first time
        over = [counts[position] > self.limit for position in run.positions[start:end]]
        stretches: list[Stretch] = []
        for too_often, some in groupby(over):
            stretches.append((start, start + sum(1 for _ in some), too_often))
            start = stretches[-1][1]
        return stretches

    def of(self, chunk: Chunk, positions: range) -> Comebacks | None:
        """Return how often each of these messages of a chunk has come back; 0: never, or it was
        before a restart. None: they have not been delivered before."""
        if not chunk.redelivered:
            return None
        counts = [self.counts.get(position, 0) for position in positions]
        return Comebacks(counts, positions, chunk.traits.persistent)

    def forget(self, positions: Iterable[int], depth: Depth) -> None:
        """Forget the counts of messages that have left the queue for good."""
        counts = self.counts
        if counts:
            before = len(counts)
            for position in positions:
                counts.pop(position, None)
            depth.footprint -= (before - len(counts)) * RETURN_BYTES

    def forget_in_pieces(self, positions: range, depth: Depth) -> Iterator[int]:
        """Forget the counts of any number of messages that have left the queue for good. Each step
        does a piece and gives its units of work."""
        for at in range(0, len(positions) if self.counts else 0, FORGET_MAX):
            self.forget(positions[at : at + FORGET_MAX], depth)
            yield FORGET_MAX // RETURNS_A_UNIT

    def end(self, depth: Depth) -> Iterator[int]:
        """Forget all counts, because nothing is counted any more. Each step does a piece and gives
        its units of work."""
        counts = self.counts
        while counts:
            some = min(FORGET_MAX, len(counts))
            for _ in range(some):
                counts.popitem()
            depth.footprint -= some * RETURN_BYTES
            yield FORGET_MAX // RETURNS_A_UNIT
