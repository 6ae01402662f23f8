"""`sluicemq lab watch`: a run's throughput and latency, second by second, while it goes on.

A streaming query reads the files that the conductor writes for each second (`lab/live.py`), sums
them over the workers and computes percentiles of the latencies, for a line a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from sluicemq.errors import Refused
from sluicemq.lab.live import FOLDER

SCHEMA: Final = StructType(
    [
        StructField("role", StringType()),
        StructField("index", IntegerType()),
        StructField("second", IntegerType()),
        StructField("step", ShortType()),
        StructField("written", LongType()),
        StructField("confirmed", LongType()),
        StructField("delivered", LongType()),
        StructField("unconfirmed", IntegerType()),
        StructField("latencies_ns", ArrayType(LongType())),
    ]
)
"""The table lab.measurements.LIVE, as Spark writes a schema."""

PERCENTILES: Final = (0.5, 0.99)
START_TIMEOUT_S: Final = 30.0
LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class WatchedSecond:
    """The figures of one second of a run, all workers together. Latencies are in nanoseconds; None
    when nothing was delivered."""

    second: int
    step: int
    written: int
    confirmed: int
    delivered: int
    unconfirmed: int
    p50_ns: int | None
    p99_ns: int | None


def watch(
    session: SparkSession,
    directory: Path,
    show: Callable[[WatchedSecond], None],
    start_timeout_s: float = START_TIMEOUT_S,
) -> None:
    """Call `show` with each second of the run in `directory`, in order, until the run ends. Raises
    `Refused` when no run has begun there within `start_timeout_s` seconds."""
    folder = directory / FOLDER
    deadline = time.monotonic() + start_timeout_s
    while not folder.is_dir():
        if time.monotonic() > deadline:
            raise Refused(f"DIRECTORY: no run has begun in {directory}")
        time.sleep(LOOK_S)
    rows = session.readStream.schema(SCHEMA).parquet(str(folder))
    query = rows.writeStream.foreachBatch(Batches(show)).trigger(processingTime="1 second").start()
    try:
        while not (directory / "run.json").exists() and query.isActive:
            time.sleep(LOOK_S)
        if query.isActive:
            query.processAllAvailable()
    finally:
        query.stop()


class Batches:
    """Shows the seconds in the new files of each micro-batch. A second is in one file, so no state
    is kept from batch to batch."""

    def __init__(self, show: Callable[[WatchedSecond], None]) -> None:
        self._show = show

    def __call__(self, rows: DataFrame, _: int) -> None:
        for row in seconds(rows).collect():
            self._show(watched(row))


def seconds(rows: DataFrame) -> DataFrame:
    """Return a row for each second: sums over the workers, and percentiles over their latency
    samples."""
    totals = rows.groupBy("second").agg(
        f.max("step").alias("step"),
        *(f.sum(name).alias(name) for name in ("written", "confirmed", "delivered", "unconfirmed")),
    )
    latencies = (
        rows.select("second", f.explode("latencies_ns").alias("latency"))
        .groupBy("second")
        .agg(f.percentile_approx("latency", list(PERCENTILES), 10_000).alias("quantiles"))
    )
    return totals.join(latencies, "second", "left").orderBy("second")


def watched(row: Row) -> WatchedSecond:
    """Return a row of `seconds` as the record to show."""
    fields: dict[str, Any] = row.asDict()
    p50_ns, p99_ns = fields.pop("quantiles") or (None, None)
    return WatchedSecond(**fields, p50_ns=p50_ns, p99_ns=p99_ns)
