"""Chunks of streams in RAM: each is read once for all consumers at the same place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluicemq.amqp.stream_offsets import Headless, Packed, with_offsets
from sluicemq.model.batch import OVERHEAD_BYTES, size_of

if TYPE_CHECKING:
    from sluicemq.storage.stream_chunk import StreamChunk
    from sluicemq.storage.stream_segment import StreamSegment


class CachedChunk:
    """A chunk of a stream in RAM. `position` is the byte behind it in its segment; `holders` counts
    those that keep it in RAM.

    Contents of one length are `packed`, and cut at each delivery: what is cut is gone right after
    it, where the processor's caches still have it. Those that differ, in their length or in their
    header frames, are `loose`: from `prepare` on they are as consumers get them, with the header
    that has their offsets.
    """

    __slots__ = (
        "count",
        "first",
        "holders",
        "is_prepared",
        "loose",
        "packed",
        "position",
        "segment",
        "size",
        "traits",
    )

    def __init__(self, chunk: StreamChunk, segment: StreamSegment, position: int) -> None:
        self.first = chunk.first
        self.count = chunk.count
        self.traits = chunk.traits
        self.packed: Packed | None = chunk.packed
        self.loose = chunk.loose
        self.is_prepared = False
        self.size = OVERHEAD_BYTES * chunk.count
        if chunk.packed is None:
            self.size += size_of(chunk.loose, False)
        else:
            self.size += chunk.packed.size * chunk.count
        self.holders = 0
        self.segment = segment
        self.position = position

    @property
    def end(self) -> int:
        """Return the offset behind its last message."""
        return self.first + self.count

    def prepare(self) -> None:
        """Make the contents ready for consumers, when the first of them gets some."""
        if self.is_prepared:
            return
        self.is_prepared = True
        if self.packed is None:
            size = len(self.loose[0])
            if any(len(content) != size for content in self.loose):
                self.loose = with_offsets(self.loose, self.first)
                return
            self.packed = Packed(b"".join(self.loose), 0, size, self.count)
            self.loose = []

    def length(self, index: int) -> int:
        """Return the octets of the content at `index`, as consumers get it."""
        return len(self.loose[index]) if self.packed is None else self.packed.length(index)

    def headless(self, start: int, count: int) -> Headless | None:
        """Return `count` contents from the one at index `start` on; None when they are loose, as
        they are from then on when they turn out to be unlike each other."""
        packed = self.packed
        if packed is None:
            return None
        found = packed.headless(start, count)
        if found is None:
            self.loose = with_offsets(packed.cut(), self.first)
            self.packed = None
        return found


class ChunkCache:
    """Keeps chunks of all streams of a node, at most `limit` bytes; the least recently used one is
    dropped first. `account` is called with the change in bytes of RAM, including chunks that only a
    consumer holds."""

    is_vital = True
    """A fault in here ends the node (kernel/containment.py)."""

    def __init__(self, limit: int, account: Callable[[int], None]) -> None:
        self.limit = limit
        self.account = account
        self.chunks: dict[tuple[int, int], CachedChunk] = {}
        self.bytes = 0
        self.hits = 0

    def get(self, queue_id: int, first: int) -> CachedChunk | None:
        """Return the queue's chunk that begins with offset `first`; None when it is not here."""
        chunk = self.chunks.pop((queue_id, first), None)
        if chunk is not None:
            self.chunks[queue_id, first] = chunk
            self.hits += 1
        return chunk

    def put(self, queue_id: int, chunk: CachedChunk) -> None:
        """Keep a chunk for later readers; it replaces one that begins with the same offset. A chunk
        larger than the limit is not kept."""
        known = self.chunks.pop((queue_id, chunk.first), None)
        if known is not None:
            self._drop(known)
        if chunk.size > self.limit:
            return
        self.chunks[queue_id, chunk.first] = chunk
        self.bytes += chunk.size
        self.hold(chunk)
        while self.bytes > self.limit:
            self._drop(self.chunks.pop(next(iter(self.chunks))))

    def forget(self, queue_id: int) -> None:
        """Drop the chunks of a queue that is gone, or that nobody reads any more."""
        for key in [key for key in self.chunks if key[0] == queue_id]:
            self._drop(self.chunks.pop(key))

    def clear(self) -> None:
        """Drop all chunks; those that consumers hold stay with them."""
        for chunk in self.chunks.values():
            self._drop(chunk)
        self.chunks.clear()

    def _drop(self, chunk: CachedChunk) -> None:
        self.bytes -= chunk.size
        self.release(chunk)

    def hold(self, chunk: CachedChunk) -> None:
        """Count one more holder of a chunk; its RAM is accounted for from the first holder on."""
        chunk.holders += 1
        if chunk.holders == 1:
            self.account(chunk.size)

    def release(self, chunk: CachedChunk) -> None:
        """Count one holder of a chunk less; its RAM is given back after the last one."""
        assert chunk.holders > 0
        chunk.holders -= 1
        if not chunk.holders:
            self.account(-chunk.size)
