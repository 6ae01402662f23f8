"""The one scan of the raw rows: makes histograms of latencies, and sums for each queue.

A histogram is log-linear, as HdrHistogram's: values below 2 * SUBBUCKETS have a bucket each, above
that every power of two is cut into SUBBUCKETS equal parts. Buckets are whole numbers in order of
value, so histograms are merged by adding up counts, second to step to run.

    value    0 ... 127 | 128 129 | 130 131 | ... 255 | 256 ... 259 | ...
    bucket   0 ... 127 |   128   |   129   | ... 191 |     192     | ...

A value is taken as the middle of its bucket: off by 1 part in 128 at most. The largest is exact.
`bucket_of` is there twice, as a column expression and in plain Python; the tests compare them.
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
"""The largest relative error of a percentile against the exact one (nearest rank)."""

NEVER: Final = -2
"""The bucket of messages without an end: there was no confirm."""

NEGATIVE: Final = -1
"""The bucket of latencies below 0, which only wrong clocks give."""

WARM: Final = 1
DELIVERED: Final = 2
STEP_SHIFT: Final = 2
"""How the scan packs a row's table, step and warm-up into one key."""

KINDS: Final = {
    "published": ("confirm_service", "confirm_response"),
    "delivered": ("end_to_end_service", "end_to_end_response"),
}
"""The latencies of each table, published before delivered. Service counts from `written_ns`,
response from `intended_ns`."""

QUEUE_KIND: Final = "queue_end_to_end_response"
"""The end-to-end response latency of each queue by itself, in each step and without warm-up."""


def bucket_of(value: int) -> int:
    """Return the bucket of a latency in ns; NEGATIVE for one below 0."""
    if value < 0:
        return NEGATIVE
    shift = max(value.bit_length() - 1 - SUBBUCKET_BITS, 0)
    return shift * SUBBUCKETS + (value >> shift)


def value_of(bucket: int) -> float:
    """Return the latency in the middle of a bucket, in ns. The bucket must not be NEVER or
    NEGATIVE."""
    shift = max(bucket // SUBBUCKETS - 1, 0)
    return lowest_of(bucket) + ((1 << shift) - 1) / 2


def lowest_of(bucket: int) -> int:
    """Return the smallest latency in a bucket, in ns."""
    shift = max(bucket // SUBBUCKETS - 1, 0)
    return (bucket - shift * SUBBUCKETS) << shift


def bucket_column(value: Column) -> Column:
    """Return the bucket of a column of latencies, as `bucket_of` does, as an expression of Spark;
    NEVER for null.

    log2 may be one off beside a power of two; the formula gives the same bucket either way.
    """
    exponent = fn.floor(fn.log2(fn.greatest(value, fn.lit(1)))).cast("int")
    shift = fn.greatest(exponent - SUBBUCKET_BITS, fn.lit(0))
    bucket = shift * SUBBUCKETS + fn.call_function("shiftright", value, shift).cast("int")
    return fn.when(value.isNull(), NEVER).when(value < 0, NEGATIVE).otherwise(bucket)


def build_histograms(messages: DataFrame, info: RunInfo) -> DataFrame:
    """Scan both raw tables once, together, and return histograms of latencies and the sums of each
    queue and client.

    `kind` is a latency of KINDS (then `bucket` is set), QUEUE_KIND (then `queue` is set, too) or
    "published"/"delivered" (then `queue` and `client`, the publisher or consumer, are). Published
    rows belong to the second they were written in, delivered rows to the second they were delivered
    in; `step` is the step a message was intended in, and `warm` tells that the warm-up was over
    when it was written. `messages` adds up weights, `rows` counts rows.
    """
    keys = ["part", "second", "queue", "client", "service_bucket", "response_bucket"]
    sets = [
        ["part", "second", "service_bucket"],
        ["part", "second", "response_bucket"],
        ["part", "queue", "client"],
        ["part", "queue", "response_bucket"],
    ]
    rows = _latencies(messages, info)
    grouped = rows.groupingSets([[fn.col(key) for key in one] for one in sets], *keys).agg(
        fn.grouping("queue").alias("no_queue"),
        fn.grouping("service_bucket").alias("no_service"),
        fn.grouping("response_bucket").alias("no_response"),
        fn.count("*").alias("rows"),
        fn.sum("weight").alias("messages"),
        fn.max("service_ns").alias("service_max"),
        fn.max("response_ns").alias("response_max"),
        # A double: 100 s times 10^8 messages exceeds 64 bits of nanoseconds.
        fn.sum(fn.col("response_ns") * fn.col("weight").cast("double")).alias("response_sum"),
    )
    is_service, is_response = fn.col("no_service") == 0, fn.col("no_response") == 0
    is_of_queue = is_response & (fn.col("no_queue") == 0)
    largest = fn.when(is_service, fn.col("service_max")).otherwise(fn.col("response_max"))
    wanted = grouped.where(~is_of_queue | (_has(WARM) & _has(DELIVERED)))
    return wanted.select(
        fn.when(is_of_queue, QUEUE_KIND)
        .when(is_service, _by_table([service for service, _ in KINDS.values()]))
        .when(is_response, _by_table([response for _, response in KINDS.values()]))
        .otherwise(_by_table(list(KINDS)))
        .alias("kind"),
        "second",
        fn.shiftright("part", STEP_SHIFT).alias("step"),
        _has(WARM).alias("warm"),
        *("queue", "client", "rows", "messages"),
        fn.coalesce("service_bucket", "response_bucket").alias("bucket"),
        largest.alias("max_ns"),
        fn.when(~is_service & ~is_response, fn.col("response_sum")).alias("response_sum_ns"),
    )


def _latencies(messages: DataFrame, info: RunInfo) -> DataFrame:
    """Return each raw row's latencies and the keys by which they are grouped.

    Only rows of `delivered` have `delivered_ns`. `part` has the table, the step and whether it is
    warm in one number, because every key costs time in every row.
    """
    until = fn.coalesce("confirmed_ns", "delivered_ns")
    part = (
        fn.shiftleft(fn.col("step").cast("int"), STEP_SHIFT)
        + fn.when(_is_warm(info), WARM).otherwise(0)
        + fn.when(fn.col("delivered_ns").isNotNull(), DELIVERED).otherwise(0)
    )
    return messages.select(
        part.alias("part"),
        fn.floor(fn.coalesce("delivered_ns", "written_ns") / NS).cast("int").alias("second"),
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
    """Return the word for published or for delivered, by the row's table."""
    published, delivered = words
    return fn.when(_has(DELIVERED), delivered).otherwise(published)


def _has(bit: int) -> Column:
    """Return whether `part` has this bit."""
    return fn.col("part").bitwiseAND(bit) != 0


def _is_warm(info: RunInfo) -> Column:
    """Return whether a message was written after the warm-up of its step."""
    warm = fn.lit(False)
    for step in info["steps"]:
        warm |= (fn.col("step") == step["step"]) & (fn.col("written_ns") >= step["warm_ns"])
    return warm
