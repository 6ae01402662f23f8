"""Reads a stream's log forward from an offset or a time on, a piece at a time."""

from __future__ import annotations

from typing import Final

from sluicemq.errors import Corrupt
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.limits import STREAM_READ_BYTES
from sluicemq.storage.records import CHUNK, FILE_HEADER_SIZE
from sluicemq.storage.stream_chunk import StreamChunk, decode_contents, decode_head
from sluicemq.storage.stream_segment import ChunkPlaces, StreamSegment, Walk, read_places

ANYWHERE: Final = 0
"""In place of a position that must be looked up."""


class StreamRead(DiskJob):
    """Reads chunks of one segment from `position` on (ANYWHERE: it is looked up), about `piece`
    bytes of them. Chunks that end at or before `offset` or are older than `timestamp_ms` are left
    out.

    Then `position` is behind the last one. `lost` has ranges of positions without a valid chunk
    that one follows. `is_over` says that the segment has nothing more, as far as it was durable
    then: below the offset `end`.
    """

    def __init__(
        self,
        segment: StreamSegment,
        position: int,
        offset: int,
        timestamp_ms: int = 0,
        piece: int = STREAM_READ_BYTES,
    ) -> None:
        self.segment = segment
        self.path = segment.path
        self.limit = segment.size
        self.end = segment.end
        self.position = position
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.piece = piece
        self.chunks: list[StreamChunk] = []
        self.ends: list[int] = []
        """The position behind each chunk."""
        self.lost: list[tuple[int, int]] = []
        self.is_over = False
        self.tries = 0
        if position == ANYWHERE and segment.places is not None:
            self.position = self._look_up(segment.places)

    def _look_up(self, places: ChunkPlaces | None) -> int:
        """Return where to begin; at the front when nothing is known."""
        if places is None:
            return FILE_HEADER_SIZE
        if self.timestamp_ms:
            return places.of_time(self.timestamp_ms)
        return places.of_offset(self.offset)

    def run(self, files: Files) -> None:
        """Read until there are `piece` wanted bytes, or the segment ends, or what was read at once
        has no further whole chunk: the next job would read the rest of that again, and this one
        would read beyond it."""
        if self.position == ANYWHERE:
            file_id = self.segment.file_id
            self.position = self._look_up(read_places(files, self.path, file_id, self.limit))
        walk = Walk(
            files, self.path, self.segment.file_id, self.position, self.limit, piece=self.piece
        )
        size = 0
        while size < self.piece and (not self.chunks or walk.is_at_hand()):
            record = walk.next()
            if record is None:
                self.is_over = True
                break
            if record.type != CHUNK:
                continue
            try:
                head = decode_head(record)
                if head.end > self.offset and head.timestamp_ms >= self.timestamp_ms:
                    self.chunks.append(decode_contents(record, head))
                    self.ends.append(record.end)
                    size += record.end - record.offset
            except Corrupt:
                self.lost.append((record.offset, record.end))
            self.position = record.end
        self.lost += walk.damaged
