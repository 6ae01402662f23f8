"""What `test_amqp_executors.py` has a standalone cluster do: the queries of `executors_driver.py`
with consumers on executors, under a publisher of numbers, undisturbed.

`FOLDER/outcome.json` has what was published, and what has arrived.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from sluicemq.client.blocking import connect
from spark.executors import ALL_QUEUES, EXCHANGE, PROGRESS_S, RATE, Numbers, declare, last_batches
from spark.executors_driver import Driver

EXECUTORS = 2
LOOK_S = 0.1


def run(spark: SparkSession, url: str, folder: Path) -> None:
    """Until each query has committed a batch; then no more is published, and the rest is read."""
    declare(url)
    publishing = Numbers(url, EXCHANGE, RATE)
    enough = threading.Event()

    def publish() -> None:
        deadline = time.monotonic() + PROGRESS_S
        while min(last_batches(folder)) < 0 and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        publishing.finish()
        enough.set()

    publishing.start()
    watching = threading.Thread(target=publish)
    watching.start()
    driver = Driver(spark, url, folder, EXECUTORS)
    driver.serve(enough)
    watching.join()
    with connect(url) as client:
        left = client.count_queues(ALL_QUEUES)
        for queue in ALL_QUEUES:
            client.delete_queue(queue)
    outcome = {
        "batches": [number + 1 for number in last_batches(folder)],
        "published": publishing.published,
        "rows": driver.found(),
        "left": left,
    }
    (folder / "outcome.json").write_text(json.dumps(outcome))
