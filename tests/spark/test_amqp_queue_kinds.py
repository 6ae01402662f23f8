"""Goal: a stream that is read as a queue is refused before a row of it is handed on, and a queue is
never taken for a stream.

Method: a real broker (RabbitMQ with --broker-url), a real Spark session; every way of reading.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluicemq.client.messages import BasicProperties
from sluicemq.client.session import ClosedByBrokerError
from spark.amqp_messages import Broker, Files, batch, numbered, numbers, running, streaming
from support.broker import Target

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PATIENT = {"timeout": "3600000"}
"""It must not take that to see that nothing comes."""

FORWARDED = BasicProperties(headers={"a": "b", "x-stream-offset": 2**40})
"""As of a message that somebody took out of a stream and published again."""


@pytest.fixture
def stream(target: Target, amqp: Broker, name: str) -> str:
    try:
        return amqp.declare(name, x_queue_type="stream")
    except ClosedByBrokerError as closed:
        if target.is_own:
            raise
        pytest.skip(f"no streams: {closed}")


def words(stream: str) -> str:
    return f"queue '{stream}': is a stream .*queueType = stream"


def collector(seen: list[int]) -> Callable[[DataFrame, int], None]:
    def collect(frame: DataFrame, _number: int) -> None:
        seen.extend(numbers(frame))

    return collect


@pytest.mark.parametrize("more", [{}, {"ackMode": "onRead"}, {"failOnDataLoss": "false"}])
def test_a_batch_read_refuses_a_stream(
    spark: SparkSession, amqp: Broker, stream: str, more: dict[str, str]
) -> None:
    amqp.publish(stream, numbered(100))
    with pytest.raises(Exception, match=words(stream)):
        batch(spark, amqp, stream, **PATIENT, **more).collect()


@pytest.mark.parametrize("more", [{}, {"failOnDataLoss": "false"}])
def test_a_query_over_what_is_available_refuses_a_stream(
    spark: SparkSession, amqp: Broker, stream: str, tmp_path: Path, more: dict[str, str]
) -> None:
    amqp.publish(stream, numbered(100))
    files = Files(spark, tmp_path)
    with pytest.raises(Exception, match=words(stream)):
        files.run(streaming(spark, amqp, stream, **PATIENT, **more))
    assert not list(tmp_path.glob("rows/*.parquet"))


@pytest.mark.parametrize("prefetch", ["100", "200000"])
def test_a_query_that_runs_refuses_a_stream_by_its_first_delivery(
    spark: SparkSession, amqp: Broker, stream: str, tmp_path: Path, prefetch: str
) -> None:
    """It was sent nothing of what was there: that alone is no sign."""
    amqp.publish(stream, numbered(100))
    seen: list[int] = []
    frame = streaming(spark, amqp, stream, prefetch=prefetch)
    writer = frame.writeStream.foreachBatch(collector(seen))
    with running(writer.option("checkpointLocation", str(tmp_path / "c")).start()) as query:
        query.processAllAvailable()
        amqp.publish(stream, numbered(100, first=100))
        with pytest.raises(Exception, match=words(stream)):
            query.awaitTermination(300)
    assert seen == []


def test_messages_that_were_in_a_stream_are_read_from_a_queue(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(100), FORWARDED)
    assert numbers(batch(spark, amqp, name)) == list(range(100))
    assert amqp.ready(name, 100) == 100
    files = Files(spark, tmp_path)
    files.run(streaming(spark, amqp, name))
    assert numbers(files.rows()) == list(range(100))
    (headers,) = files.rows().limit(1).select("headers").collect()
    assert headers.headers == {"a": "b", "x-stream-offset": str(2**40)}


def test_a_queue_that_is_empty_is_read_as_one(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    assert batch(spark, amqp, name).count() == 0
    assert Files(spark, tmp_path).run(streaming(spark, amqp, name)) in ([], [0])


def test_a_queue_that_is_read_as_a_stream_is_refused(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(10))
    with pytest.raises(Exception, match=f"queue '{name}': .*x-stream-offset"):
        batch(spark, amqp, name, queueType="stream").collect()
    assert amqp.ready(name, 10) == 10
