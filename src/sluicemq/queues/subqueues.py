"""The places of a backing queue: q1, q2, q3, q4 in RAM, delta on disk; and the moves between them.

Which messages are where, and why, is told in `paging.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from sluicemq.queues.chunk import position_of

if TYPE_CHECKING:
    from sluicemq.queues.chunk import Chunk

PUBLISH, OUT, REQUEUE = "publish", "out", "requeue"
Q1, Q2, DELTA, Q3, Q4 = "q1", "q2", "delta", "q3", "q4"

MOVES: Final[dict[tuple[str, str], str]] = {
    (PUBLISH, Q4): "nothing is paged out: the new message may be the next to be fetched",
    (PUBLISH, Q1): "something is paged out: the new message is behind it",
    (PUBLISH, DELTA): "lazy queue",
    (Q1, Q3): "alpha to beta while delta is empty",
    (Q1, Q2): "alpha to beta while delta is not empty",
    (Q4, Q3): "alpha to beta, the newest of q4 first, when q1 has no more",
    (Q3, DELTA): "gamma to delta, the newest of q3 first; one load's worth stays",
    (Q2, DELTA): "gamma to delta, the oldest of q2 first",
    (DELTA, Q3): "loaded: q3 has run low",
    (Q2, Q3): "delta has become empty",
    (Q1, Q4): "q3 and delta have become empty",
    (Q3, OUT): "fetched; its body was read before when it had none",
    (Q4, OUT): "fetched",
    (REQUEUE, Q4): "before everything in q3",
    (REQUEUE, Q3): "before delta, but not before all of q3",
    (REQUEUE, DELTA): "behind the beginning of delta",
}
"""Every legal move, and when it is made."""


NO_CHUNKS: Final = cast("deque[Chunk]", ())
"""In place of a deque that has had nothing yet: each queue has five, and one that is empty takes
760 bytes."""


class SubQueue:
    """One of q1, q2, q3, q4: `count` messages, of which `ram` have their bodies in RAM."""

    __slots__ = ("chunks", "count", "name", "ram")

    def __init__(self, name: str) -> None:
        self.name = name
        self.chunks: deque[Chunk] = NO_CHUNKS
        self.count = 0
        self.ram = 0

    def own(self) -> deque[Chunk]:
        """The chunks, to add to them."""
        if self.chunks is NO_CHUNKS:
            self.chunks = deque()
        return self.chunks

    def add(self, chunk: Chunk) -> None:
        """At the new end."""
        self.own().append(chunk)
        self._counted(chunk, 1)

    def add_first(self, chunk: Chunk) -> None:
        """At the old end."""
        self.own().appendleft(chunk)
        self._counted(chunk, 1)

    def insert(self, chunk: Chunk) -> None:
        """At its place; all chunks are in the order of their positions."""
        place = bisect_left(self.chunks, position_of(chunk), key=position_of)
        self.own().insert(place, chunk)
        self._counted(chunk, 1)

    def take_first(self, count: int) -> Chunk:
        """The oldest chunk, at most `count` messages of it."""
        chunk = self.chunks.popleft()
        if chunk.left() > count:
            self.chunks.appendleft(chunk.split(count))
        self._counted(chunk, -1)
        return chunk

    def take_last(self, count: int) -> Chunk:
        """The newest chunk, at most the last `count` messages of it."""
        chunk = self.chunks.pop()
        left = chunk.left()
        if left > count:
            self.chunks.append(chunk)
            chunk = chunk.split(left - count)
        self._counted(chunk, -1)
        return chunk

    def _counted(self, chunk: Chunk, sign: int) -> None:
        left = sign * chunk.left()
        self.count += left
        if chunk.bodies:
            self.ram += left

    def clear(self) -> None:
        self.chunks = NO_CHUNKS
        self.count = self.ram = 0


class Delta:
    """What is on disk only: `count` messages with positions in [start, end)."""

    __slots__ = ("bytes", "count", "end", "persistent", "references", "start")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Blank: no messages, no range."""
        self.start = self.end = self.count = self.persistent = self.bytes = 0
        self.references = False
        """Bodies in the message store may belong to it."""

    def cover(self, positions: range) -> None:
        """The range grows to hold these."""
        if not self.count:
            self.start, self.end = positions[0], positions[-1] + 1
        else:
            self.start = min(self.start, positions[0])
            self.end = max(self.end, positions[-1] + 1)

    def facts(self) -> dict[str, int]:
        """As backing_queue_status shows it."""
        return {
            "start": self.start,
            "count": self.count,
            "transient": self.count - self.persistent,
            "end": self.end,
        }
