"""The victim of `executors.py`: a driver on a cluster, with two queries that executors gather for.

    python -m spark.executors_driver URL FOLDER MASTER EXECUTORS

    often   queues often0, often1, ..  -> Parquet in FOLDER/often   (at least once)
    once    queues once0, once1, ..    -> Parquet in FOLDER/once    (exactlyOnce, transferTls)

Told what to do as `kill_queries.py` says.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluicemq.spark.session import start_session
from spark.kill_queries import Queries

QUERIES = "often", "once"
QUEUES = 3
"""Of each query."""

ROWS_PER_BATCH = 1000
PIECE_ROWS = 50


class Driver(Queries):
    """See above."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, executors: int) -> None:
        super().__init__(spark, url, folder, "200 milliseconds")
        self.executors = executors
        self.starters = {name: partial(self.start, name) for name in QUERIES}

    def start(self, name: str) -> StreamingQuery:
        options: dict[str, object] = {
            "uri": self.url,
            "queues": ",".join(f"{name}{number}" for number in range(QUEUES)),
            "gather": "executors",
            "gatherers": self.executors,
            "maxMessagesPerBatch": ROWS_PER_BATCH,
            "prefetch": 2 * ROWS_PER_BATCH,
            "retryBackoff": "50",
            "timeout": "30000",
        }
        if name == "once":
            ledger = f"{self.folder}/ledger"
            options |= {"exactlyOnce": "true", "ledger": ledger, "transferTls": "true"}
        frame = self.spark.readStream.format("amqp").options(**options).load()
        rows = frame.selectExpr("slowly(body) as body", "redelivered")
        writer = rows.writeStream.format("parquet").trigger(**self.trigger)
        writer = writer.option("checkpointLocation", self.checkpoint(name))
        return writer.start(f"{self.folder}/{name}")

    def found(self) -> dict[str, list[tuple[int, bool]]]:
        return {name: self.arrived(name) for name in QUERIES}


def main(arguments: list[str]) -> None:
    url, place, master, executors = arguments
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": executors,
        "spark.task.maxFailures": "8",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(PIECE_ROWS),
    }
    spark = start_session(master, "1g", settings=settings)
    Driver(spark, url, Path(place), int(executors)).obey()


if __name__ == "__main__":
    main(sys.argv[1:])
