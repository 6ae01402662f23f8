"""Goal: streams are read exactly once by offset. Method: a real broker, a real Spark session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluicemq.client.session import ClosedByBrokerError
from spark.amqp_messages import Broker, Files, batch, numbered, numbers, streaming
from support.broker import Target

pytestmark = pytest.mark.spark

STREAM = {"queueType": "stream"}


SMALL = {"x_max_length_bytes": 60_000, "x_stream_max_segment_size_bytes": 20_000}
"""The oldest messages go soon."""


def declare(target: Target, amqp: Broker, name: str, **arguments: Any) -> str:
    """A stream; skipped where somebody else's broker knows none."""
    try:
        return amqp.declare(name, x_queue_type="stream", **arguments)
    except ClosedByBrokerError as closed:
        if target.is_own:
            raise
        pytest.skip(f"no streams: {closed}")


def outgrow(amqp: Broker, stream: str, numbered_from: int) -> None:
    """300 messages of 1000 octets, by and by: what comes at once is one piece for RabbitMQ, which
    goes as one."""
    for first in range(numbered_from, numbered_from + 300, 10):
        amqp.publish(stream, numbered(10, first=first, size=1000))


@pytest.fixture
def stream(target: Target, amqp: Broker, name: str) -> str:
    return declare(target, amqp, name)


@pytest.fixture
def small_stream(target: Target, amqp: Broker, name: str) -> str:
    return declare(target, amqp, name, **SMALL)


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


def test_a_stream_that_answers_late_is_not_taken_for_an_empty_one(
    spark: SparkSession, amqp: Broker, stream: str, tmp_path: Path
) -> None:
    """A millisecond is less than the first message takes."""
    hasty = {**STREAM, "pollTimeout": "1"}
    assert batch(spark, amqp, stream, **hasty).count() == 0
    amqp.publish(stream, numbered(3000))
    assert batch(spark, amqp, stream, **hasty, startingOffsets="first").count() == 3000
    time = "2020-01-01T00:00:00"
    assert batch(spark, amqp, stream, **hasty, startingOffsets=time).count() == 3000
    time = "2099-01-01T00:00:00"
    assert batch(spark, amqp, stream, **hasty, startingOffsets=time, timeout="500").count() == 0
    files = Files(spark, tmp_path)
    frame = streaming(spark, amqp, stream, **hasty, startingOffsets="first")
    assert sum(files.run(frame)) == 3000


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
        start().awaitTermination(300)
    amqp.publish(stream, numbered(50, first=100))
    start().awaitTermination(300)
    assert seen[0] == seen[1] == (0, list(range(100)))
    assert sorted(n for _, rows in seen[1:] for n in rows) == list(range(150))


def test_offsets_that_retention_took_are_an_error_or_passed_over(
    spark: SparkSession, amqp: Broker, small_stream: str, tmp_path: Path
) -> None:
    files = Files(spark, tmp_path)
    strict, lax = (
        streaming(spark, amqp, small_stream, **STREAM, failOnDataLoss=fails)
        for fails in ("true", "false")
    )
    amqp.publish(small_stream, numbered(20))
    files.run(strict)
    outgrow(amqp, small_stream, 20)
    with pytest.raises(Exception, match=f"queue '{small_stream}': offsets") as caught:
        files.run(strict)
    said = re.search(r"offsets (\d+) to (\d+) are gone by retention", str(caught.value))
    assert said is not None
    wanted, last_gone = map(int, said.groups())
    assert 20 <= wanted <= last_gone
    assert numbers(files.rows()) == list(range(20)), "nothing of the batch that failed"
    files.run(lax)
    found = numbers(files.rows())[20:]
    assert found == list(range(found[0], 320)), "from the oldest that is there"
    assert found[0] > 20
    amqp.publish(small_stream, numbered(5, first=320))
    files.run(strict)
    assert numbers(files.rows())[20:] == list(range(found[0], 325))


def test_a_batch_read_begins_where_retention_ends(
    spark: SparkSession, amqp: Broker, small_stream: str
) -> None:
    outgrow(amqp, small_stream, 0)
    found = numbers(batch(spark, amqp, small_stream, **STREAM))
    assert found == list(range(found[0], 300))
    assert 0 < found[0] < 300
    gone = {**STREAM, "startingOffsets": "0", "endingOffsets": "50"}
    with pytest.raises(Exception, match="offsets 0 to 49 are gone by retention"):
        batch(spark, amqp, small_stream, **gone, minPartitions="1").count()
    assert batch(spark, amqp, small_stream, **gone, failOnDataLoss="false").count() == 0


def test_a_stream_that_is_another_one_now_is_an_error_or_read_from_its_begin(
    spark: SparkSession, amqp: Broker, stream: str, tmp_path: Path
) -> None:
    """It was deleted, and made again with less in it than the checkpoint says was read."""
    files = Files(spark, tmp_path)
    strict, lax = (
        streaming(spark, amqp, stream, **STREAM, failOnDataLoss=fails)
        for fails in ("true", "false")
    )
    amqp.publish(stream, numbered(100))
    files.run(strict)
    with amqp.admin() as admin:
        admin.delete_queue(stream)
    amqp.declare(stream, x_queue_type="stream")
    amqp.publish(stream, numbered(10, first=100))
    with pytest.raises(Exception, match=f"queue '{stream}': ends at offset 10, before 100"):
        files.run(strict)
    files.run(lax)
    assert numbers(files.rows()) == list(range(110))
