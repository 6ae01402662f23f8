"""Goal: messages of queues become rows, once where nothing fails, and go when they are safe.

Method: a real broker (RabbitMQ with --broker-url), a real Spark session.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from sluicemq.client.messages import BasicProperties, Timestamp
from sluicemq.spark.batch import QueueBatchReader
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.options import Options
from spark.amqp_messages import (
    WAIT_S,
    Broker,
    Files,
    batch,
    numbered,
    numbers,
    running,
    streaming,
)

pytestmark = pytest.mark.spark

ALL = BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"n": 7, "text": "é", "yes": True, "deep": {"a": [1, "b"]}, "t": Timestamp(5)},
    delivery_mode=2,
    priority=3,
    correlation_id="c",
    reply_to="r",
    expiration="3600000",
    message_id="m-1",
    timestamp=1_700_000_000,
    type="order",
    user_id="guest",
    app_id="app",
)


def test_a_message_is_a_row_with_all_its_properties(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    amqp.publish(name, [b"\0body"], ALL)
    (row,) = batch(spark, amqp, name).collect()
    assert bytes(row.body) == b"\0body"
    assert (row.exchange, row.routing_key, row.queue) == ("", name, name)
    assert (row.redelivered, row.delivery_tag, row.offset) == (False, 1, None)
    assert row.headers == {
        "n": "7", "text": "é", "yes": "true", "deep": '{"a": [1, "b"]}', "t": "5",
    }  # fmt: skip
    assert row.timestamp.timestamp() == 1_700_000_000
    for field in ("content_type", "delivery_mode", "priority", "message_id", "type", "app_id"):
        assert row[field] == getattr(ALL, field)
    assert row.cluster_id is None


def test_bodies_and_properties_of_all_sizes_come_unchanged(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    bodies = [b"", b"x", b"y" * 1000, b"z" * 300_000, b"", b"\xff" * 131_064]
    ids = [BasicProperties(message_id=text) for text in ("a", "bb", "", "ccc", "a", "é")]
    amqp.publish(name, bodies, ids)
    rows = batch(spark, amqp, name, minPartitions="1").select("body", "message_id").collect()
    assert [bytes(row.body) for row in rows] == bodies
    assert [row.message_id for row in rows] == [each.message_id for each in ids]


def test_a_batch_read_leaves_the_queue_as_it_was_or_empties_it(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(5000))
    assert numbers(batch(spark, amqp, name)) == list(range(5000))
    assert amqp.ready(name, 5000) == 5000
    assert batch(spark, amqp, name, maxMessagesPerBatch="10").count() == 10
    assert amqp.ready(name, 5000) == 5000
    assert numbers(batch(spark, amqp, name, ackMode="onRead")) == list(range(5000))
    assert amqp.ready(name, 0) == 0
    assert batch(spark, amqp, name).count() == 0


def test_a_frame_that_is_used_again_reads_what_is_there_then(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    looking = batch(spark, amqp, name)
    taking = batch(spark, amqp, name, ackMode="onRead")
    assert looking.count() == 0
    amqp.publish(name, numbered(3))
    assert (looking.count(), taking.count(), taking.count()) == (3, 3, 0)
    amqp.publish(name, numbered(5))
    assert (looking.count(), taking.count(), looking.count()) == (5, 5, 0)


def test_a_task_that_runs_again_says_that_its_messages_are_gone(
    amqp: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has acknowledged and failed then; where nothing is acknowledged nothing is gone."""
    amqp.declare(name)
    amqp.publish(name, numbered(3))
    given = {"uri": amqp.url, "queue": name}
    schema = StructType([StructField("body", BinaryType())])
    looking = QueueBatchReader(Options.parse(given, "source"), schema)
    taking = QueueBatchReader(Options.parse(given | {"ackMode": "onRead"}, "source"), schema)
    (planned,) = taking.partitions()
    assert sum(map(len, taking.read(planned))) == 3
    monkeypatch.setattr("sluicemq.spark.batch.attempt_number", lambda: 1)
    assert list(looking.read(planned)) == []
    with pytest.raises(AmqpError, match=f"'{name}': has 0 messages for a task that runs again"):
        list(taking.read(planned))


def test_a_second_attempt_waits_for_what_the_first_one_has(amqp: Broker, name: str) -> None:
    """All messages are out when it begins: that is no empty queue."""
    amqp.declare(name)
    amqp.publish(name, numbered(5000))
    given = Options.parse({"uri": amqp.url, "queue": name, "retryBackoff": "10"}, "source")
    reader = QueueBatchReader(given, StructType([StructField("body", BinaryType())]))
    (planned,) = reader.partitions()
    first = cast(Generator[object], reader.read(planned))
    next(first)
    assert amqp.ready(name, 0) == 0
    with ThreadPoolExecutor() as pool:
        second = pool.submit(lambda: sum(map(len, reader.read(planned))))
        with pytest.raises(TimeoutError):
            second.result(0.5)
        first.close()
        assert second.result(60) == 5000


def test_only_the_columns_asked_for_are_made(spark: SparkSession, amqp: Broker, name: str) -> None:
    amqp.declare(name)
    amqp.publish(name, [b"1"], ALL)
    assert "headers" not in batch(spark, amqp, name, includeProperties="false").columns
    reader = spark.read.format("amqp").schema("message_id string, body binary, timestamp timestamp")
    (row,) = reader.load(uri=amqp.url, queue=name).collect()
    assert (row.message_id, bytes(row.body)) == ("m-1", b"1")
    assert row.timestamp == datetime.fromtimestamp(1_700_000_000, UTC).replace(tzinfo=None)


