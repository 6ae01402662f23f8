"""The victim of the kill tests: a driver with one streaming query from a queue.

    python -m spark.kill_driver URL QUEUE FOLDER MODE

MODE `files`: into Parquet; `queue`: into queue QUEUE-out; both until somebody ends it, and started
again when the query fails. `finish`: into Parquet what is left, then `FOLDER/found.json` says what
has arrived.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sluicemq.spark.session import spark_session

MASTER = "local[2,4]"
"""Two cores; a task may fail three times."""

COLUMNS = "body", "redelivered"


def run(spark: SparkSession, url: str, queue: str, folder: Path, mode: str) -> None:
    reader = spark.readStream.format("amqp").option("uri", url).option("queue", queue)
    rows = 10_000 if mode == "finish" else 1000
    options = {"maxMessagesPerBatch": rows, "prefetch": 2 * rows, "retryBackoff": "50"}
    frame = reader.options(**options, minPartitions="2", timeout="10000").load()
    if mode == "queue":
        out = frame.drop("routing_key").writeStream.format("amqp")
        out = out.options(uri=url, routingKey=f"{queue}-out", retryBackoff="50", timeout="10000")
    else:
        out = frame.select(*COLUMNS).writeStream.format("parquet").option("path", f"{folder}/rows")
    if mode == "finish":
        out = out.trigger(availableNow=True)
    out = out.option("checkpointLocation", f"{folder}/checkpoint")
    query = out.start()
    print("started", flush=True)
    while mode != "finish":
        with suppress(StreamingQueryException):
            query.awaitTermination()
        time.sleep(0.2)
        query = out.start()
    query.awaitTermination()


def main(arguments: list[str]) -> None:
    url, queue, place, mode = arguments
    folder = Path(place)
    with spark_session(MASTER, "1g") as spark:
        run(spark, url, queue, folder, mode)
        if mode == "finish":
            rows = spark.read.parquet(f"{folder}/rows")
            found = rows.selectExpr("int(string(body)) as n", "redelivered").collect()
            pairs = [(row.n, row.redelivered) for row in found]
            (folder / "found.json").write_text(json.dumps(pairs))


if __name__ == "__main__":
    main(sys.argv[1:])
