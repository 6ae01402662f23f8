"""Batch reads of streams: ranges of offsets, narrowed by filters on the column `offset`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from sluicemq.spark.batch import decode
from sluicemq.spark.options import Options
from sluicemq.spark.schema import Decoder
from sluicemq.spark.stream_ranges import (
    RangePartition,
    end_offset,
    read_range,
    split_ranges,
    start_of,
)


class StreamBatchReader(DataSourceReader):
    """See above. `pushFilters` is called only where `spark.sql.python.filterPushdown.enabled`."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_batch()
        self._options = options
        self._schema = schema
        self._low = 0
        self._high: int | None = None

    def partitions(self) -> list[InputPartition]:
        options = self._options
        ranges: dict[str, tuple[int, int]] = {}
        for queue in options.queues:
            end = end_offset(options, queue, options.poll_timeout_ms / 1000)
            stop = end
            if isinstance(options.ending_offsets, int):
                stop = min(stop, options.ending_offsets)
            if self._high is not None:
                stop = min(stop, self._high)
            ranges[queue] = (max(start_of(options, queue, end), self._low), stop)
        parts: list[InputPartition] = list(split_ranges(ranges, options.min_partitions))
        return parts or [RangePartition("", 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        if partition.start >= partition.end:
            return
        decoder = Decoder(self._schema, is_stream=True)
        for chunk in read_range(self._options, partition):
            yield decode(decoder, chunk)


class NarrowedStreamBatchReader(StreamBatchReader):
    """With filters pushed down; Spark refuses a reader that takes filters where that is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for each in filters:
            if not self._narrow(each):
                yield each

    def _narrow(self, each: Filter) -> bool:
        """Is it about the offset? Then it is heeded."""
        if getattr(each, "attribute", None) != ("offset",):
            return False
        low, high = 0, None
        match each:
            case EqualTo(value=value):
                low, high = value, value + 1
            case GreaterThan(value=value):
                low = value + 1
            case GreaterThanOrEqual(value=value):
                low = value
            case LessThan(value=value):
                high = value
            case LessThanOrEqual(value=value):
                high = value + 1
            case _:
                return False
        self._low = max(self._low, low)
        if high is not None:
            self._high = high if self._high is None else min(self._high, high)
        return True
