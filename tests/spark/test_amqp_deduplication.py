"""Goal: a batch that is written again adds nothing twice on a queue that deduplicates.

Method: our broker; the same job twice, and a streaming batch that fails after its output.
"""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.amqp_messages import Broker
from support.broker import Target

pytestmark = pytest.mark.spark


@pytest.fixture
def queue(target: Target, amqp: Broker, name: str) -> str:
    if not target.is_own:
        pytest.skip("needs a plug-in elsewhere")
    return amqp.declare(name, x_message_deduplication=True)


def write(frame: DataFrame, amqp: Broker, queue: str, deduplication: str) -> None:
    writer = frame.write.format("amqp").mode("append").option("uri", amqp.url)
    options = {"routingKey": queue, "deduplication": deduplication, "writeId": "nightly"}
    writer.options(**options).save()


def test_a_job_that_runs_again_adds_nothing(spark: SparkSession, amqp: Broker, queue: str) -> None:
    frame = spark.range(0, 3000, numPartitions=2).selectExpr("string(id) as body")
    write(frame, amqp, queue, "content")
    write(frame, amqp, queue, "content")
    assert amqp.ready(queue, 3000) == 3000
    taken = amqp.take(queue, 3000)
    assert sorted(int(body) for _, body in taken) == list(range(3000))
    write(frame, amqp, queue, "content")
    assert amqp.ready(queue) == 0


def test_rows_may_bring_their_own_names(spark: SparkSession, amqp: Broker, queue: str) -> None:
    columns = "string(id) as body", "string(id % 100) as deduplication_id"
    write(spark.range(500).selectExpr(*columns), amqp, queue, "column")
    assert amqp.ready(queue, 100) == 100
