"""The sub-queues of a backing queue: q1 to q4 in RAM, delta on disk; and the moves between them.

This module has the state; `paging_jobs.py` loads it from disk, `paging.py` moves messages and
explains why.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from sluicemq.queues.classic.backing import Backing, Delta
from sluicemq.queues.classic.chunk import end_of, position_of
from sluicemq.queues.classic.requeued import Requeued
from sluicemq.storage.positions import Mark, first_of_priority

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.classic.unacked_runs import UnackedRun
    from sluicemq.queues.machine import Depth
    from sluicemq.storage.queue_index import QueueIndex

PUBLISH, OUT, REQUEUE, RESTORE = "publish", "out", "requeue", "restore"
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
    (RESTORE, Q3): "in the queue in an earlier life, its body is to be read",
    (REQUEUE, Q4): "before everything in q3",
    (REQUEUE, Q3): "before delta, but not before all of q3",
    (REQUEUE, DELTA): "behind the beginning of delta",
}
"""Every legal move, and its occasion."""


NO_CHUNKS: Final[Any] = ()
"""Stands for a deque that was never used: each queue has five, and an empty one takes 760 bytes."""


class SubQueue:
    """One of q1, q2, q3, q4: `count` messages, of which `ram` have their bodies in RAM."""

    __slots__ = ("chunks", "count", "name", "ram")

    def __init__(self, name: str) -> None:
        self.name = name
        self.chunks: deque[Chunk] = NO_CHUNKS
        self.count = 0
        self.ram = 0

    def own(self) -> deque[Chunk]:
        """Return the chunks as a deque of its own, which may grow."""
        if self.chunks is NO_CHUNKS:
            self.chunks = deque()
        return self.chunks

    def add(self, chunk: Chunk) -> None:
        """Put a chunk at the new end, behind all others."""
        chunks = self.own()
        assert not chunks or end_of(chunks[-1]) <= position_of(chunk), "behind a newer one"
        chunks.append(chunk)
        self._counted(chunk, 1)

    def add_first(self, chunk: Chunk) -> None:
        """Put a chunk at the old end, before all others."""
        chunks = self.own()
        assert not chunks or end_of(chunk) <= position_of(chunks[0]), "before an older one"
        chunks.appendleft(chunk)
        self._counted(chunk, 1)

    def insert(self, chunk: Chunk) -> None:
        """Put a chunk at its place in the order of positions."""
        place = bisect_left(self.chunks, position_of(chunk), key=position_of)
        self.own().insert(place, chunk)
        self._counted(chunk, 1)

    def take_first(self, count: int) -> Chunk:
        """Remove and return the oldest chunk, or its first `count` messages if it has more."""
        chunk = self.chunks.popleft()
        if chunk.left() > count:
            self.chunks.appendleft(chunk.split(count))
        self._counted(chunk, -1)
        return chunk

    def take_last(self, count: int) -> Chunk:
        """Remove and return the newest chunk, or its last `count` messages if it has more."""
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
        assert 0 <= self.ram <= self.count, "bodies of messages that are not here"

    def clear(self) -> None:
        self.chunks = NO_CHUNKS
        self.count = self.ram = 0


class SubQueues(Backing):
    """Holds the ready messages of one queue. `depth` gets the figures about RAM.

    `io_batch`: positions leave for delta in batches of at least so many; `betas_min`: so many betas
    are always permitted (the entries of a segment).
    """

    __slots__ = (
        "betas_min",
        "condemned",
        "converting",
        "delivered",
        "delta",
        "depth",
        "disk_reads",
        "disk_writes",
        "durable",
        "epoch",
        "fetched",
        "in_flight",
        "index",
        "io_batch",
        "lazy",
        "lost",
        "next_position",
        "outgoing",
        "q1",
        "q2",
        "q3",
        "q4",
        "returned",
        "target",
        "to_store",
        "to_store_count",
    )

    converting: bool
    delta: Delta
    disk_reads: int
    disk_writes: int
    target: int | None
    to_store_count: int

    def __init__(self, depth: Depth, index: QueueIndex, io_batch: int, durable: bool) -> None:
        self.depth = depth
        self.index = index
        self.io_batch = io_batch
        self.betas_min = index.entry_count
        self.durable = durable
        self.lazy = False
        """New messages are paged out at once."""
        self.converting = False
        """It has become lazy, and messages from before are not all paged out yet."""
        self.q1, self.q2 = SubQueue(Q1), SubQueue(Q2)
        self.q3, self.q4 = SubQueue(Q3), SubQueue(Q4)
        self.delta = Delta()
        self.returned = Requeued()
        """The front of q4, counted in it. Some may be without their bodies."""
        self.outgoing: deque[Chunk] = NO_CHUNKS
        self.in_flight: list[Chunk] = []
        """Chunks that the write job under way will free."""
        self.to_store: list[Chunk] = []
        """Paged-out transient bodies that the message store must take."""
        self.to_store_count = 0
        """Messages of these."""
        self.next_position = 0
        self.delivered = 0
        """Every message below this position was given to a consumer at some time."""
        self.fetched = 0
        """The same, since the start."""
        self.target: int | None = None
        """The number of messages that may have their bodies in RAM; None: all."""
        self.lost: list[str] = []
        """The messages that could not be read, for the log."""
        self.epoch = 0
        """It grows with every purge, which makes jobs under way obsolete."""
        self.condemned: list[range] = []
        """Positions purged while only the disk had them, some with bodies in the message store:
        their ids must be read before they are forgotten."""
        self.disk_reads = 0
        self.disk_writes = 0

    def q3_is_empty(self) -> None:
        """Move q1 to q4 if there is no delta, because q3 has become empty; otherwise delta is
        loaded soon."""
        if not self.delta.count:
            assert not self.q2.count, "a message between delta and q1, without delta"
            for chunk in self.q1.chunks:
                self.q4.add(self.moved(Q1, Q4, chunk))
            self.q1.clear()

    def moved(self, source: str, target: str, chunk: Chunk) -> Chunk:
        assert (source, target) in MOVES, f"no message goes from {source} to {target}"
        return chunk

    def take_to_store(self) -> list[Chunk]:
        chunks, self.to_store, self.to_store_count = self.to_store, [], 0
        return chunks

    def in_ram(self) -> Iterable[Chunk]:
        """Give the chunks of requeued messages, then those of q4, q3, q2 and q1."""
        yield from self.returned
        for queue in (self.q4, self.q3, self.q2, self.q1):
            yield from queue.chunks

    def unsaved(self, upto: int, start: int) -> Iterator[tuple[Chunk, bool]]:
        for chunk in [*self.outgoing, *self.returned]:
            if chunk.traits.persistent and position_of(chunk) < upto:
                yield chunk, False
        for queue in (self.q4, self.q3, self.q2, self.q1):
            for chunk in queue.chunks:
                if start <= position_of(chunk) < upto and chunk.traits.persistent:
                    yield chunk, True

    @property
    def has_outgoing(self) -> bool:
        return bool(self.outgoing)

    def leaving(self) -> Iterable[Chunk]:
        return [*self.outgoing, *self.in_flight]

    @property
    def is_seeking(self) -> bool:
        return bool(self.condemned)

    def needs_disk(self) -> bool:
        if self.delta.count or self.outgoing or self.condemned:
            return True
        return bool(self.q3.count or self.returned.rows)

    def bound(self, upto: int) -> None:
        """Do nothing, because position `upto` is enough: later messages have higher ones."""

    def bound_at(self, position: int, upto: int) -> int:
        return upto

    def marks(self, size: int, unacked_runs: Iterable[UnackedRun]) -> list[Mark]:
        """Return one mark, because there is one row of positions, which has all messages."""
        return [Mark(self.next_position, self.delivered, size)]

    def recover(self, marks: Sequence[Mark]) -> int:
        """Begin with all that the index has of this row as delta. Returns how many messages that
        is."""
        (mark,) = marks
        self.next_position, self.delivered = mark.next, mark.delivered
        live = self.index.live_in(first_of_priority(mark.priority), mark.next)
        count = sum(map(len, live))
        if count:
            delta = self.delta
            delta.start, delta.end = live[0][0], live[-1][-1] + 1
            delta.count = delta.persistent = count
            delta.bytes = mark.size
            delta.references = True
        return count

    def restore(self, chunk: Chunk) -> None:
        assert not (self.q1.count or self.delta.count), "restored behind what was published"
        self.q3.add(self.moved(RESTORE, Q3, chunk))

    def count_in(self, depth: Depth) -> None:
        self.depth = depth

    def info(self) -> dict[str, object]:
        return {
            "mode": "lazy" if self.lazy else "default",
            "q1": self.q1.count,
            "q2": self.q2.count,
            "delta": self.delta.facts(),
            "q3": self.q3.count,
            "q4": self.q4.count,
            "len": self.length(),
            "target_ram_count": "infinity" if self.target is None else self.target,
            "next_seq_id": self.next_position,
        }

    def size(self) -> int:
        """Return the bytes of the ready messages; for those in delta, as far as known."""
        return self.delta.bytes + sum(chunk.size() for chunk in self.in_ram())

    def length(self) -> int:
        return self.q1.count + self.q2.count + self.delta.count + self.q3.count + self.q4.count
