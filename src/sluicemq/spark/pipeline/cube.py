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
"""The latencies of each table, published before delivered. Service counts from `written_ns`,
response from `intended_ns`."""


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


def build_cube(messages: DataFrame, info: RunInfo) -> DataFrame:
    """Both raw tables, scanned once, together.

    `kind` is a latency of KINDS (then `bucket` is set) or "published"/"delivered" (then `queue`
    and `client`, the publisher or consumer, are). Published rows belong to the second they were
    written in, delivered rows to the second they were delivered in; `step` is the step a message
    was intended in, and `warm` tells that its warm-up was over by then. `messages` adds up weights,
    `rows` counts rows.
    """
    keys = ["second", "step", "warm", "queue", "client", "service_bucket", "response_bucket"]
    sets = [
        ["delivered", "second", "step", "warm", "service_bucket"],
        ["delivered", "second", "step", "warm", "response_bucket"],
        ["delivered", "step", "warm", "queue", "client"],
    ]
    rows = _latencies(messages, info)
    grouped = rows.groupingSets(
        [[fn.col(key) for key in one] for one in sets], "delivered", *keys
    ).agg(
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
    largest = fn.when(is_service, fn.col("service_max")).otherwise(fn.col("response_max"))
    return grouped.select(
        fn.when(is_service, _by_table([service for service, _ in KINDS.values()]))
        .when(is_response, _by_table([response for _, response in KINDS.values()]))
        .otherwise(_by_table(list(KINDS)))
        .alias("kind"),
        *("second", "step", "warm", "queue", "client", "rows", "messages"),
        fn.coalesce("service_bucket", "response_bucket").alias("bucket"),
        largest.alias("max_ns"),
        fn.when(~is_service & ~is_response, fn.col("response_sum")).alias("response_sum_ns"),
    )


def _latencies(messages: DataFrame, info: RunInfo) -> DataFrame:
    """Each raw row's latencies and what they are grouped by.

    A row of `delivered` is known by its `delivered_ns`, which `published` does not have.
    """
    until = fn.coalesce("confirmed_ns", "delivered_ns")
    return messages.select(
        fn.col("delivered_ns").isNotNull().alias("delivered"),
        fn.floor(fn.coalesce("delivered_ns", "written_ns") / NS).cast("int").alias("second"),
        "step",
        _is_warm(info).alias("warm"),
        "queue",
        fn.coalesce("consumer", "publisher").alias("client"),
        fn.col("weight").cast("bigint").alias("weight"),
        (until - fn.col("written_ns")).alias("service_ns"),
        (until - fn.col("intended_ns")).alias("response_ns"),
    ).select(
        "*",
        bucket_column(fn.col("service_ns")).alias("service_bucket"),
        bucket_column(fn.col("response_ns")).alias("response_bucket"),
    )


def _by_table(words: list[str]) -> Column:
    """The word for published, or for delivered."""
    published, delivered = words
    return fn.when(fn.col("delivered"), delivered).otherwise(published)


def _is_warm(info: RunInfo) -> Column:
    """Whether a message was intended after the warm-up of its step."""
    warm = fn.lit(False)
    for step in info["steps"]:
        warm |= (fn.col("step") == step["step"]) & (fn.col("intended_ns") >= step["warm_ns"])
    return warm
