"""Goal: streams are read exactly once by offset. Method: a real broker, a real Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from broker import Target
from sluicemq.client.session import ClosedByBrokerError
from spark.amqp_messages import Broker, Files, batch, numbered, numbers, streaming

pytestmark = pytest.mark.spark

STREAM = {"queueType": "stream"}


@pytest.fixture
def stream(target: Target, amqp: Broker, name: str) -> Iterator[str]:
    """A stream; skipped where somebody else's broker knows none."""
    try:
        yield amqp.declare(name, x_queue_type="stream")
    except ClosedByBrokerError as closed:
        if target.is_own:
            raise
        pytest.skip(f"no streams: {closed}")


def test_a_batch_read_takes_ranges_again_and_again(
    spark: SparkSession, amqp: Broker, stream: str
) -> None:
    assert batch(spark, amqp, stream, **STREAM).count() == 0
    amqp.publish(stream, numbered(3000, size=100))
    for _ in range(2):
        rows = batch(spark, amqp, stream, **STREAM, minPartitions="3")
        assert numbers(rows) == list(range(3000))
    offsets = sorted(row.offset for row in rows.select("offset").collect())
    assert offsets == list(range(3000))
    part = batch(spark, amqp, stream, **STREAM, startingOffsets="100", endingOffsets="150")
    assert numbers(part) == list(range(100, 150))
    assert batch(spark, amqp, stream, **STREAM, startingOffsets="next").count() == 0
    assert max(numbers(batch(spark, amqp, stream, **STREAM, startingOffsets="last"))) == 2999
    time = "2020-01-01T00:00:00"
    assert batch(spark, amqp, stream, **STREAM, startingOffsets=time).count() == 3000


def test_batches_go_on_where_the_last_ended(
    spark: SparkSession, amqp: Broker, stream: str, tmp_path: Path
) -> None:
    amqp.publish(stream, numbered(2500))
    files = Files(spark, tmp_path)
    frame = streaming(spark, amqp, stream, **STREAM, maxMessagesPerBatch="1000")
    assert files.run(frame) == [1000, 1000, 500]
    amqp.publish(stream, numbered(7, first=2500))
    files.run(frame)
    assert numbers(files.rows()) == list(range(2507))


def test_a_batch_that_failed_has_the_same_rows_again(
    spark: SparkSession, amqp: Broker, stream: str, tmp_path: Path
) -> None:
    amqp.publish(stream, numbered(100))
    seen: list[tuple[int, list[int]]] = []

    def keep(frame: DataFrame, number: int) -> None:
        seen.append((number, numbers(frame)))
        if len(seen) == 1:
            raise RuntimeError("after the output was written")

    def start() -> Any:
        writer = streaming(spark, amqp, stream, **STREAM).writeStream.foreachBatch(keep)
        checkpoint = str(tmp_path / "checkpoint")
        return writer.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()

    with pytest.raises(Exception, match="after the output"):
        start().awaitTermination(60)
    amqp.publish(stream, numbered(50, first=100))
    start().awaitTermination(60)
    assert seen[0] == seen[1] == (0, list(range(100)))
    assert sorted(n for _, rows in seen[1:] for n in rows) == list(range(150))