def test_what_is_available_comes_once_and_is_acknowledged(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    second = amqp.declare(f"{name}-2")
    amqp.declare(name)
    amqp.publish(name, numbered(3000))
    amqp.publish(second, numbered(1000, first=3000))
    files = Files(spark, tmp_path)
    reader = spark.readStream.format("amqp").option("queues", f"{name},{second}")
    frame = reader.options(uri=amqp.url, maxMessagesPerBatch="1000", consumersPerQueue="2").load()
    sizes = files.run(frame)
    assert max(sizes) <= 1000
    assert numbers(files.rows()) == list(range(4000))
    assert files.rows().where("redelivered").count() == 0
    assert (amqp.ready(name, 0), amqp.ready(second, 0)) == (0, 0)
    amqp.publish(name, numbered(10, first=4000))
    files.run(frame)
    assert numbers(files.rows()) == list(range(4010))
    assert files.run(frame) in ([], [0])


def test_nothing_beyond_the_prefetch_leaves_the_broker(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    """Back pressure: a query that does not get on holds its prefetch, no more."""
    amqp.declare(name)
    amqp.publish(name, numbered(500))
    gate = tmp_path / "gate"

    def wait_for_gate(_frame: DataFrame, _number: int) -> None:
        while not gate.exists():
            time.sleep(0.05)

    frame = streaming(spark, amqp, name, prefetch="100", maxMessagesPerBatch="50")
    writer = frame.writeStream.foreachBatch(wait_for_gate)
    checkpoint = str(tmp_path / "checkpoint")
    with running(writer.option("checkpointLocation", checkpoint).start()) as query:
        assert amqp.ready(name, 400) == 400
        time.sleep(0.5)
        assert amqp.ready(name) == 400
        gate.touch()
        query.processAllAvailable()
        assert amqp.ready(name, 0) == 0


def test_a_failed_batch_comes_again_flagged(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(100))
    seen: list[tuple[int, bool]] = []

    def fail(_frame: DataFrame, _number: int) -> None:
        raise RuntimeError("no disk left")

    def keep(frame: DataFrame, _number: int) -> None:
        rows = frame.selectExpr("int(string(body)) as n", "redelivered").collect()
        seen.extend((row.n, row.redelivered) for row in rows)

    for work in (fail, keep):
        frame = streaming(spark, amqp, name)
        writer = frame.writeStream.foreachBatch(work).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        if work is fail:
            with pytest.raises(Exception, match="no disk left"):
                query.awaitTermination(300)
            assert amqp.ready(name, 100) == 100
        else:
            query.awaitTermination(300)
    assert sorted(seen) == [(n, True) for n in range(100)]
    assert amqp.ready(name, 0) == 0


def test_a_query_that_runs_on_takes_what_comes(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    files = Files(spark, tmp_path)
    frame = streaming(spark, amqp, name)
    with running(files.start(frame, processingTime="200 milliseconds")) as query:
        for first in (0, 100, 200):
            amqp.publish(name, numbered(100, first))
            query.processAllAvailable()
        deadline = time.monotonic() + WAIT_S
        while files.rows().count() < 300 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert amqp.ready(name, 0) == 0
    assert numbers(files.rows()) == list(range(300))


def test_exactly_once_drops_what_comes_twice(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    ids = [BasicProperties(message_id=f"m{n % 50}") for n in range(100)]
    amqp.publish(name, numbered(100), ids)
    files = Files(spark, tmp_path)
    options = {"exactlyOnce": "true", "ledger": str(tmp_path / "ledger")}
    frame = streaming(spark, amqp, name, **options)
    files.run(frame)
    assert numbers(files.rows()) == list(range(50))
    amqp.publish(name, numbered(60), ids[:60])
    amqp.publish(name, [b"1000"], BasicProperties(message_id="new"))
    files.run(frame)
    assert numbers(files.rows()) == [*range(50), 1000]
    assert amqp.ready(name, 0) == 0


def test_exactly_once_replays_the_batch_that_failed(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    """The batch that was planned and not committed has the same rows when it runs again, though
    more came in between."""
    amqp.declare(name)
    ids = [BasicProperties(message_id=f"m{n}") for n in range(300)]
    amqp.publish(name, numbered(100), ids[:100])
    batches: list[tuple[int, list[int]]] = []
    failing = True

    def keep(frame: DataFrame, number: int) -> None:
        rows = frame.selectExpr("int(string(body)) as n").collect()
        batches.append((number, sorted(row.n for row in rows)))
        if failing:
            raise RuntimeError("after the output was written")

    options = {"exactlyOnce": "true", "ledger": str(tmp_path / "ledger")}
    for _ in range(2):
        writer = streaming(spark, amqp, name, **options).writeStream.foreachBatch(keep)
        query = (
            writer.trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        if failing:
            with pytest.raises(Exception, match="after the output"):
                query.awaitTermination(300)
            amqp.publish(name, numbered(200, first=100), ids[100:])
            failing = False
        else:
            query.awaitTermination(300)
    (first, rows), *later = batches
    assert rows
    assert later[0] == (first, rows)
    assert sorted(n for _, found in later for n in found) == list(range(300))
