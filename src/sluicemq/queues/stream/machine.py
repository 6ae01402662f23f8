"""The stream: a log that only grows at its end, and readers that each have a place in it.

Reading removes nothing. An acknowledgement only returns credit; a reader's unacknowledged messages
do not matter when it goes. Only durable messages are read, so no reader sees a message that a crash
could take back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sluicemq.limits import STREAM_READS_MAX
from sluicemq.queues.commands import (
    FIRST_TERM,
    Cancel,
    Command,
    Consume,
    Delete,
    Down,
    Inspect,
    Publish,
    Settle,
)
from sluicemq.queues.consumers import Consumer, ConsumerGroups, cost_of
from sluicemq.queues.effects import (
    Cancelled,
    Confirm,
    Consumed,
    Deleted,
    Deliver,
    Effect,
    Inspected,
    Receipt,
    Refuse,
    StampedDeliver,
)
from sluicemq.queues.machine import Depth, QueueMachine
from sluicemq.queues.stream.cache import CachedChunk, ChunkCache
from sluicemq.queues.stream.reader import StreamReader
from sluicemq.queues.stream.start import AGO, FIRST, LAST, NEXT, OFFSET, Start, start_of
from sluicemq.storage.queue_index import READ_TRIES

if TYPE_CHECKING:
    from sluicemq.flow.credit import Outflow
    from sluicemq.kernel.actor import Actor
    from sluicemq.storage.stream_log import StreamCommit, StreamLog
    from sluicemq.storage.stream_reads import StreamRead
    from sluicemq.storage.stream_segment import StreamSegment


class Stream(QueueMachine):
    """The state of one stream. `title` is its name in errors; `wall_ms` is the wall clock in
    milliseconds since the epoch, set by the caller that hands over commands; `term` distinguishes
    its lives, each of which begins with what is read back."""

    def __init__(
        self, title: str, log: StreamLog, cache: ChunkCache, term: int = FIRST_TERM
    ) -> None:
        self.begin_term(term)
        self.title = title
        self.log = log
        self.cache = cache
        self.depth = Depth()
        self.consumers = ConsumerGroups()
        self.readers: dict[Consumer, StreamReader] = {}
        self.unacked_runs: dict[int, StreamReader] = {}
        """The readers, including those that are gone but have unsettled deliveries."""
        self.next_run = 1
        self.receipts: deque[tuple[int, Receipt]] = deque()
        """Receipts that are due when everything before an offset is durable."""
        self.moving: dict[StreamReader, None] = {}
        """Readers that may be able to take messages; all others wait for room, data or the disk."""
        self.at_end: dict[StreamReader, None] = {}
        """Readers that have room, and wait for publishes."""
        self.wanting: dict[StreamReader, None] = {}
        """Readers that could take messages on the disk, in line."""
        self.reading: dict[StreamRead, StreamReader] = {}
        self.cached_from = 0
        """From this offset on everything went to the cache when it was written."""
        self.deleted = False
        self.wall_ms = 0
        self.said: list[str] = []
        """The damage that was found, for the log."""

    def apply(self, command: Command, effects: list[Effect]) -> None:
        """Apply a command to the stream. Commands that a stream does not have, such as Get and
        Purge, must not come: the channel refuses them."""
        if isinstance(command, Publish):
            self.publish(command, effects)
        elif isinstance(command, Settle):
            self.settle(command)
        elif isinstance(command, Consume):
            self.consume(command, effects)
        elif isinstance(command, Cancel):
            self.drop(command.consumer)
            effects.append(Cancelled(command.consumer, False))
        elif isinstance(command, Down):
            self.down(command.channel)
        elif isinstance(command, Inspect):
            depth = self.depth
            effects.append(Inspected(command.channel, depth.ready, depth.consumers))
        else:
            assert isinstance(command, Delete), f"a stream has no {type(command).__name__}"
            self.delete(command, effects)

    # -- publishing

    def publish(self, command: Publish, effects: list[Effect]) -> None:
        """Append a batch to the log; it is confirmed when it is durable. A deleted stream confirms
        it and drops it."""
        batch = command.batch
        count = len(batch.contents)
        if self.deleted:
            if command.confirm:
                effects.append(Confirm(command.link, command.first_seq, count))
            return
        first = self.log.append(batch.traits, batch.contents, batch.size)
        if command.confirm:
            receipt = Receipt(command.link, command.first_seq, count)
            self.receipts.append((first + count, receipt))

    @property
    def is_waited_for(self) -> bool:
        """Tell whether a publisher or a reader waits for messages that are not durable yet."""
        if self.receipts:
            return True
        return bool(self.at_end)

    def commit(self) -> StreamCommit | None:
        """Return the job that makes the next group durable; None when there is none, or the stream
        is deleted."""
        return None if self.deleted else self.log.commit(self.wall_ms)

    def committed(self, job: StreamCommit, effects: list[Effect]) -> None:
        """Confirm the messages that a job has made durable, and let them be read."""
        self.log.committed(job)
        self.moving.update(self.at_end)
        self.at_end.clear()
        end = self.log.durable_end
        receipts = self.receipts
        while receipts and receipts[0][0] <= end:
            receipt = receipts.popleft()[1]
            effects.append(Confirm(receipt.link, receipt.first_seq, receipt.count))
        if any(reader.offset >= self.cached_from for reader in self.readers.values()):
            for chunk, position in zip(job.chunks, job.ends, strict=True):
                cached = CachedChunk(chunk, job.segment, position)
                self.cache.put(self.log.queue_id, cached)
        else:
            self.cached_from = end
        job.chunks.clear()
        self.count()

    def retain(self, max_age_ms: int | None, max_bytes: int | None) -> list[StreamSegment]:
        """Drop segments that are older than `max_age_ms`, or that make the log larger than
        `max_bytes`; None: there is no such limit. Returns the segments whose files are to be
        deleted."""
        dropped = self.log.retain(self.wall_ms, max_age_ms, max_bytes)
        if dropped:
            self.count()
        return dropped

    def count(self) -> None:
        """Update the figures of `depth` from the durable log; a deleted stream has none."""
        if self.deleted:
            return
        depth = self.depth
        log = self.log
        depth.ready = depth.persistent = log.durable_end - log.first_offset
        depth.ready_bytes = log.bytes

    # -- consumers

    def consume(self, command: Consume, effects: list[Effect]) -> None:
        """Add a reader. Several may read at once, exclusively or not, as in RabbitMQ; a deleted
        stream refuses."""
        consumer = command.consumer
        if self.deleted:
            effects.append(Refuse(consumer.channel, 404, f"no {self.title}"))
            return
        start = start_of(consumer.arguments)
        assert start is not None, "the channel has looked at it"
        offset, timestamp_ms = self.place_of(start)
        link = self.link_to(consumer.channel)
        reader = StreamReader(consumer, link, self.next_run, offset, timestamp_ms)
        self.unacked_runs[reader.run] = reader
        self.next_run += 1
        consumer.active = True
        self.readers[consumer] = reader
        self.moving[reader] = None
        self.consumers.add(consumer)
        self.depth.consumers = self.consumers.count
        effects.append(Consumed(consumer, link))

    def place_of(self, start: Start) -> tuple[int, int]:
        """Return the offset to begin with, and the time to look it up by, in milliseconds since the
        epoch; 0: the offset is known."""
        log = self.log
        if start.kind == FIRST:
            return log.first_offset, 0
        if start.kind == LAST:
            return log.last_chunk, 0
        if start.kind == NEXT:
            return log.next_offset, 0
        if start.kind == OFFSET:
            return max(start.value, log.first_offset), 0
        timestamp_ms = start.value
        if start.kind == AGO:
            timestamp_ms = self.wall_ms - start.value
        if log.segment_at(timestamp_ms) is None:
            return log.next_offset, 0  # no message is as new as that
        return log.first_offset, max(1, timestamp_ms)

    def drop(self, consumer: Consumer) -> None:
        """Remove a consumer, which gets no more; it may still settle what it holds."""
        consumer.cancelled = True
        consumer.active = False
        reader = self.readers.pop(consumer, None)
        if reader is None:
            return
        reader.let_go(self.cache)
        for line in (self.wanting, self.moving, self.at_end):
            line.pop(reader, None)
        if not reader.unacked:
            del self.unacked_runs[reader.run]
        self.consumers.remove(consumer)
        self.depth.consumers = self.consumers.count

    def down(self, channel: Actor) -> None:
        """Remove the readers of a channel that is gone; what it held counts as settled."""
        for consumer in [each for each in self.readers if each.channel is channel]:
            self.drop(consumer)
        for reader in [r for r in self.unacked_runs.values() if r.consumer.channel is channel]:
            self.depth.unacked -= reader.unacked
            del self.unacked_runs[reader.run]
        self.links.pop(channel, None)

    def settle(self, command: Settle) -> None:
        """Return credit to readers; settlements for another reader whose run had the same number
        are ignored."""
        for run, start, end in command.parts:
            reader = self.unacked_runs.get(run)
            if reader is None or reader.link != command.link:
                continue
            self.depth.unacked -= end - start
            reader.settled(end - start)
            if not reader.consumer.cancelled:
                self.moving[reader] = None
            elif not reader.unacked:
                del self.unacked_runs[run]

    def delete(self, command: Delete, effects: list[Effect]) -> None:
        """Delete the stream with its messages, unless a condition is not met. Messages that were
        not durable yet are confirmed."""
        channel = command.channel
        why = command.unmet(len(self.readers), self.depth.ready)
        if why:
            if channel is not None:
                effects.append(Refuse(channel, 406, f"{self.title} {why}"))
            return
        for consumer in list(self.readers):
            self.drop(consumer)
            effects.append(Cancelled(consumer, True))
        for _, receipt in self.receipts:
            effects.append(Confirm(receipt.link, receipt.first_seq, receipt.count))
        self.receipts.clear()
        self.log.discard()
        self.cache.forget(self.log.queue_id)
        self.depth = Depth()
        self.deleted = True
        effects.append(Deleted(channel, 0))

    # -- reading

    def serve(self, effects: list[Effect]) -> None:
        """Deliver messages in RAM to readers that have room."""
        moving = self.moving
        if moving:
            self.moving = {}
            for reader in moving:
                self.serve_reader(reader, effects)

    def window_opened(self, window: Outflow) -> None:
        """Let the readers of this window go on, because their channel has sent deliveries. They
        share the window, so the first of them is the last next time."""
        mine = [each for each in self.readers.values() if each.consumer.window is window]
        if len(mine) > 1:
            first = mine[0].consumer
            self.readers[first] = self.readers.pop(first)
        self.moving.update(dict.fromkeys([*mine[1:], *mine[:1]]))

    def serve_reader(self, reader: StreamReader, effects: list[Effect]) -> None:
        """Deliver to one reader until it has enough, or RAM has no more for it."""
        while reader.room(1) > 0:
            chunk = reader.next_chunk(self.cache, self.log.queue_id)
            if chunk is None:
                if not reader.timestamp_ms and reader.offset >= self.log.durable_end:
                    self.at_end[reader] = None
                elif reader.job is None:
                    self.wanting[reader] = None
                return
            chunk.prepare()
            offset = reader.offset
            start = offset - chunk.first
            cost_each = cost_of(chunk.length(start))
            count = min(reader.room(cost_each), chunk.count - start)
            if count <= 0:
                return
            found = chunk.headless(start, count)
            part: list[bytes] = []
            if found is None:
                part = chunk.loose[start : start + count]
                part = part[: alike(part, cost_each)]
                count = len(part)
            self.depth.unacked += count
            cost = reader.take(count, cost_each)
            consumer, run, traits = reader.consumer, reader.run, chunk.traits
            if found is None:
                effects.append(Deliver(consumer, run, part, traits, False, cost))
            else:
                effects.append(StampedDeliver(consumer, run, found, traits, cost, offset))

    def next_reads(self) -> list[StreamRead]:
        """Return read jobs to be submitted, as many as are allowed; at most STREAM_READS_MAX are
        under way."""
        jobs: list[StreamRead] = []
        while self.wanting and len(self.reading) < STREAM_READS_MAX:
            reader = next(iter(self.wanting))
            del self.wanting[reader]
            job = reader.next_read(self.log)
            if job is None:
                self.at_end[reader] = None
            else:
                job.tries = reader.tries
                reader.job = job
                self.reading[job] = reader
                jobs.append(job)
        return jobs

    def was_read(self, job: StreamRead) -> None:
        """Hand the chunks of a finished read job to its reader; if they could not be read it tries
        again, or goes on behind them."""
        reader = self.reading.pop(job)
        reader.job = None
        if reader.consumer.cancelled:
            return
        self.moving[reader] = None
        if not self.log.has(job.segment):
            reader.place = None  # dropped meanwhile: on with the first there is
        if job.failure is not None:
            self.could_not_read(job, reader)
            return
        reader.tries = 0
        self.said += [f"bytes {a} to {b} of {job.path} are damaged" for a, b in job.lost]
        for chunk, position in zip(job.chunks, job.ends, strict=True):
            cached = CachedChunk(chunk, job.segment, position)
            self.cache.put(self.log.queue_id, cached)
            self.cache.hold(cached)
            reader.pieces.append(cached)
        if reader.pieces:
            if reader.timestamp_ms:
                reader.offset = reader.pieces[0].first
                reader.timestamp_ms = 0
        elif job.is_over:
            self.skip(reader, job)
            return
        reader.place = (job.segment, job.position)

    def could_not_read(self, job: StreamRead, reader: StreamReader) -> None:
        """Let a reader try again, at once because others are in line; after READ_TRIES further
        tries it skips the rest of the segment."""
        if not self.log.has(job.segment):
            return
        reader.tries += 1
        if reader.tries > READ_TRIES:
            self.said.append(f"{job.failure}: {job.path} is left out from byte {job.position} on")
            reader.tries = 0
            self.skip(reader, job)

    def skip(self, reader: StreamReader, job: StreamRead) -> None:
        """Let a reader go on behind the unreadable rest of a segment, as far as that was durable at
        the last try."""
        reader.place = None
        reader.timestamp_ms = 0
        reader.offset = max(reader.offset, job.end)


def alike(contents: list[bytes], cost_each: int) -> int:
    """Return how many of the first messages cost `cost_each` of a window, as the first one does."""
    for index in range(1, len(contents)):
        if cost_of(len(contents[index])) != cost_each:
            return index
    return len(contents)
