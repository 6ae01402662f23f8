"""Goal: rows have the same names by content however a batch is planned, equal ones as many as there
are.

Method: frames in different partitions, with maps; a streaming batch that runs again in other
partitions, into a real broker.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluicemq.errors import Refused
from sluicemq.spark.data_source import named
from spark.amqp_messages import Broker, running
from support.broker import Target

pytestmark = pytest.mark.spark

ROWS = 300
COLUMNS = (
    "string(id % 100) as body",
    "'k' as routing_key",
    "if(id % 2 = 0, map('a', '1', 'b', string(id % 5)), map('b', string(id % 5), 'a', '1'))"
    " as headers",
    "if(id % 7 = 0, null, timestamp_seconds(id % 100)) as timestamp",
    "boolean(id % 3 = 0) as redelivered",
)


def rows(spark: SparkSession, partitions: int) -> DataFrame:
    return spark.range(0, ROWS, numPartitions=partitions).selectExpr(*COLUMNS)


def names(frame: DataFrame) -> dict[str, tuple[object, ...]]:
    """What each stands for."""
    found = frame.collect()
    assert len({row.deduplication_id for row in found}) == len(found)
    return {
        row.deduplication_id: (bytes(row.body, "ascii"), row.timestamp, sorted(row.headers.items()))
        for row in found
    }


def test_names_do_not_depend_on_partitions(spark: SparkSession) -> None:
    found = [names(named(rows(spark, partitions), "job")) for partitions in (1, 7)]
    assert len(found[0]) == ROWS
    assert found[0] == found[1]
    assert all(name.startswith("job/") for name in found[0])
    shuffled = named(rows(spark, 3).repartition(5), "other")
    assert {name.replace("other/", "job/") for name in names(shuffled)} == set(found[0])


def test_what_is_written_must_be_said(spark: SparkSession) -> None:
    with pytest.raises(Refused, match="write: is missing"):
        named(rows(spark, 1))
    with pytest.raises(Refused, match="write: is for batch writes"):
        named(spark.readStream.format("rate").load(), "job")


def test_a_batch_that_runs_again_in_other_partitions_adds_nothing(
    spark: SparkSession, target: Target, amqp: Broker, name: str, tmp_path: Path
) -> None:
    """As after a driver that died between its output and its commit."""
    if not target.is_own:
        pytest.skip("RabbitMQ deduplicates with a plug-in only; runs without --broker-url")
    queue = amqp.declare(name, x_message_deduplication=True)
    texts = spark.range(0, ROWS, numPartitions=4).selectExpr(f"string(id % {ROWS // 3}) as body")
    texts.write.parquet(str(tmp_path / "rows"))
    for files in ("1", "4"):
        spark.conf.set("spark.sql.files.minPartitionNum", files)
        frame = named(spark.readStream.schema("body string").parquet(str(tmp_path / "rows")))
        writer = frame.writeStream.format("amqp").option("checkpointLocation", str(tmp_path / "c"))
        options = {"uri": amqp.url, "routingKey": queue, "deduplication": "column"}
        with running(writer.options(**options).trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(300)
        for each in ("0", ".0.crc"):
            (tmp_path / "c" / "commits" / each).unlink()
    spark.conf.unset("spark.sql.files.minPartitionNum")
    taken = amqp.take(queue, amqp.ready(queue))
    assert sorted(int(body) for _, body in taken) == sorted(n % (ROWS // 3) for n in range(ROWS))
    prefixes = {
        str((properties.headers or {})["x-deduplication-header"]) for properties, _ in taken
    }
    assert {prefix.rpartition("/")[0] for prefix in prefixes} == {f"{query.id}/0"}
