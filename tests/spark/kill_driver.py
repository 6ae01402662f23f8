"""The victim of the kill tests: a driver with two streaming queries of one broker.

    python -m spark.kill_driver URL FOLDER

    files    queue QUEUE    -> Parquet in FOLDER/files    (at least once)
    sink     stream STREAM  -> shuffle -> queue OUT       (each row named by its content)

It starts Spark and waits: `go` on standard input starts the queries, which are started again when
they fail; `finish` has each take what is left, and `FOLDER/found.json` says what has arrived. The
end of standard input ends it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sluicemq.spark.data_source import AmqpDataSource
from sluicemq.spark.session import start_session

QUEUE = "numbers"
STREAM = "history"
OUT = "out"

MASTER = "local[6,4]"
"""Tasks sleep more than they work; each may fail three times."""

ROW_S = 0.0005
"""How long a task rests at each row, so that it is in the middle of something when it dies."""

PIECE_ROWS = 50
"""So many rows go from one Python process to the next at once."""

SHUFFLED = 3
"""Partitions behind the shuffle."""

ROWS_PER_BATCH = 2000
RESTART_S = 0.2
SOURCE = {"maxMessagesPerBatch": ROWS_PER_BATCH, "prefetch": 2 * ROWS_PER_BATCH}
PATIENT = {"retryBackoff": "50", "timeout": "10000"}
"""For a broker that is killed again and again."""


def slowly(retried: Path) -> Callable[[bytes], str]:
    """The text of a body, at leisure; a task that is tried again leaves a file."""

    def work(body: bytes) -> str:
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            (retried / f"{os.getppid()}-{context.taskAttemptId()}").touch()
        time.sleep(ROW_S)
        return body.decode()

    return work


class Driver:
    """The queries of one session."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        retried = folder / "retried"
        retried.mkdir(exist_ok=True)
        spark.udf.register("slowly", slowly(retried))
        spark.dataSource.register(AmqpDataSource)
        checkpoint = {"checkpointLocation": self.checkpoint("files")}
        self.numbers = self.read(QUEUE, "redelivered", **checkpoint)
        self.history = self.read(STREAM, queueType="stream")
        self.trigger: dict[str, object] = {"processingTime": "400 milliseconds"}

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

    def checkpoint(self, name: str) -> str:
        return f"{self.folder}/checkpoint/{name}"

    def serve(self, finish: threading.Event) -> None:
        """Until somebody ends it, or says so."""
        queries = {"files": self.files, "sink": self.sink}
        running = {name: start() for name, start in queries.items()}
        print("started", flush=True)
        while not finish.wait(RESTART_S):
            for name, start in queries.items():
                if not running[name].isActive:
                    print(name, running[name].exception(), file=sys.stderr, flush=True)
                    running[name] = start()
        for query in running.values():
            query.stop()
        self.trigger = {"availableNow": True}
        for query in [start() for start in queries.values()]:
            query.awaitTermination()

    def found(self) -> list[tuple[int, bool]]:
        """(number, redelivered) of each row in Parquet."""
        rows = self.spark.read.parquet(f"{self.folder}/files").collect()
        return [(int(row.body), row.redelivered) for row in rows]


def main(arguments: list[str]) -> None:
    url, place = arguments
    folder = Path(place)
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(PIECE_ROWS)}
    spark = start_session(MASTER, "1g", settings=settings)
    driver = Driver(spark, url, folder)
    if sys.stdin.readline() != "go\n":
        return
    finish = threading.Event()

    def listen() -> None:
        if sys.stdin.readline():
            finish.set()

    threading.Thread(target=listen, daemon=True).start()
    driver.serve(finish)
    (folder / "found.json").write_text(json.dumps(driver.found()))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
