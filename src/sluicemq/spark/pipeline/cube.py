"""The one scan of the raw rows: latencies into a cube of histograms, and what each queue carried.

A histogram is log-linear, as HdrHistogram's: values below 2 * SUBBUCKETS have a bucket each, above
that every power of two is cut into SUBBUCKETS equal parts. Buckets are whole numbers in order of
value, so histograms are merged by adding up counts, second to step to run.

    value    0 ... 127 | 128 129 | 130 131 | ... 255 | 256 ... 259 | ...
    bucket   0 ... 127 |   128   |   129   | ... 191 |     192     | ...

A value is taken as the middle of its bucket: off by 1 part in 128 at most. The largest is exact.
Every formula is there twice, as a column expression and in plain Python; the tests compare them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from sluicemq.lab.measurements import RunInfo

NS: Final = 1_000_000_000

SUBBUCKET_BITS: Final = 6
SUBBUCKETS: Final = 1 << SUBBUCKET_BITS

RELATIVE_ERROR: Final = 1 / (2 * SUBBUCKETS)
"""Of any percentile against the exact one (nearest rank)."""

NEVER: Final = -2
"""Bucket of what never came: no confirm."""

NEGATIVE: Final = -1
"""Bucket of what cannot be: a latency below 0."""

KINDS: Final = {
    "published": ("confirm_service", "confirm_response"),
    "delivered": ("end_to_end_service", "end_to_end_response"),
}
"""The latencies of each table. Service counts from `written_ns`, response from `intended_ns`."""

RAW_COLUMNS: Final = ("queue", "step", "intended_ns", "written_ns", "weight")
"""What both raw tables call by the same name and the cube needs."""


def bucket_of(value: int) -> int:
    """The bucket of a latency."""
    if value < 0:
        return NEGATIVE
    shift = max(value.bit_length() - 1 - SUBBUCKET_BITS, 0)
    return shift * SUBBUCKETS + (value >> shift)


def value_of(bucket: int) -> float:
    """The middle of a bucket (not of NEVER or NEGATIVE)."""
    shift = max(bucket // SUBBUCKETS - 1, 0)
    lowest = (bucket - shift * SUBBUCKETS) << shift
    return lowest + ((1 << shift) - 1) / 2


def bucket_column(value: Column) -> Column:
    """`bucket_of` as an expression.

    log2 may be one off beside a power of two; the formula gives the same bucket either way.
    """
    exponent = fn.floor(fn.log2(fn.greatest(value, fn.lit(1)))).cast("int")
    shift = fn.greatest(exponent - SUBBUCKET_BITS, fn.lit(0))
    bucket = shift * SUBBUCKETS + fn.call_function("shiftright", value, shift).cast("int")
    return fn.when(value.isNull(), NEVER).when(value < 0, NEGATIVE).otherwise(bucket)


def value_column(bucket: Column) -> Column:
    """`value_of` as an expression."""
    shift = fn.greatest(fn.floor(bucket / SUBBUCKETS).cast("int") - 1, fn.lit(0))
    lowest = fn.call_function("shiftleft", (bucket - shift * SUBBUCKETS).cast("bigint"), shift)
    width = fn.call_function("shiftleft", fn.lit(1).cast("bigint"), shift)
    return lowest + (width - 1) / 2


def build_cube(published: DataFrame, delivered: DataFrame, info: RunInfo) -> DataFrame:
    """Both raw tables, scanned once.

    `kind` is a latency of KINDS (then `bucket` is set) or "published"/"delivered" (then `queue`
    and `client`, the publisher or consumer, are). Published rows belong to the second they were
    written in, delivered rows to the second they were delivered in; `step` is the step a message
    was intended in, and `warm` tells that its warm-up was over by then. `messages` adds up weights,
    `rows` counts rows.
    """
    seen_by_publisher = published.select(
        fn.col("publisher").alias("client"),
        fn.col("written_ns").alias("at_ns"),
        fn.col("confirmed_ns").alias("until_ns"),
        *RAW_COLUMNS,
    )
    seen_by_consumer = delivered.select(
        fn.col("consumer").alias("client"),
        fn.col("delivered_ns").alias("at_ns"),
        fn.col("delivered_ns").alias("until_ns"),
        *RAW_COLUMNS,
    )
    return _table_cube(seen_by_publisher, "published", info).unionByName(
        _table_cube(seen_by_consumer, "delivered", info)
    )


def _table_cube(raw: DataFrame, name: str, info: RunInfo) -> DataFrame:
    service, response = KINDS[name]
    rows = raw.select(
        fn.floor(fn.col("at_ns") / NS).cast("int").alias("second"),
        "step",
        _is_warm(info).alias("warm"),
        "queue",
        "client",
        fn.col("weight").cast("bigint").alias("weight"),
        (fn.col("until_ns") - fn.col("written_ns")).alias("service_ns"),
        (fn.col("until_ns") - fn.col("intended_ns")).alias("response_ns"),
    ).select(
        "*",
        bucket_column(fn.col("service_ns")).alias("service_bucket"),
        bucket_column(fn.col("response_ns")).alias("response_bucket"),
    )
    keys = ["second", "step", "warm", "queue", "client", "service_bucket", "response_bucket"]
    sets = [
        ["second", "step", "warm", "service_bucket"],
        ["second", "step", "warm", "response_bucket"],
        ["step", "warm", "queue", "client"],
    ]
    grouped = rows.groupingSets([[fn.col(key) for key in one] for one in sets], *keys).agg(
        fn.grouping("service_bucket").alias("no_service"),
        fn.grouping("response_bucket").alias("no_response"),
        fn.count("*").alias("rows"),
        fn.sum("weight").alias("messages"),
        fn.max("service_ns").alias("service_max"),
        fn.max("response_ns").alias("response_max"),
        # A double: 100 s times 10^8 messages is too much for 64 bits of nanoseconds.
        fn.sum(fn.col("response_ns") * fn.col("weight").cast("double")).alias("response_sum"),
    )
    is_service, is_response = fn.col("no_service") == 0, fn.col("no_response") == 0
    return grouped.select(
        fn.when(is_service, service).when(is_response, response).otherwise(name).alias("kind"),
        "second",
        "step",
        "warm",
        "queue",
        "client",
        fn.coalesce("service_bucket", "response_bucket").alias("bucket"),
        "rows",
        "messages",
        fn.when(is_service, fn.col("service_max"))
        .otherwise(fn.col("response_max"))
        .alias("max_ns"),
        fn.when(~is_service & ~is_response, fn.col("response_sum")).alias("response_sum_ns"),
    )


def _is_warm(info: RunInfo) -> Column:
    """Whether a message was intended after the warm-up of its step."""
    warm = fn.lit(False)
    for step in info["steps"]:
        warm |= (fn.col("step") == step["step"]) & (fn.col("intended_ns") >= step["warm_ns"])
    return warm
