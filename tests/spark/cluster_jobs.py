"""What a standalone cluster does for tests, with one driver: tasks that run again, and consumers on
executors.

    python -m spark.cluster_jobs MASTER URL FOLDER ATTEMPTS SHUFFLES

First the scenarios ATTEMPTS of `cluster_job.py`, in FOLDER/attempts; then SHUFFLES of
`shuffle_job.py`, in FOLDER/shuffles, names have commas between them; then `gathering_job.py`, in
FOLDER/gathering.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.cloudpickle import register_pickle_by_value

from sluicemq.spark.session import start_session
from spark import cluster_job, gathering_job, shuffle_job


def main(arguments: list[str]) -> None:
    master, url, place, attempts, shuffles = arguments
    folders = [Path(place) / name for name in ("attempts", "shuffles", "gathering")]
    for folder in folders:
        folder.mkdir()
    register_pickle_by_value(shuffle_job)  # executors have our package, and no tests
    spark = start_session(master, "1g", settings=shuffle_job.SETTINGS)
    cluster_job.run_all(spark, url, folders[0], attempts.split(","))
    if shuffles:
        shuffle_job.run_all(spark, url, folders[1], "content", shuffles.split(","))
    gathering_job.run(spark, url, folders[2])
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
