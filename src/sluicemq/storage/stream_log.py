"""The log of one stream: appended messages get offsets, are written in groups, and never change.

    append ... append -> commit() -> job on the disk -> committed(job): durable, and readable

It writes one group at a time: messages appended while one is being synced are the next. A segment
that has reached its size is closed with the next group, which begins a new one. Retention drops
whole segments, the oldest first, and never the last one; so the next offset is always known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.limits import (
    STREAM_ALLOCATE_BYTES,
    STREAM_ALLOCATE_MAX_BYTES,
    STREAM_CHUNK_BYTES,
    STREAM_GROUP_BYTES,
    STREAM_SEGMENT_BYTES,
)
from sluicemq.storage.stream_chunk import StreamChunk
from sluicemq.storage.stream_segment import StreamSegment, stream_directory

if TYPE_CHECKING:
    from sluicemq.model.traits import MessageTraits

SYNCS: Final = ("sync", "sync directory", "sync_directory")


class Appended:
    """Messages that wait to be written: they differ only in their contents, which are `size` bytes
    together."""

    __slots__ = ("contents", "size", "traits")

    def __init__(self, traits: MessageTraits, contents: list[bytes], size: int) -> None:
        self.traits = traits
        self.contents = contents
        self.size = size


class StreamCommit(DiskJob):
    """Makes a group durable. It may be submitted again after it has failed for lack of space: it
    writes the same to the same places."""

    def __init__(self, segment: StreamSegment, is_new: bool, chunks: list[StreamChunk]) -> None:
        self.segment = segment
        self.is_new = is_new
        """True when it begins the file."""
        self.position = segment.size
        """The position of the first chunk."""
        self.chunks = chunks
        self.ends: list[int] = []
        """The position behind each chunk."""
        self.allocate = 0
        self.data = b""
        self.closing: StreamSegment | None = None
        """The previous segment, which is closed."""
        self.ending = b""

    @property
    def may_be_tried_again(self) -> bool:
        """Tell whether it has failed for lack of space, and not in a sync, after which nothing is
        known."""
        failure = self.failure
        return failure is not None and failure.is_full and failure.action not in SYNCS

    def run(self, files: Files) -> None:
        if self.closing is not None:
            close(files, self.closing, self.ending)
        path = self.segment.path
        directory, _, _ = path.rpartition("/")
        if self.is_new:
            files.make_directory(directory)
        if self.allocate:
            files.allocate(path, self.allocate)
        if self.is_new:  # durable before other data follows: without it nothing is read
            files.write(path, 0, self.segment.header())
            files.sync(path)
            files.sync_directory(directory)
        files.write(path, self.position, self.data)
        files.sync(path)


def close(files: Files, segment: StreamSegment, ending: bytes) -> None:
    """Write the end of a segment's file, durably. Raises DiskFailed."""
    files.write(segment.path, segment.size, ending)
    files.truncate(segment.path, segment.size + len(ending))
    files.sync(segment.path)


class StreamDrop(DiskJob):
    """Deletes segments, the oldest first. Each goes only after the one before it is surely gone, so
    that no gap is ever left."""

    def __init__(self, directory: str, paths: list[str]) -> None:
        self.directory = directory
        self.paths = paths

    def run(self, files: Files) -> None:
        for path in self.paths:
            files.delete(path)
            files.sync_directory(self.directory)


