"""Goal: rows become messages, confirmed, and what cannot be delivered is an error with its row.

Method: a real broker (RabbitMQ with --broker-url), a real Spark session.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.amqp_messages import Broker, running, streaming

pytestmark = pytest.mark.spark


def write(frame: DataFrame, amqp: Broker, **options: Any) -> None:
    frame.write.format("amqp").mode("append").option("uri", amqp.url).options(**options).save()


def test_every_row_arrives_with_headers_that_say_where_it_came_from(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    frame = spark.range(0, 5000, numPartitions=2).selectExpr("string(id) as body")
    write(frame, amqp, routingKey=name, writeId="job-1", maxInFlight="100")
    taken = amqp.take(name, 5000)
    assert sorted(int(body) for _, body in taken) == list(range(5000))
    headers = [properties.headers or {} for properties, _ in taken]
    assert {each["x-spark-query-id"] for each in headers} == {"job-1"}
    places = {(each["x-spark-partition"], each["x-spark-sequence"]) for each in headers}
    assert places == {(part, row) for part in (0, 1) for row in range(2500)}
    assert {properties.delivery_mode for properties, _ in taken} == {2}
    assert amqp.ready(name) == 0


def test_key_body_and_properties_come_from_columns(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    frame = spark.sql(
        f"""select 'one' as value, '{name}' as routing_key, 'm1' as message_id, 4 as priority,
        1 as delivery_mode, map('k', 'v') as headers, timestamp_seconds(1700000000) as timestamp,
        'text/plain' as content_type union all
        select '', '{name}', null, null, null, null, null, null"""
    )
    write(frame.coalesce(1), amqp, placeHeaders="false", mandatory="false")
    (first, one), (second, two) = amqp.take(name, 2)
    assert (one, two) == (b"one", b"")
    assert (first.message_id, first.priority, first.delivery_mode) == ("m1", 4, 1)
    assert (first.timestamp, first.content_type) == (1_700_000_000, "text/plain")
    assert first.headers == {"k": "v"}
    assert (second.message_id, second.headers, second.delivery_mode) == (None, None, 2)


def test_large_bodies_are_cut_into_frames(spark: SparkSession, amqp: Broker, name: str) -> None:
    amqp.declare(name)
    write(spark.range(3).selectExpr("repeat('x', 300000 + id) as body"), amqp, routingKey=name)
    assert sorted(len(body) for _, body in amqp.take(name, 3)) == [300000, 300001, 300002]


def test_a_message_no_queue_takes_is_an_error_that_names_its_row(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    frame = spark.range(10).selectExpr(
        "string(id) as body", f"if(id = 7, 'no-{name}', '{name}') as routing_key"
    )
    with pytest.raises(Exception, match=f"row 7 of partition 0.*no-{name}.*NO_ROUTE"):
        write(frame.coalesce(1), amqp)
    write(frame.coalesce(1), amqp, mandatory="false")


def test_rows_the_broker_does_not_take_become_dead_letters(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    """No queue takes the one, a full queue refuses the others; each says why and where it went."""
    dead = amqp.declare(f"{name}-dead")
    amqp.declare(name)
    full = amqp.declare(f"{name}-full", x_max_length=1, x_overflow="reject-publish")
    amqp.publish(full, [b"there"])
    frame = spark.range(10).selectExpr(
        "string(id) as body",
        f"case id when 7 then 'no-{name}' when 8 then '{full}' else '{name}' end as routing_key",
        "concat('m', id) as message_id",
        "map('colour', 'red') as headers",
    )
    write(frame, amqp, deadLetterRoutingKey=dead)
    assert sorted(int(body) for _, body in amqp.take(name, 8)) == [0, 1, 2, 3, 4, 5, 6, 9]
    letters = {int(body): properties for properties, body in amqp.take(dead, 2)}
    assert {number: letter.message_id for number, letter in letters.items()} == {7: "m7", 8: "m8"}
    returned, nacked = (letters[number].headers or {} for number in (7, 8))
    assert "312 NO_ROUTE" in str(returned["x-spark-refused"])
    assert "basic.nack" in str(nacked["x-spark-refused"])
    assert (returned["x-spark-exchange"], returned["x-spark-routing-key"]) == ("", f"no-{name}")
    assert nacked["x-spark-routing-key"] == full
    assert returned["colour"] == "red"
    assert (amqp.ready(name), amqp.ready(dead)) == (0, 0)


def test_dead_letters_that_nobody_takes_are_an_error_that_names_the_option(
    spark: SparkSession, amqp: Broker
) -> None:
    frame = spark.range(1).selectExpr("string(id) as body", "'nowhere' as routing_key")
    words = "deadLetterRoutingKey = 'neither': the broker returned it .* 312 NO_ROUTE"
    with pytest.raises(Exception, match=words):
        write(frame, amqp, deadLetterRoutingKey="neither")
    with pytest.raises(Exception, match=r"deadLetterExchange = 'missing': .* 404 NOT_FOUND"):
        write(frame, amqp, deadLetterExchange="missing")


def test_an_exchange_that_is_not_there_is_named(spark: SparkSession, amqp: Broker) -> None:
    frame = spark.range(3).selectExpr("string(id) as body")
    with pytest.raises(Exception, match=r"exchange 'missing'.*404 NOT_FOUND - no exchange"):
        write(frame, amqp, exchange="missing", routingKey="k")


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("string(id) as body", {}, "routingKey: is missing"),
        ("string(id) as text", {"routingKey": "k"}, "one named body"),
        ("id as body", {"routingKey": "k"}, "must be binary or string, not bigint"),
        ("'' as body, 1 as colour", {"routingKey": "k"}, "colour mean nothing to AMQP"),
        ("'' as body, 'x' as priority", {"routingKey": "k"}, "'priority' must be int, not string"),
        ("'' as body", {"routingKey": "k", "deduplication": "column"}, "no column"),
        (
            "'' as body, '' as deduplication_id",
            {"routingKey": "k"},
            "there is deduplication_id, and deduplication = 'none' makes no use of it",
        ),
        (
            "'' as body",
            {"routingKey": "k", "deduplication": "position"},
            "deduplication = 'position': must be one of none, column, content; position is no name",
        ),
        (
            "'' as body",
            {"routingKey": "k", "idempotencyHeaders": "true"},
            "no such option of format amqp; it is called placeHeaders now",
        ),
        (
            "'' as body",
            {"routingKey": "k", "mandatory": "false", "deadLetterExchange": "d"},
            "mandatory = false: drops rows that no queue takes",
        ),
        ("'' as body", {"routingKey": "k", "maxInFlight": "0"}, "maxInFlight = '0': must be"),
        ("'' as body", {"routingKey": "k", "prefetch": "1"}, "prefetch = '1': an option of the"),
    ],
)
def test_what_cannot_be_written_is_refused_with_a_reason(
    spark: SparkSession, amqp: Broker, columns: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        write(spark.range(1).selectExpr(*columns.split(", ")), amqp, **options)


def test_a_stream_flows_from_queue_to_exchange(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    target = amqp.declare(f"{name}-out")
    amqp.publish(name, [b"%d" % n for n in range(1000)])
    frame = streaming(spark, amqp, name).drop("routing_key")
    writer = frame.writeStream.format("amqp").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.options(uri=amqp.url, routingKey=target).trigger(availableNow=True).start()
    with running(query):
        assert query.awaitTermination(300)
    taken = amqp.take(target, 1000)
    assert sorted(int(body) for _, body in taken) == list(range(1000))
    headers = taken[0][0].headers or {}
    assert headers["x-spark-query-id"] == query.id
    assert isinstance(headers["x-spark-batch-id"], int)
    assert amqp.ready(name, 0) == 0
