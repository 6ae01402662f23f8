"""The streaming reader of streams: its offsets are `{"queue": next offset}`, its batches ranges.

A range can be read again at any time, so Spark's checkpoint alone makes it exactly once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from sluicemq.spark.batch import decode
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.options import Options
from sluicemq.spark.pacing import ROWS_UNLIMITED, Pace
from sluicemq.spark.schema import Decoder
from sluicemq.spark.stream_ranges import (
    RangePartition,
    end_offset,
    read_range,
    split_ranges,
    start_of,
)
from sluicemq.spark.worker import spare_collections

Offsets = dict[str, int]

RATE_STEP_S: Final = 0.01

SURE_QUIET_S: Final = 1.0
"""The silence after which an end before the query's offset is believed."""


class StreamMicroBatchReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams in micro-batches. An offset is the next one to read of each stream, so any
    batch can be read again."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._target: Offsets | None = None
        self._pace = Pace(options, time.monotonic())
        self._seen: Offsets | None = None
        """The ends at the last look."""

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name, and those below
        ends = self._ends()
        return {queue: start_of(self._options, queue, end) for queue, end in ends.items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._ends(self._options.poll_timeout_ms / 1000)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        ends = self._seen = self._target or self._ends()
        for queue in ends:
            self._check_end(start, queue, ends)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.rows_per_batch
        behind = {queue: max(ends[queue] - self._from(start, queue), 0) for queue in ends}
        total = sum(behind.values())
        rows = min(rows, self._wait_for_turn(total))
        if not rows:
            return start
        self._pace.planned(min(rows, total), time.monotonic())
        if total > rows and not isinstance(limit, ReadAllAvailable):
            behind = {queue: -(-count * rows // total) for queue, count in behind.items()}
        return {queue: self._from(start, queue) + behind[queue] for queue in ends}

    def _wait_for_turn(self, behind: int) -> int:
        """Return how many of the rows that have come may be in a batch; 0 when none may now. A
        finite read waits only for its rate."""
        pace = self._pace
        if not behind:
            return ROWS_UNLIMITED
        pace.trigger(time.monotonic())
        if self._target is None and not pace.enough(behind, time.monotonic()):
            return 0
        while not (room := pace.room(time.monotonic())) and self._target is not None:
            time.sleep(RATE_STEP_S)
        return room

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        return self._seen

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        ranges = {queue: (self._from(start, queue), end[queue]) for queue in end}
        for queue, (first, last) in ranges.items():
            if last < first:  # as in `_check_end`
                ranges[queue] = (0, last)
        return split_ranges(ranges, self._options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        spare_collections()
        decoder = Decoder(self._schema, is_stream=True)
        for chunk in read_range(self._options, partition):
            yield decode(decoder, chunk)

    def _ends(self, quiet_s: float | None = None) -> Offsets:
        more = () if quiet_s is None else (quiet_s,)
        return {queue: end_offset(self._options, queue, *more) for queue in self._options.queues}

    def _check_end(self, start: Offsets, queue: str, ends: Offsets) -> None:
        """Handle a stream that ends before the query's offset, because it was made anew or has lost
        messages: raise `AmqpError`, or read it from the start."""
        at = self._from(start, queue)
        if 0 < ends[queue] < at:
            ends[queue] = end_offset(self._options, queue, SURE_QUIET_S)
        if not 0 < ends[queue] < at:
            return
        if self._options.fail_on_data_loss:
            raise AmqpError(
                f"queue {queue!r}: ends at offset {ends[queue]}, before {at}, which is the next for"
                " this query: it was made anew, or has lost messages (failOnDataLoss = true)"
            )
        start[queue] = 0

    def _from(self, start: Offsets, queue: str) -> int:
        """Return the query's offset in a queue; one that was added begins where the options say."""
        if queue not in start:
            end = end_offset(self._options, queue)
            start[queue] = start_of(self._options, queue, end)
        return start[queue]
