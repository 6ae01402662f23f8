"""Batch reads of queues: the messages that are ready at the start, each queue in a task of its own.

Each task counts the messages itself, because Spark plans a DataFrame once, however often it is
used. It consumes exclusively, so that a second attempt (a retry, a speculative copy) waits until
the first is gone instead of seeing half of the queue. A task acknowledges nothing before it has
returned its last row; with `ackMode = never` nothing at all, and the messages go back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sluicemq.client.blocking import counts_of
from sluicemq.client.consuming import PREFETCH_MAX, Subscription
from sluicemq.client.session import BrokerError, ClosedByBrokerError
from sluicemq.spark.chunks import GatheredChunk
from sluicemq.spark.connecting import AmqpError, connect, is_missing, persistently
from sluicemq.spark.consumer_threads import CHUNK_BYTES_MAX, CHUNK_ROWS_MAX
from sluicemq.spark.discovery import count_ready, find_queues, none_matches
from sluicemq.spark.option_conflicts import check_batch
from sluicemq.spark.option_declaration import ACK_ON_READ
from sluicemq.spark.options import Options
from sluicemq.spark.queue_kinds import check_delivery, refuse_stream
from sluicemq.spark.schema import Decoder
from sluicemq.spark.worker import attempt_number

ACCESS_REFUSED: Final = 403
"""The reply code of a refused access, and of a queue that is in exclusive use."""


class QueuePartition(InputPartition):
    """One task of a batch read: a queue, and how many messages were to be read of it when the
    DataFrame was planned."""

    def __init__(self, queue: str, rows: int) -> None:
        self.queue = queue
        self.rows = rows


class QueueBatchReader(DataSourceReader):
    """Reads queues in a batch: each in a task of its own, the messages that are ready when the task
    begins. The constructor raises `Refused` for options of streaming reads."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_batch(options)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        ready = count_ready(options, options.queues or find_queues(options))
        if not ready:
            raise none_matches(options)
        for queue, rows in ready.items():
            if not rows:  # the broker may count no messages of a stream
                refuse_stream(self._options, queue)
        return [QueuePartition(queue, self._wanted(rows)) for queue, rows in ready.items()]

    def _wanted(self, ready: int) -> int:
        return min(ready, self._options.max_messages_per_batch or ready)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, QueuePartition)
        decoder = Decoder(self._schema)
        subscription, rows = self._subscribe(partition)
        if subscription is None:
            return
        try:
            last = 0
            for chunk in self._chunks(subscription, rows):
                run = chunk.runs[-1]
                last = run.first + run.count - 1
                yield decode(decoder, chunk)
            if self._options.ack_mode == ACK_ON_READ and last:
                subscription.acknowledge(1, last)
            subscription.wire.close()
        except BrokerError as error:
            raise AmqpError(f"queue {partition.queue!r}: {error}") from error
        finally:
            subscription.wire.abandon()

    def _subscribe(self, partition: QueuePartition) -> tuple[Subscription | None, int]:
        """Return a consumer, and how many messages to read; None and 0 without messages."""

        def subscribe(attempt: int) -> tuple[Subscription | None, int]:
            name = f"sluicemq spark batch {partition.queue}"
            wire = connect(self._options, name, attempt, heartbeat_s=0)
            try:
                counted = counts_of(wire, partition.queue)
                ready = counted.messages_ready
                is_first = not attempt and not attempt_number()
                others = counted.consumers and (partition.rows or not is_first)
                if not ready and not others:
                    wire.close()
                    return None, 0
                # Another attempt, or another part of the query, may have taken the messages since
                # they were counted: then they are counted again once this one has the queue.
                is_sure = is_first and ready
                prefetch = self._wanted(ready) if is_sure else self._options.max_messages_per_batch
                prefetch = prefetch if prefetch <= PREFETCH_MAX else 0
                subscription = Subscription(wire, partition.queue, prefetch, exclusive=True)
                return subscription, self._wanted(ready if is_sure else subscription.count_all())
            except BaseException as error:
                wire.abandon()
                if self._may_be_gone(partition, error):
                    return None, 0
                raise

        what = f"queue {partition.queue!r}"
        found = persistently(self._options, what, subscribe, transient=(ACCESS_REFUSED,))
        self._check_attempt(partition, found[1])
        return found

    def _may_be_gone(self, partition: QueuePartition, error: BaseException) -> bool:
        """Return whether a queue of a pattern was deleted without the loss of wanted messages."""
        options = self._options
        is_loss = partition.rows and options.fail_on_data_loss
        is_gone = isinstance(error, ClosedByBrokerError) and is_missing(error)
        return bool(options.queue_pattern) and is_gone and not is_loss

    def _check_attempt(self, partition: QueuePartition, rows: int) -> None:
        """Raise `AmqpError` when a task that runs again does not find the messages that it may have
        acknowledged before, unless data loss is allowed."""
        options = self._options
        if options.ack_mode != ACK_ON_READ or not options.fail_on_data_loss or not attempt_number():
            return
        if rows < max(1, partition.rows):
            raise AmqpError(
                f"queue {partition.queue!r}: has {rows} messages for a task that runs again, which"
                f" were {partition.rows}: another attempt may have read and acknowledged them"
                " (ackMode = onRead, failOnDataLoss = true)"
            )

    def _chunks(self, subscription: Subscription, rows: int) -> Iterator[GatheredChunk]:
        queue = subscription.queue
        left = rows
        chunk = GatheredChunk(queue, 0)
        poll_s = self._options.poll_timeout_ms / 1000
        heard = time.monotonic()
        is_empty = is_checked = is_asked = False
        while left:
            before = left
            for event in subscription.poll(poll_s):
                if not is_checked:
                    check_delivery(self._options, queue, event)
                    is_checked = True
                count = min(len(event.tags), left)
                if not count:
                    break
                left -= count
                chunk.add(event, 0, count)
                if chunk.rows >= CHUNK_ROWS_MAX or chunk.bytes >= CHUNK_BYTES_MAX:
                    yield chunk
                    chunk = GatheredChunk(queue, 0)
            if left < before:
                heard = time.monotonic()
                is_empty = False
            elif is_empty or time.monotonic() - heard > self._options.timeout_ms / 1000:
                self._check_loss(queue, left, rows)
                break
            else:
                if left == rows and not is_asked:  # messages were counted, and none comes
                    refuse_stream(self._options, queue)
                    is_asked = True
                is_empty = not subscription.count_ready()
        if chunk.rows:
            yield chunk

    def _check_loss(self, queue: str, left: int, rows: int) -> None:
        """Raise `AmqpError` because counted messages do not come, unless data loss is allowed."""
        if self._options.fail_on_data_loss:
            raise AmqpError(
                f"queue {queue!r}: {left} of {rows} messages that were counted"
                " are gone: expired, or taken by others (failOnDataLoss = true)"
            )


def decode(decoder: Decoder, chunk: GatheredChunk) -> pa.RecordBatch:
    """Return the rows of a chunk that this process has gathered itself."""
    got = chunk.fetched(decoder.scratch)
    return decoder.decode(got.queue, got.runs, got.sizes, got.data)
