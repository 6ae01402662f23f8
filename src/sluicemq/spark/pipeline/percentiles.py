"""Percentiles out of the cube, on three levels: each second, each step, the run."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from sluicemq.spark.pipeline.cube import KINDS, NEGATIVE, NEVER, value_column

QUANTILES: Final = {"p50_ms": 0.50, "p75_ms": 0.75, "p95_ms": 0.95, "p99_ms": 0.99}

LATENCY_KINDS: Final = tuple(kind for kinds in KINDS.values() for kind in kinds)

NS_PER_MS: Final = 1e6


def percentile_table(cube: DataFrame) -> DataFrame:
    """A row for each level ("second", "step", "run"), key and kind of latency.

    `messages` are those with a latency, `never` those without (no confirm), `negative`
    those whose latency was below 0. Steps and run leave out the warm-up, seconds do not.
    """
    histogram = merge(levels(cube))
    whole = Window.partitionBy("level", "key", "kind")
    upward = whole.orderBy("bucket")
    counted = fn.when(fn.col("bucket") >= 0, fn.col("messages")).otherwise(0)
    ranked = histogram.select(
        "*", fn.sum(counted).over(upward).alias("up_to"), fn.sum(counted).over(whole).alias("total")
    )
    at_least = {
        name: fn.min(
            fn.when(
                (fn.col("bucket") >= 0) & (fn.col("up_to") >= fn.ceil(fn.col("total") * quantile)),
                fn.col("bucket"),
            )
        ).alias(name)
        for name, quantile in QUANTILES.items()
    }
    summed = ranked.groupBy("level", "key", "kind").agg(
        fn.max("total").alias("messages"),
        _messages_in(NEVER).alias("never"),
        _messages_in(NEGATIVE).alias("negative"),
        fn.max("max_ns").alias("max_ns"),
        *at_least.values(),
    )
    # The middle of the last bucket can lie above the largest value in it.
    value = {name: fn.least(value_column(fn.col(name)), fn.col("max_ns")) for name in QUANTILES}
    return summed.select(
        *("level", "key", "kind", "messages", "never", "negative"),
        *((value[name] / NS_PER_MS).alias(name) for name in QUANTILES),
        (fn.when(fn.col("messages") > 0, fn.col("max_ns")) / NS_PER_MS).alias("max_ms"),
    )


def levels(cube: DataFrame) -> DataFrame:
    """The cube's latency rows, once for each level they count for."""
    parts = (
        *(fn.lit("second"), fn.col("second"), fn.lit(True)),
        *(fn.lit("step"), fn.col("step").cast("int"), fn.col("warm")),
        *(fn.lit("run"), fn.lit(0), fn.col("warm")),
    )
    stacked = fn.stack(fn.lit(3), *parts).alias("level", "key", "counts")
    return (
        cube.filter(fn.col("kind").isin(*LATENCY_KINDS))
        .select("kind", "bucket", "messages", "max_ns", stacked)
        .filter(fn.col("counts"))
    )


def merge(histograms: DataFrame) -> DataFrame:
    """Add up histograms of the same level, key and kind."""
    return histograms.groupBy("level", "key", "kind", "bucket").agg(
        fn.sum("messages").alias("messages"), fn.max("max_ns").alias("max_ns")
    )


def _messages_in(bucket: int) -> Any:
    return fn.sum(fn.when(fn.col("bucket") == bucket, fn.col("messages")).otherwise(0))
