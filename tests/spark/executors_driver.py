"""The victim of `executors.py`: a driver on a cluster, with two queries that executors gather for.

    python -m spark.executors_driver URL FOLDER MASTER EXECUTORS

    often   queues often0, often1, ..  -> Parquet in FOLDER/often   (at least once)
    once    queues once0, once1, ..    -> Parquet in FOLDER/once    (exactlyOnce, transferTls)

Told what to do as `kill_driver.py` is.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluicemq.spark.data_source import AmqpDataSource
from sluicemq.spark.session import start_session
from spark.kill_driver import RESTART_S, slowly

QUERIES = "often", "once"
QUEUES = 3
"""Of each query."""

ROWS_PER_BATCH = 1000
PIECE_ROWS = 50
FINISH_S = 120


class Driver:
    """The queries of one session."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, executors: int) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        self.executors = executors
        retried = folder / "retried"
        retried.mkdir(exist_ok=True)
        spark.udf.register("slowly", slowly(retried))
        spark.dataSource.register(AmqpDataSource)
        self.trigger: dict[str, Any] = {"processingTime": "200 milliseconds"}

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
        writer = writer.option("checkpointLocation", f"{self.folder}/checkpoint/{name}")
        return writer.start(f"{self.folder}/{name}")

    def serve(self, finish: threading.Event) -> None:
        """Until somebody ends it, or says so."""
        running = {name: self.start(name) for name in QUERIES}
        print("started", flush=True)
        while not finish.wait(RESTART_S):
            for name, query in running.items():
                if not query.isActive:
                    print(name, query.exception(), file=sys.stderr, flush=True)
                    running[name] = self.start(name)
        for query in running.values():
            query.stop()
        self.trigger = {"availableNow": True}
        for query in [self.start(name) for name in QUERIES]:
            assert query.awaitTermination(FINISH_S)

    def found(self) -> dict[str, list[tuple[int, bool]]]:
        """(number, redelivered) of each row in Parquet."""
        return {
            name: [
                (int(row.body), row.redelivered)
                for row in self.spark.read.parquet(f"{self.folder}/{name}").collect()
            ]
            for name in QUERIES
        }


def main(arguments: list[str]) -> None:
    url, place, master, executors = arguments
    folder = Path(place)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.task.maxFailures": "8",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(PIECE_ROWS),
    }
    spark = start_session(master, "1g", settings=settings)
    driver = Driver(spark, url, folder, int(executors))
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