class StreamLog:
    """The log of one stream. `segments` have the durable part; `next_offset` is that of the next
    message appended."""

    def __init__(
        self,
        queue_id: int,
        new_file_id: Callable[[], bytes],
        segment_bytes: int = STREAM_SEGMENT_BYTES,
        chunk_bytes: int = STREAM_CHUNK_BYTES,
        group_bytes: int = STREAM_GROUP_BYTES,
    ) -> None:
        self.queue_id = queue_id
        self.directory = stream_directory(queue_id)
        self.new_file_id = new_file_id
        self.segment_bytes = segment_bytes
        self.chunk_bytes = chunk_bytes
        self.group_bytes = group_bytes
        self.segments: list[StreamSegment] = []
        self.next_offset = 0
        self.waiting: deque[Appended] = deque()
        self.waiting_bytes = 0
        self.job: StreamCommit | None = None
        self.job_bytes = 0
        self.last_ms = 0
        self.bytes = 0
        """The durable bytes of all segments."""
        self.syncs = 0
        self.written_bytes = 0

    def recovered(self, segments: list[StreamSegment], next_offset: int) -> None:
        """Begin with the segments found by a start."""
        self.segments = segments
        self.next_offset = next_offset
        self.last_ms = max((segment.last_ms for segment in segments), default=0)
        self.bytes = sum(segment.size for segment in segments)

    @property
    def first_offset(self) -> int:
        """Return the offset of the oldest message, or of the next one without any."""
        return self.segments[0].first if self.segments else self.durable_end

    @property
    def durable_end(self) -> int:
        """Return the offset behind the last message that may be read."""
        if self.segments:
            return self.segments[-1].end
        return self.next_offset - self._unwritten()

    @property
    def last_chunk(self) -> int:
        """Return the first offset of the last chunk, or the next offset without any."""
        return self.segments[-1].last_chunk if self.segments else self.durable_end

    @property
    def unsynced_bytes(self) -> int:
        """Return the bytes of contents that are not durable yet."""
        return self.waiting_bytes + self.job_bytes

    def _unwritten(self) -> int:
        waiting = sum(len(each.contents) for each in self.waiting)
        return waiting + (sum(chunk.count for chunk in self.job.chunks) if self.job else 0)

    # -- writing

    def append(self, traits: MessageTraits, contents: list[bytes], size: int) -> int:
        """Assign offsets to messages, which are `size` bytes, and queue them for the next group.
        Returns the offset of the first; the others follow."""
        first = self.next_offset
        self.next_offset += len(contents)
        self.waiting_bytes += size
        self.waiting.append(Appended(traits, contents, size))
        return first

    def commit(self, now_ms: int) -> StreamCommit | None:
        """Return the job that makes the next group durable; None while one is under way or nothing
        waits. `now_ms` is the wall clock."""
        if self.job is not None or not self.waiting:
            return None
        first = self.durable_end
        self.last_ms = max(self.last_ms, now_ms)
        segment = self.segments[-1] if self.segments else None
        closing: StreamSegment | None = None
        is_new = segment is None or segment.is_closed or segment.size >= self.segment_bytes
        if segment is None or is_new:
            closing = segment if segment is not None and not segment.is_closed else None
            segment = StreamSegment(self.queue_id, self.directory, first, self.new_file_id())
        room = min(self.group_bytes, self.segment_bytes - segment.size)
        job = StreamCommit(segment, is_new, self._chunks(first, room))
        if closing is not None:
            job.closing, job.ending = closing, closing.ending()
        self._encode(job)
        self.job = job
        return job

    def discard(self) -> None:
        """Forget waiting messages, so that they are not written any more."""
        self.waiting.clear()
        self.waiting_bytes = 0

    def give_up(self) -> None:
        """Forget the messages of the job, which has failed."""
        self.job = None
        self.job_bytes = 0

    def _chunks(self, group: int, room: int) -> list[StreamChunk]:
        """Return chunks of waiting messages, as many as there is room for, at least one."""
        chunks: list[StreamChunk] = []
        first = group
        while self.waiting and (room > 0 or not chunks):
            head = self._take()
            self.waiting_bytes -= head.size
            self.job_bytes += head.size
            room -= head.size
            chunk = StreamChunk(first, group, self.last_ms, head.traits, head.contents)
            chunks.append(chunk)
            first = chunk.end
        assert self.waiting_bytes >= 0, "more was taken than waited"
        return chunks

    def _take(self) -> Appended:
        """Return the messages of one chunk: the first that wait, with the next ones like them, or
        only a part of them."""
        waiting = self.waiting
        head = waiting.popleft()
        if head.size > self.chunk_bytes and len(head.contents) > 1:
            head, rest = split(head, self.chunk_bytes)
            waiting.appendleft(rest)
            return head
        contents: list[bytes] | None = None
        while waiting and head.size + waiting[0].size <= self.chunk_bytes:
            other = waiting[0]
            if not written_alike(other.traits, head.traits):
                break
            if contents is None:  # the list may belong to other queues too
                contents = [*head.contents]
                head = Appended(head.traits, contents, head.size)
            contents += other.contents
            head.size += other.size
            waiting.popleft()
        return head

    def _encode(self, job: StreamCommit) -> None:
        """Encode the chunks, and compute the space to reserve for them."""
        segment = job.segment
        position = job.position
        parts: list[bytes] = []
        for chunk in job.chunks:
            record = chunk.encode(segment.file_id, position)
            parts += record
            position += sum(map(len, record))
            job.ends.append(position)
        job.data = b"".join(parts)
        self.written_bytes += len(job.data)
        if position > segment.allocated:
            step = max(STREAM_ALLOCATE_BYTES, min(position, STREAM_ALLOCATE_MAX_BYTES))
            step = min(step, self.segment_bytes)
            segment.allocated = job.allocate = position + step - position % step

    def committed(self, job: StreamCommit) -> None:
        """Note that the job of `commit` has succeeded: its messages may be read."""
        assert job is self.job
        self.job = None
        self.job_bytes = 0
        self.syncs += 1
        segment = job.segment
        assert job.chunks[0].first == segment.end, "a group that does not follow the last one"
        if job.closing is not None:
            job.closing.places = None
        if job.is_new:
            self.segments.append(segment)
            self.bytes += segment.size
        position = job.position
        self.bytes += job.ends[-1] - position
        for chunk, end in zip(job.chunks, job.ends, strict=True):
            segment.add(chunk, position, end)
            position = end
        job.data = b""

    # -- reading

    def segment_of(self, offset: int) -> StreamSegment | None:
        """Return the segment that has that offset, or else the next existing one; None when the
        offset was not written yet."""
        if offset >= self.durable_end:
            return None
        at = bisect_right(self.segments, offset, key=first_of) - 1
        if at >= 0 and offset >= self.segments[at].end:
            at += 1
        return self.segments[max(at, 0)]

    def segment_at(self, timestamp_ms: int) -> StreamSegment | None:
        """Return the first segment with messages of that time or later, in milliseconds since the
        epoch; None without one."""
        for segment in self.segments:
            if segment.last_ms >= timestamp_ms:
                return segment
        return None

    def has(self, segment: StreamSegment) -> bool:
        """Tell whether a segment still exists, or was dropped."""
        return segment.first >= self.first_offset

    # -- retention

    def retain(
        self, now_ms: int, max_age_ms: int | None, max_bytes: int | None
    ) -> list[StreamSegment]:
        """Drop the oldest segments as long as all their messages are older than `max_age_ms`, or
        all segments together have more than `max_bytes`; None is no limit. Returns the dropped
        segments, whose files are to be deleted. The last segment always stays."""
        dropped: list[StreamSegment] = []
        while len(self.segments) > 1:
            oldest = self.segments[0]
            too_old = max_age_ms is not None and oldest.last_ms < now_ms - max_age_ms
            too_much = max_bytes is not None and self.bytes > max_bytes
            if not (too_old or too_much):
                break
            self.bytes -= oldest.size
            dropped.append(self.segments.pop(0))
        return dropped


def first_of(segment: StreamSegment) -> int:
    """Return the sort key of segments: the first offset."""
    return segment.first


def split(appended: Appended, chunk_bytes: int) -> tuple[Appended, Appended]:
    """Return the first messages, of at most `chunk_bytes` but at least one, and the others."""
    count = 0
    size = 0
    for content in appended.contents[:-1]:
        if count and size + len(content) > chunk_bytes:
            break
        count += 1
        size += len(content)
    traits, contents = appended.traits, appended.contents
    return (
        Appended(traits, contents[:count], size),
        Appended(traits, contents[count:], appended.size - size),
    )


def written_alike(one: MessageTraits, other: MessageTraits) -> bool:
    """Tell whether messages with these traits may share a chunk, which keeps only their envelope
    and channel number."""
    return one is other or (
        one.envelope == other.envelope and one.channel_number == other.channel_number
    )
