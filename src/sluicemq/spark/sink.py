"""Batch and streaming writers: one connection a task, confirms with a window, errors by row.

A task that loses its connection opens another one and publishes unconfirmed messages again: at
least once, as with a retry of the task. Their names (`deduplication`) stay the same, so that a
queue that deduplicates takes each row once: the messages of a lost connection are kept, headers and
all, and a retry names its rows as the first attempt did, by a column or by their content. Row
numbers would not do: after a shuffle a retry has its rows in another order.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from sluicemq.client.messages import BasicProperties, properties_of
from sluicemq.client.publishing import Publisher, RefusedMessage
from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused
from sluicemq.spark.connecting import AmqpError, Outage, connect
from sluicemq.spark.dead_letters import DeadLetters
from sluicemq.spark.encoding import SEQUENCE_HEADER, Columns, Encoder, WriterTask
from sluicemq.spark.options import Options
from sluicemq.spark.worker import spare_collections

log = logging.getLogger(__name__)

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
PART_BYTES: Final = 1 << 20
"""Rows of about so many bytes are encoded before the first of them is written."""


class RowsWritten(WriterCommitMessage):
    """Tells Spark that a task has written all of its `rows` rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class AmqpBatchWriter(DataSourceArrowWriter):
    """Publishes the rows of a batch write, `mode("append")`. The constructor raises `Refused` for
    overwriting, and for columns without a meaning."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise Refused("mode = 'overwrite': a queue cannot be overwritten; use append")
        self._options = options
        self._columns = Columns(options, schema)
        self._job = options.write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = WriterTask(self._job, 0, task_context().partitionId())
        return RowsWritten(write_rows(self._options, self._columns, task, iterator))


class AmqpStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a streaming write, one micro-batch after another. The constructor
    raises `Refused` for columns without a meaning."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._columns = Columns(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        spare_collections()
        context = task_context()
        task = WriterTask(*place_in_query(context), context.partitionId())
        return RowsWritten(write_rows(self._options, self._columns, task, iterator))


def place_in_query(context: TaskContext) -> tuple[str, int]:
    """Return the id of the streaming query, which restarts do not change, and the number of the
    micro-batch that this task writes."""
    query, batch = map(context.getLocalProperty, (QUERY_PROPERTY, BATCH_PROPERTY))
    assert query and batch, "a streaming task must know its batch: rows are named by it"
    return query, int(batch)


def task_context() -> TaskContext:
    """Return Spark's context of the task in this process; there must be one."""
    context = TaskContext.get()
    assert context is not None
    return context


def write_rows(
    options: Options, columns: Columns, task: WriterTask, batches: Iterator[pa.RecordBatch]
) -> int:
    """Publish all rows and wait until they are confirmed; returns how many rows there were. Raises
    `AmqpError` when the broker does not take a row, or stays away."""
    line: RowPublisher | None = None
    try:
        for batch in batches:
            if batch.num_rows and line is None:
                line = RowPublisher(options, columns, task)
            part_rows = max(1, batch.num_rows * PART_BYTES // max(1, batch.nbytes))
            for at in range(0, batch.num_rows, part_rows):
                assert line is not None
                line.write(batch.slice(at, part_rows))
        if line is None:
            return 0
        line.settle()
        return line.rows
    finally:
        if line is not None:
            line.close()


class RowPublisher:
    """Publishes messages over a connection, and over a new one when that is lost."""

    def __init__(self, options: Options, columns: Columns, task: WriterTask) -> None:
        self._options = options
        self._task = task
        self._what = f"exchange {options.exchange!r}"
        self._outage = Outage(options, self._what)
        self._letters = DeadLetters(options) if options.has_dead_letters else None
        self._publisher = self._open()
        self._encoder = Encoder(options, columns, task, self._publisher.wire.frame_max)

    @property
    def rows(self) -> int:
        return self._encoder.rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Publish the rows of a batch; waits while maxInFlight messages are unconfirmed. Raises
        `AmqpError` when the broker does not take a row, or stays away."""
        messages = self._encoder.encode(batch)
        self._try(lambda: self._publisher.publish(messages))
        if self._letters is not None:
            self._letters.settle()

    def settle(self) -> None:
        """Wait until everything is confirmed, dead letters too. Raises `AmqpError` as `write`
        does."""
        self._try(self._publisher.settle)
        if self._letters is not None:
            self._letters.settle()
            if self._letters.rows:
                log.warning("%s: %d rows are dead letters", self._where(), self._letters.rows)

    def close(self) -> None:
        """Close the connection: in order if no message is unconfirmed, else at once."""
        if self._publisher.waiting():
            self._publisher.wire.abandon()
        else:
            self._publisher.wire.close()
        if self._letters is not None:
            self._letters.close()

    def _open(self) -> Publisher:
        def once(attempt: int) -> Publisher:
            wire = connect(self._options, "sluicemq spark sink", attempt, heartbeat_s=0)
            try:
                on_refused = self._letters.add if self._letters is not None else None
                return Publisher(wire, self._options.max_in_flight, on_refused)
            except BaseException:
                wire.abandon()
                raise

        return self._outage.reach(once)

    def _try(self, work: Callable[[], None]) -> None:
        """Do `work`; after a lost connection publish the unconfirmed messages on a new one."""
        while True:
            try:
                work()
            except RefusedMessage as refused:
                raise AmqpError(f"{self._name(refused)}: {refused}") from refused
            except BrokerError as error:
                wait_s = self._outage.failed(error, where=f", {self._where()}")
                rest = self._publisher.waiting()
                self._publisher.wire.abandon()
                time.sleep(wait_s)
                self._publisher = self._open()
                work = self._again(rest)
            else:
                self._outage.over()
                return

    def _again(self, messages: Sequence[bytes]) -> Callable[[], None]:
        def publish() -> None:
            self._publisher.publish(messages)
            self._publisher.settle()

        return publish

    def _name(self, refused: RefusedMessage) -> str:
        """Return the name of the refused row."""
        headers = BasicProperties.decode(properties_of(refused.content)).headers or {}
        row = headers.get(SEQUENCE_HEADER, "unknown (placeHeaders = false)")
        return f"row {row} of partition {self._task.partition}, batch {self._task.batch}"

    def _where(self) -> str:
        done = self.rows - len(self._publisher.waiting())
        return f"partition {self._task.partition}, {done} of {self.rows} rows confirmed"
