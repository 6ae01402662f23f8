"""`format("amqp")`: the data source that Spark registers.

    spark.dataSource.register(AmqpDataSource)

The package `pyspark_sluicemq` makes Spark find it without that; registered, it also learns when
batches are committed (`listener.py`).
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from sluicemq.spark.batch import QueueBatchReader
from sluicemq.spark.listener import listen
from sluicemq.spark.named_frames import named
from sluicemq.spark.option_conflicts import check_streaming
from sluicemq.spark.option_declaration import Side
from sluicemq.spark.options import Options
from sluicemq.spark.queue_stream import QueueStreamReader
from sluicemq.spark.schema import check_schema, columns_of
from sluicemq.spark.sink import AmqpBatchWriter, AmqpStreamWriter
from sluicemq.spark.stream_batch import StreamBatchReader
from sluicemq.spark.stream_reader import StreamMicroBatchReader

__all__ = ["AmqpDataSource", "named"]


class AmqpDataSource(DataSource):
    """The data source `amqp`: reads and writes queues and streams of any AMQP 0-9-1 broker, in
    batches and as streams."""

    @classmethod
    def name(cls) -> str:
        # Spark asks only for the name in the driver itself, which alone can have a listener.
        session = SparkSession.getActiveSession()
        if session is not None:
            listen(session)
        return "amqp"

    def schema(self) -> str:
        return columns_of(self._options("source").include_properties)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._options("source")
        check_schema(schema)
        if options.is_stream:
            return StreamBatchReader(options, schema)
        return QueueBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._options("source")
        check_schema(schema)
        check_streaming(options)
        return (
            StreamMicroBatchReader(options, schema)
            if options.is_stream
            else QueueStreamReader(options, schema)
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return AmqpBatchWriter(self._options("sink"), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return AmqpStreamWriter(self._options("sink"), schema)

    def _options(self, side: Side) -> Options:
        return Options.parse(dict(self.options), side)
