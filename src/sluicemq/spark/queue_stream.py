"""The streaming reader of queues: Spark's questions, answered by a session of this process.

`read` runs in executors, on a copy of the reader that never had a session.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from sluicemq.spark.commits import Offset
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.gathering import START, Session
from sluicemq.spark.options import Options
from sluicemq.spark.pacing import ROWS_UNLIMITED
from sluicemq.spark.schema import Decoder
from sluicemq.spark.transfer import fetch
from sluicemq.spark.worker import spare_collections


class ChunkPartition(InputPartition):
    """Chunks for one task, and where to fetch them."""

    def __init__(self, address: tuple[str, int], token: str, chunks: list[int]) -> None:
        self.address = address
        self.token = token
        self.chunks = chunks


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See above."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._session: Session | None = None
        self._terminated = False

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, and those below
        return dict(START)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._gathering().limit_to_available()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        return self._gathering().plan(start, rows_max(limit, self._options))

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return self._session.gathered() if self._session is not None else None

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        session = self._gathering()
        groups = split(session.batch(start, end), self._options.min_partitions)
        return [ChunkPartition(session.address, session.token, group) for group in groups]

    def commit(self, end: Offset) -> None:
        self._gathering().confirm(end)

    def stop(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._terminated:
            os._exit(0)  # Spark has hung up: its runner could only complain of that

    def _on_terminate(self, _number: int, _frame: FrameType | None) -> NoReturn:
        """Spark ends a planner by SIGTERM and does not wait for it: so there is time to acknowledge
        what is committed. `stop` comes next, when the stack has been unwound."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._terminated = True
        raise SystemExit

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ChunkPartition)
        spare_collections()
        decoder = Decoder(self._schema)
        host, port = partition.address
        try:
            for got in fetch(partition.address, partition.token, partition.chunks):
                if not got.runs:  # of a batch that is replayed: none was new
                    continue
                batch = decoder.decode(got.queue, got.runs, got.sizes, got.data)
                yield without_rows(batch, got.skip)
        except EOFError:
            raise AmqpError(
                f"the driver at {host}:{port} has this batch no more: the query was stopped or"
                " started anew"
            ) from None
        except OSError as error:
            raise AmqpError(
                f"transferHost = {host!r}: messages cannot be fetched from port {port}: {error}"
            ) from error

    def _gathering(self) -> Session:
        if self._session is None:
            self._session = Session(self._options)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, self._on_terminate)
        return self._session

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None}


def rows_max(limit: ReadLimit, options: Options) -> int:
    """What a limit of Spark's means in rows. All that is available is what has been gathered."""
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    return ROWS_UNLIMITED if isinstance(limit, ReadAllAvailable) else options.rows_per_batch


def without_rows(batch: pa.RecordBatch, skip: list[int]) -> pa.RecordBatch:
    """The other rows."""
    if not skip:
        return batch
    keep = np.ones(batch.num_rows, bool)
    keep[skip] = False
    return batch.filter(pa.array(keep))


def split(chunks: list[tuple[int, int]], parts: int) -> list[list[int]]:
    """(number, rows) into at most so many groups of numbers, in order, of about equal rows."""
    total = sum(rows for _, rows in chunks)
    groups: list[list[int]] = []
    done = 0
    for number, rows in chunks:
        if len(groups) <= done * parts // total:
            groups.append([])
        groups[-1].append(number)
        done += rows
    return groups
