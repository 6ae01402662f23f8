"""Batch reads of streams: ranges of offsets.

Filters are not pushed down: Spark 4.3 keeps those of one query of a DataFrame and applies them to
the next, which then misses rows. Use `startingOffsets` and `endingOffsets` to read less.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from sluicemq.spark.batch import decode
from sluicemq.spark.option_conflicts import check_batch
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
    """Reads ranges of offsets of streams in a batch. The constructor raises `Refused` for options
    of streaming reads."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_batch(options)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        ranges: dict[str, tuple[int, int]] = {}
        for queue in options.queues:
            end = end_offset(options, queue, options.poll_timeout_ms / 1000)
            stop = end
            if isinstance(options.ending_offsets, int):
                stop = min(stop, options.ending_offsets)
            ranges[queue] = (start_of(options, queue, end), stop)
        parts: list[InputPartition] = list(split_ranges(ranges, options.min_partitions))
        return parts or [RangePartition("", 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        if partition.start >= partition.end:
            return
        decoder = Decoder(self._schema, is_stream=True)
        for chunk in read_range(self._options, partition):
            yield decode(decoder, chunk)
