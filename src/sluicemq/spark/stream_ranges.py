"""Offsets of streams over AMQP 0-9-1: finds where a stream begins and ends, and reads ranges of it.

The protocol has no method for offsets. A consumer that begins at `first` or at a time gets the
first message there; one that begins at `last` gets the last chunk, whose last message is the
present end of the stream. Messages that come later belong to the next batch.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from pyspark.sql.datasource import InputPartition

from sluicemq.client.consuming import PREFETCH_MAX, Deliveries, Subscription
from sluicemq.client.messages import FieldValue, Timestamp
from sluicemq.client.session import BrokerError
from sluicemq.spark.chunks import GatheredChunk
from sluicemq.spark.connecting import AmqpError, connect, persistently
from sluicemq.spark.consumer_threads import CHUNK_BYTES_MAX, CHUNK_ROWS_MAX
from sluicemq.spark.option_declaration import FIRST, LAST, NEXT
from sluicemq.spark.options import Options
from sluicemq.spark.raw_contents import offset_of

PROBE_CREDIT: Final = 10_000
QUIET_S: Final = 0.02
"""After a message of the last chunk, the silence that ends it: a chunk comes in one piece."""


class RangePartition(InputPartition):
    """One task of a read: the messages of a stream from offset `start` up to, not including,
    `end`."""

    def __init__(self, queue: str, start: int, end: int) -> None:
        self.queue = queue
        self.start = start
        self.end = end


def subscribe(
    options: Options, queue: str, where: str | int | datetime, prefetch: int
) -> Subscription:
    """Open a consumer of a stream that begins at `where`: an offset, a time, or a word such as
    `first`. Raises `AmqpError` when the broker refuses, or stays away."""
    value: FieldValue = where if not isinstance(where, datetime) else seconds_of(where)

    def once(attempt: int) -> Subscription:
        wire = connect(options, f"sluicemq spark stream {queue}", attempt, heartbeat_s=0)
        try:
            return Subscription(wire, queue, prefetch, arguments={"x-stream-offset": value})
        except BaseException:
            wire.abandon()
            raise

    return persistently(options, f"queue {queue!r}", once)


def seconds_of(when: datetime) -> Timestamp:
    return Timestamp(int(when.timestamp()))


def first_offset(options: Options, queue: str, where: str | int | datetime) -> int | None:
    """Return the offset of the first message at or after `where`; None when the stream has none
    there. Raises `AmqpError` when the stream has messages and sends none, unless `where` is a
    time."""
    offsets = look(options, queue, where, 1, 0.0)
    return next(offsets, None)


def end_offset(options: Options, queue: str, quiet_s: float = QUIET_S) -> int:
    """Return one more than the offset of the stream's last message; 0 when the stream is empty. The
    last chunk counts as read after a silence of `quiet_s` seconds. Raises `AmqpError` when the
    stream has messages and sends none."""
    return max(look(options, queue, LAST, PROBE_CREDIT, quiet_s), default=-1) + 1


def look(
    options: Options, queue: str, where: str | int | datetime, credit: int, quiet_s: float
) -> Iterator[int]:
    """Yield an offset for each piece of messages that comes from `where` on: that of its last
    message, or of its first when `quiet_s` is 0. Ends when none has come for `quiet_s` seconds, nor
    before the answer to a method that is sent then.

    It waits for the first piece until the timeout, or until the stream is known to be empty. Raises
    `AmqpError` when the piece does not come, though there are messages, or when the connection is
    lost. When `where` is a time, all messages may be older: then nothing is yielded.
    """
    subscription = subscribe(options, queue, where, credit)
    wait_s = options.poll_timeout_ms / 1000
    give_up_at = time.monotonic() + options.timeout_ms / 1000
    is_found = False
    try:
        until = time.monotonic() + wait_s
        while True:
            for event in subscription.poll(max(until - time.monotonic(), 0)):
                is_found = True
                yield offset_of(event.content(-1 if quiet_s else 0))
                subscription.acknowledge(event.tags[0], event.tags[-1])
                until = time.monotonic() + quiet_s
            if (now := time.monotonic()) < until:
                continue
            ready = subscription.count_ready()
            if subscription.wire.kept_events():  # they came before the answer
                continue
            if is_found or not ready:
                return
            if now > give_up_at:
                break
            until = now + wait_s
    except BrokerError as error:
        raise AmqpError(f"queue {queue!r}: {error}") from error
    finally:
        subscription.wire.abandon()
    if not isinstance(where, datetime):
        raise AmqpError(
            f"queue {queue!r}: has {ready} messages, of which none came in"
            f" {options.timeout_ms / 1000:g} s"
        )


def start_of(options: Options, queue: str, end: int) -> int:
    """Return the offset that `startingOffsets` means, in a stream that ends at `end` now."""
    where = options.starting_offsets
    if where == NEXT:
        return end
    if isinstance(where, int):
        return where
    found = first_offset(options, queue, where)
    return end if found is None else found


def split_ranges(ranges: dict[str, tuple[int, int]], parts: int) -> list[RangePartition]:
    """Cut the ranges, given by queue as start and end, so that there are about `parts` in all;
    empty ones are left out."""
    total = sum(max(end - start, 0) for start, end in ranges.values())
    step = -(-total // parts) or 1
    return [
        RangePartition(queue, at, min(at + step, end))
        for queue, (start, end) in ranges.items()
        for at in range(start, end, step)
    ]


def read_range(options: Options, wanted: RangePartition) -> Iterator[GatheredChunk]:
    """Yield the messages of a range in chunks, over a connection of its own. Raises `AmqpError`
    when the connection is lost, when messages do not come in time, or when they are gone by
    retention and failOnDataLoss is true."""
    prefetch = min(options.prefetch, max(wanted.end - wanted.start, 1), PREFETCH_MAX)
    subscription = subscribe(options, wanted.queue, wanted.start, prefetch)
    reader = _RangeReader(options, wanted, subscription)
    try:
        yield from reader.chunks()
    except BrokerError as error:
        raise AmqpError(f"queue {wanted.queue!r}: {error}") from error
    finally:
        subscription.wire.abandon()


class _RangeReader:
    """Reads up to the end offset. `next` is the offset that comes next."""

    def __init__(self, options: Options, wanted: RangePartition, subscription: Subscription):
        self._options = options
        self._wanted = wanted
        self._subscription = subscription
        self._chunk = GatheredChunk(wanted.queue, 0)
        self.next = wanted.start

    def chunks(self) -> Iterator[GatheredChunk]:
        timeout_s = self._options.timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        end = self._wanted.end
        while self.next < end:
            for event in self._subscription.poll(self._options.poll_timeout_ms / 1000):
                deadline = time.monotonic() + timeout_s
                self._add(event)
                self._subscription.acknowledge(event.tags[0], event.tags[-1])
                if self._chunk.rows >= CHUNK_ROWS_MAX or self._chunk.bytes >= CHUNK_BYTES_MAX:
                    yield self._chunk
                    self._chunk = GatheredChunk(self._wanted.queue, 0)
                if self.next >= end:
                    break
            if time.monotonic() > deadline:
                raise AmqpError(
                    f"queue {self._wanted.queue!r}: offset {self.next} did not come in"
                    f" {timeout_s:g} s, though {end} was seen"
                )
        if self._chunk.rows:
            yield self._chunk

    def _add(self, event: Deliveries) -> None:
        """Add those messages of a run that are in the range."""
        count = len(event.tags)
        first, last = offset_of(event.content(0)), offset_of(event.content(count - 1))
        if self.next == self._wanted.start and first > self.next:
            self._check_loss(first)
        if last - first + 1 == count:
            low, high = self.next - first, self._wanted.end - first
        else:
            offsets = [offset_of(each) for each in event.contents]
            low, high = bisect_left(offsets, self.next), bisect_left(offsets, self._wanted.end)
        low, high = max(low, 0), min(high, count)
        self.next = max(self.next, last + 1)
        if low < high:
            self._chunk.add(event, low, high)

    def _check_loss(self, first: int) -> None:
        """Raise `AmqpError` when retention has removed the messages before `first`, unless data
        loss is allowed: the offsets may also just have a hole."""
        if not self._options.fail_on_data_loss:
            return
        oldest = first_offset(self._options, self._wanted.queue, FIRST)
        if oldest is not None and oldest > self.next:
            raise AmqpError(
                f"queue {self._wanted.queue!r}: offsets {self.next} to"
                f" {min(oldest, self._wanted.end) - 1} are gone by retention"
                " (failOnDataLoss = true)"
            )
