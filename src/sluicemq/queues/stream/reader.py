"""A consumer of a stream: its place, what was read for it, and its unsettled deliveries."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sluicemq.storage.records import FILE_HEADER_SIZE
from sluicemq.storage.stream_reads import ANYWHERE, StreamRead

if TYPE_CHECKING:
    from sluicemq.queues.commands import LinkId
    from sluicemq.queues.consumers import Consumer
    from sluicemq.queues.stream.cache import CachedChunk, ChunkCache
    from sluicemq.storage.stream_log import StreamLog
    from sluicemq.storage.stream_segment import StreamSegment


class StreamReader:
    """The place of a stream's consumer. `offset` is that of its next message. `timestamp_ms`: that
    offset is not known yet, but the time to look it up by, in milliseconds since the epoch; 0: it
    is known. `run` identifies its deliveries to its channel, over `link`; `unacked` of them are
    unsettled."""

    __slots__ = (
        "chunk",
        "consumer",
        "job",
        "link",
        "offset",
        "pieces",
        "place",
        "run",
        "timestamp_ms",
        "tries",
        "unacked",
    )

    def __init__(
        self, consumer: Consumer, link: LinkId, run: int, offset: int, timestamp_ms: int = 0
    ) -> None:
        self.consumer = consumer
        self.link = link
        self.run = run
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.unacked = 0
        self.chunk: CachedChunk | None = None
        self.pieces: deque[CachedChunk] = deque()
        """Chunks behind it that were read together with it."""
        self.place: tuple[StreamSegment, int] | None = None
        """The place of the next chunk in the log; None: it must be looked up."""
        self.job: StreamRead | None = None
        self.tries = 0

    def room(self, cost_each: int) -> int:
        """Return how many messages of `cost_each` it can take now; 0 or less: none. The cost is in
        units of its window."""
        consumer = self.consumer
        window = consumer.window
        if window.is_shut or not consumer.active or window.waits():
            return 0
        prefetch = consumer.prefetch
        return min(window.credit // cost_each or 1, prefetch.limit - prefetch.unacked)

    def take(self, count: int, cost_each: int) -> int:
        """Account for `count` deliveries of `cost_each`. Returns their total cost for
        the window.
        """
        cost = count * cost_each
        self.consumer.window.spend(cost)
        self.consumer.prefetch.take(count)
        self.unacked += count
        self.offset += count
        return cost

    def settled(self, count: int) -> None:
        """Allow it `count` more messages, because so many were settled."""
        self.unacked -= count
        self.consumer.prefetch.give(count)

    def next_chunk(self, cache: ChunkCache, queue_id: int) -> CachedChunk | None:
        """Return the chunk with the next message; None when it is not in RAM, or its place has to
        be looked up first."""
        chunk = self.chunk
        if chunk is not None:
            if self.offset < chunk.end:
                return chunk
            self.chunk = None
            cache.release(chunk)
        if self.timestamp_ms or self.job is not None:
            return None
        if self.pieces:
            chunk = self.pieces.popleft()  # held already
            self.offset = max(self.offset, chunk.first)
        else:
            chunk = cache.get(queue_id, self.offset)
            if chunk is None:
                return None
            cache.hold(chunk)
        self.chunk = chunk
        self.place = (chunk.segment, chunk.position)
        return chunk

    def next_read(self, log: StreamLog) -> StreamRead | None:
        """Return the job that reads on; None when nothing follows yet."""
        self.offset = max(self.offset, log.first_offset)
        place = self.place
        if place is not None and log.has(place[0]) and place[1] < place[0].size:
            return StreamRead(place[0], place[1], self.offset)
        if self.timestamp_ms:
            segment = log.segment_at(self.timestamp_ms)
        else:
            segment = log.segment_of(self.offset)
        if segment is None:
            self.timestamp_ms = 0
            return None
        self.offset = max(self.offset, segment.first)
        position = ANYWHERE
        if self.offset == segment.first and not self.timestamp_ms:
            position = FILE_HEADER_SIZE
        return StreamRead(segment, position, self.offset, self.timestamp_ms)

    def let_go(self, cache: ChunkCache) -> None:
        """Release the chunks that it holds, because it reads no more."""
        for chunk in [self.chunk, *self.pieces]:
            if chunk is not None:
                cache.release(chunk)
        self.chunk = None
        self.pieces.clear()
