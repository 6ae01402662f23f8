"""Batch reads of queues: what is ready when the read is planned, each queue in a task of its own.

A task consumes exclusively, so that a second attempt at it (a retry, a speculative copy) waits
until the first is gone instead of seeing half of the queue. Nothing is acknowledged before the task
has handed on its last row; with `ackMode = never` nothing at all, and the messages go back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sluicemq.client.consuming import PREFETCH_MAX, Subscription
from sluicemq.client.session import BrokerError
from sluicemq.spark.chunks import Chunk
from sluicemq.spark.connecting import AmqpError, connect, persistently
from sluicemq.spark.gathering import count_ready
from sluicemq.spark.kinds import check_delivery, refuse_stream
from sluicemq.spark.lanes import CHUNK_BYTES_MAX, CHUNK_ROWS_MAX
from sluicemq.spark.options import ACK_ON_READ, Options
from sluicemq.spark.schema import Decoder

ACCESS_REFUSED: Final = 403
"""Also: the queue is in exclusive use."""


class QueuePartition(InputPartition):
    """So many messages of a queue."""

    def __init__(self, queue: str, rows: int) -> None:
        self.queue = queue
        self.rows = rows


class QueueBatchReader(DataSourceReader):
    """See above."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_batch()
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        limit = self._options.max_messages_per_batch
        ready = count_ready(self._options)
        for queue, rows in ready.items():
            if not rows:  # of a stream the broker may count nothing
                refuse_stream(self._options, queue)
        return [
            QueuePartition(queue, min(rows, limit or rows)) for queue, rows in ready.items() if rows
        ] or [QueuePartition("", 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, QueuePartition)
        if not partition.rows:
            return
        decoder = Decoder(self._schema)
        subscription = self._subscribe(partition)
        try:
            last = 0
            for chunk in self._chunks(subscription, partition):
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

    def _subscribe(self, partition: QueuePartition) -> Subscription:
        prefetch = partition.rows if partition.rows <= PREFETCH_MAX else 0

        def subscribe(attempt: int) -> Subscription:
            name = f"sluicemq spark batch {partition.queue}"
            wire = connect(self._options, name, attempt, heartbeat_s=0)
            try:
                return Subscription(wire, partition.queue, prefetch, exclusive=True)
            except BaseException:
                wire.abandon()
                raise

        what = f"queue {partition.queue!r}"
        return persistently(self._options, what, subscribe, transient=(ACCESS_REFUSED,))

    def _chunks(self, subscription: Subscription, partition: QueuePartition) -> Iterator[Chunk]:
        left = partition.rows
        chunk = Chunk(partition.queue, 0)
        poll_s = self._options.poll_timeout_ms / 1000
        heard = time.monotonic()
        is_empty = is_checked = is_asked = False
        while left:
            before = left
            for event in subscription.poll(poll_s):
                if not is_checked:
                    check_delivery(self._options, partition.queue, event)
                    is_checked = True
                count = min(len(event.tags), left)
                if not count:
                    break
                left -= count
                chunk.add(event, 0, count)
                if chunk.rows >= CHUNK_ROWS_MAX or chunk.bytes >= CHUNK_BYTES_MAX:
                    yield chunk
                    chunk = Chunk(partition.queue, 0)
            if left < before:
                heard = time.monotonic()
                is_empty = False
            elif is_empty or time.monotonic() - heard > self._options.timeout_ms / 1000:
                self._check_loss(partition, left)
                break
            else:
                if left == partition.rows and not is_asked:  # counted, and nothing comes
                    refuse_stream(self._options, partition.queue)
                    is_asked = True
                is_empty = not subscription.count_ready()
        if chunk.rows:
            yield chunk

    def _check_loss(self, partition: QueuePartition, left: int) -> None:
        """The queue gives no more: an error unless data loss is allowed."""
        if self._options.fail_on_data_loss:
            raise AmqpError(
                f"queue {partition.queue!r}: {left} of {partition.rows} messages that were counted"
                " are gone: expired, or taken by others (failOnDataLoss = true)"
            )


def decode(decoder: Decoder, chunk: Chunk) -> pa.RecordBatch:
    """The rows of a chunk of this process."""
    got = chunk.fetched(decoder.scratch)
    return decoder.decode(got.queue, got.runs, got.sizes, got.data)
