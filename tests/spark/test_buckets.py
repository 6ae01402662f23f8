"""The buckets of the column expression, and what stands for them."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from sluicemq.spark.pipeline.latency_histograms import (
    NEVER,
    RELATIVE_ERROR,
    bucket_column,
    bucket_of,
    value_of,
)

pytestmark = pytest.mark.spark


def test_the_expression_agrees_with_the_plain_function(spark: SparkSession) -> None:
    """Goal: no value is put elsewhere by Spark's log2. Method: around all powers of two."""
    near = {(1 << power) + offset for power in range(42) for offset in range(-2, 3)}
    dice = random.Random(1)
    values = sorted(near | {dice.randrange(1 << dice.randrange(1, 42)) for _ in range(2000)})
    frame = spark.createDataFrame([(value,) for value in values], "value bigint")
    for row in frame.select("value", bucket_column(fn.col("value")).alias("bucket")).collect():
        assert row["bucket"] == bucket_of(row["value"]), row
        if row["bucket"] >= 0:
            assert abs(value_of(row["bucket"]) - row["value"]) <= RELATIVE_ERROR * row["value"], row


def test_no_value_is_never(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(None,)], "value bigint")
    assert frame.select(bucket_column(fn.col("value"))).collect()[0][0] == NEVER
