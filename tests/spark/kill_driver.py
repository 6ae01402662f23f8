"""The victim of the kill tests: a driver with two streaming queries of one broker.

    python -m spark.kill_driver URL FOLDER

    files    queue QUEUE    -> Parquet in FOLDER/files    (at least once)
    sink     stream STREAM  -> shuffle -> queue OUT       (each row named by its content)

Told what to do as `kill_queries.py` says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sluicemq.spark.session import start_session
from spark.kill_queries import Queries

QUEUE = "numbers"
STREAM = "history"
OUT = "out"

MASTER = "local[6,4]"
"""Tasks sleep more than they work; each may fail three times."""

PIECE_ROWS = 50
"""So many rows go from one Python process to the next at once."""

SHUFFLED = 3
"""Partitions behind the shuffle."""

ROWS_PER_BATCH = 2000
SOURCE = {"maxMessagesPerBatch": ROWS_PER_BATCH, "prefetch": 2 * ROWS_PER_BATCH}
PATIENT = {"retryBackoff": "50", "timeout": "10000"}
"""For a broker that is killed again and again."""


class Driver(Queries):
    """See above."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        super().__init__(spark, url, folder, "400 milliseconds")
        checkpoint = {"checkpointLocation": self.checkpoint("files")}
        self.numbers = self.read(QUEUE, "redelivered", **checkpoint)
        self.history = self.read(STREAM, queueType="stream")
        self.starters = {"files": self.files, "sink": self.sink}

    def read(self, queue: str, *columns: str, **options: object) -> DataFrame:
        reader = self.spark.readStream.format("amqp").option("uri", self.url)
        frame = reader.options(queue=queue, **SOURCE, **PATIENT, **options).load()
        return frame.selectExpr("slowly(body) as body", *columns)

    def files(self) -> StreamingQuery:
        writer = self.numbers.writeStream.format("parquet").trigger(**self.trigger)
        return self.start("files", writer.option("path", f"{self.folder}/files"))

    def sink(self) -> StreamingQuery:
        shuffled = self.history.repartition(SHUFFLED)
        writer = shuffled.writeStream.format("amqp").trigger(**self.trigger).options(**PATIENT)
        writer = writer.options(uri=self.url, routingKey=OUT, deduplication="content")
        return self.start("sink", writer)

    def start(self, name: str, writer: DataStreamWriter) -> StreamingQuery:
        return writer.option("checkpointLocation", self.checkpoint(name)).start()

    def found(self) -> list[tuple[int, bool]]:
        return self.arrived("files")


def main(arguments: list[str]) -> None:
    url, place = arguments
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(PIECE_ROWS)}
    spark = start_session(MASTER, "1g", settings=settings)
    Driver(spark, url, Path(place)).obey()


if __name__ == "__main__":
    main(sys.argv[1:])
