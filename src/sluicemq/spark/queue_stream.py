"""The streaming reader of queues: Spark's calls, answered by the planner of this process.

`read` runs in executors, on a copy of the reader that never had a planner.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from itertools import groupby
from types import FrameType
from typing import Any, NoReturn, TypeVar

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
from sluicemq.spark.gatherer_start import GathererCall, ask_planner, start_on_executor
from sluicemq.spark.options import Options
from sluicemq.spark.pacing import ROWS_UNLIMITED
from sluicemq.spark.schema import Decoder
from sluicemq.spark.stream_planner import START, ChunkToFetch, StreamPlanner
from sluicemq.spark.transfer import Endpoint, fetch
from sluicemq.spark.transfer_tls import Impostor
from sluicemq.spark.worker import spare_collections

Each = TypeVar("Each")

GATHERERS_S = 5.0
"""Seconds that a task that started a process on its executor waits for the others."""


class ChunkPartition(InputPartition):
    """One task of a batch: the chunks it reads, as `pieces`. The task asks `planner` when it cannot
    fetch them. `call` has the data that it needs to start a gathering process on its executor; None
    when it must not. It waits until `awaits` executors have such a process, so that each of them
    gets a task of this kind."""

    def __init__(
        self,
        planner: Endpoint,
        pieces: list[ChunkToFetch],
        call: GathererCall | None,
        awaits: int = 0,
    ) -> None:
        self.planner = planner
        self.pieces = pieces
        self.call = call
        self.awaits = awaits


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads queues as a stream. On the driver's side it has a planner, made when Spark first needs
    one; executors call `read` on a copy without one."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._planner: StreamPlanner | None = None
        self._terminated = False

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, and those below
        return dict(START)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._running_planner().limit_to_available()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        return self._running_planner().plan(start, rows_max(limit, self._options))

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return self._planner.gathered() if self._planner is not None else None

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        planner = self._running_planner()
        call, starters = planner.call(start, end)
        groups = split(planner.batch(start, end), self._options.min_partitions)
        where = planner.endpoint
        parts: list[InputPartition] = [ChunkPartition(where, [], call, starters)] * starters
        return parts + [ChunkPartition(where, group, call) for group in groups]

    def commit(self, end: Offset) -> None:
        self._running_planner().confirm(end)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None
        if self._terminated:
            os._exit(0)  # Spark has closed the connection: its runner could only complain

    def _on_terminate(self, _number: int, _frame: FrameType | None) -> NoReturn:
        """Spark ends a planner by SIGTERM and does not wait for it, so there is time to acknowledge
        committed batches. `stop` comes next, when the stack has been unwound."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._terminated = True
        raise SystemExit

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ChunkPartition)
        spare_collections()
        try:
            if partition.call is not None:
                start_on_executor(partition.call)
        except OSError as error:
            raise AmqpError(
                f"gather = executors: this executor cannot start a process that gathers: {error}"
            ) from error
        try:
            if partition.awaits:
                ask_planner(partition.planner, are_there=partition.awaits, within_s=GATHERERS_S)
        except (OSError, EOFError) as error:
            raise unreachable(partition.planner, error) from error
        decoder = Decoder(self._schema)
        for endpoint, pieces in groupby(partition.pieces, lambda piece: piece.endpoint):
            yield from self._read(partition, decoder, endpoint, list(pieces))

    def _read(
        self,
        partition: ChunkPartition,
        decoder: Decoder,
        endpoint: Endpoint,
        pieces: list[ChunkToFetch],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the chunks that one process has."""
        first = pieces[0]
        numbers = [piece.number for piece in pieces]
        try:
            for piece, got in zip(pieces, fetch(endpoint, numbers), strict=True):
                if not got.runs:  # of a replayed batch: none was new
                    continue
                batch = decoder.decode(got.queue, got.runs, got.sizes, got.data)
                yield without_rows(batch, piece.skip)
        except (OSError, EOFError) as error:
            if first.is_planners:
                raise unreachable(endpoint, error) from error
            self._check_lost(partition.planner, first, error)

    def _check_lost(self, planner: Endpoint, piece: ChunkToFetch, error: Exception) -> None:
        """Return when the process is lost, as only the planner can tell: its chunks then read as
        empty, because none of them is acknowledged any more and they come again. Raises `AmqpError`
        when it is not lost, or the rows must be the same again (exactlyOnce)."""
        try:
            is_lost = ask_planner(planner, is_lost=piece.endpoint.token)
        except (OSError, EOFError) as silence:
            raise unreachable(planner, silence) from silence
        if not is_lost:
            raise unreachable(piece.endpoint, error) from error
        if self._options.exactly_once:
            raise AmqpError(
                f"the process that gathered this batch at {piece.endpoint.host} is gone; started"
                " again, the query reads the batch as it was (exactlyOnce)"
            ) from error

    def _running_planner(self) -> StreamPlanner:
        if self._planner is None:
            self._planner = StreamPlanner(self._options)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, self._on_terminate)
        return self._planner

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_planner": None}


def unreachable(endpoint: Endpoint, error: Exception) -> AmqpError:
    """Return the error that says why chunks cannot be fetched from `endpoint`."""
    host, port = endpoint.host, endpoint.port
    if isinstance(error, Impostor):
        return AmqpError(str(error))
    if isinstance(error, EOFError):
        return AmqpError(
            f"the driver at {host}:{port} has this batch no more: the query was stopped or started"
            " anew"
        )
    return AmqpError(
        f"transferHost = {host!r}: messages cannot be fetched from port {port}: {error}"
    )


def rows_max(limit: ReadLimit, options: Options) -> int:
    """Return the most rows that a limit of Spark's allows for a batch. "All that is available" has
    no bound in rows, any other unknown limit has that of the options."""
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    return ROWS_UNLIMITED if isinstance(limit, ReadAllAvailable) else options.rows_per_batch


def without_rows(batch: pa.RecordBatch, skip: list[int]) -> pa.RecordBatch:
    """Return the batch without the rows whose numbers, from 0, are in `skip`."""
    if not skip:
        return batch
    keep = np.ones(batch.num_rows, bool)
    keep[skip] = False
    return batch.filter(pa.array(keep))


def split(chunks: list[tuple[Each, int]], parts: int) -> list[list[Each]]:
    """Divide chunks, each given with its number of rows, into at most `parts` groups of about equal
    rows, in order."""
    total = sum(rows for _, rows in chunks)
    groups: list[list[Each]] = []
    done = 0
    for chunk, rows in chunks:
        if len(groups) <= done * parts // total:
            groups.append([])
        groups[-1].append(chunk)
        done += rows
    return groups
