"""What a standalone cluster of three does for the tests of tasks that run again, with one driver.

    python -m spark.cluster_jobs MASTER URL FOLDER SCENARIO..

First all of `cluster_job.py`, in FOLDER/attempts; then these scenarios of `shuffle_job.py`, in
FOLDER/shuffles.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.cloudpickle import register_pickle_by_value

from sluicemq.spark.session import start_session
from spark import cluster_job, shuffle_job

SHUFFLES = (
    "join-python-batch-fixed",
    "aggregation-fails-batch-adaptive",
    "by-key-stalls-batch-adaptive",
    "repartition-executor-stream-fixed",
)
"""The scenarios that the test run tries; make torture-spark tries all."""


def main(arguments: list[str]) -> None:
    master, url, place, *scenarios = arguments
    attempts, shuffles = (Path(place) / name for name in ("attempts", "shuffles"))
    attempts.mkdir()
    shuffles.mkdir()
    register_pickle_by_value(shuffle_job)  # executors have our package, and no tests
    spark = start_session(master, "1g", settings=shuffle_job.SETTINGS)
    cluster_job.run_all(spark, url, attempts)
    if scenarios:
        shuffle_job.run_all(spark, url, shuffles, "content", scenarios)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
