"""Goal: what goes wrong is one Spark exception that names the option, queue or broker.

Method: every mistake a user makes, against a real broker and against none.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.amqp_messages import Broker, batch, numbered, running, streaming

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prefetch": "many"}, "prefetch = 'many': must be a whole number from 1 to 10000000"),
        ({"prefetches": "1"}, "prefetches: there is no such option"),
        ({"uri": "http://me:secret@h/"}, r"uris: 'http://me:\.\.\.@h/' is not an AMQP URL"),
        ({"startingOffsets": "5"}, "startingOffsets = 5: needs queueType = stream"),
        ({"queueType": "stream", "startingOffsets": "soon"}, "startingOffsets = 'soon': must be"),
        ({"reconnectFor": "5 min"}, "reconnectFor = '5 min': must be a whole number from 0 to"),
        ({"exactlyOnce": "true"}, "exactlyOnce = true: needs ledger"),
        ({"uri": "amqps://h/", "cafile": "/no/such"}, "cafile = '/no/such' cannot be used"),
        ({"exchange": "x"}, "exchange = 'x': an option of the sink only"),
        ({"ackMode": "always"}, "ackMode = 'always': must be one of"),
    ],
)
def test_a_wrong_option_is_refused_when_it_is_given(
    spark: SparkSession, amqp: Broker, name: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words) as caught:
        batch(spark, amqp, name, **options)
    assert "secret" not in str(caught.value)


def test_a_missing_queue_is_named(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=f"queue = '{name}'.*has no such queue"):
        batch(spark, amqp, name).count()
    frame = streaming(spark, amqp, name)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with (
        running(writer.start()) as query,
        pytest.raises(Exception, match=f"queue '{name}'.*404 NOT_FOUND"),
    ):
        query.awaitTermination(300)


def test_wrong_credentials_are_not_tried_again(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    wrong = amqp.url.replace("guest:guest@", "guest:wrong@")
    with pytest.raises(Exception, match="403 ACCESS_REFUSED") as caught:
        batch(spark, amqp, name, uri=wrong).count()
    assert "(tried " not in str(caught.value)
    assert "wrong" not in str(caught.value)


def test_a_broker_that_is_not_there_is_tried_as_long_as_said(
    spark: SparkSession, amqp: Broker, name: str
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        uri = f"amqp://127.0.0.1:{probe.getsockname()[1]}/"
        words = r"cannot connect to .*refused.*\(tried \d+ times in [1-9][\d.]* s: reconnectFor\)"
        with pytest.raises(Exception, match=words):
            batch(spark, amqp, name, uri=uri, reconnectFor="1000", retryBackoff="1").count()


def test_the_next_address_is_tried(spark: SparkSession, amqp: Broker, name: str) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(3))
    reader = spark.read.format("amqp").option("uris", f"amqp://127.0.0.1:1/,{amqp.url}")
    assert reader.option("queue", name).option("retryBackoff", "1").load().count() == 3


def test_a_queue_that_is_deleted_ends_the_query(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(3))
    frame = streaming(spark, amqp, name, reconnectFor="1000")
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with running(writer.start()) as query:
        query.processAllAvailable()
        with amqp.admin() as admin:
            admin.delete_queue(name)
        with pytest.raises(Exception, match=f"queue '{name}'"):
            query.awaitTermination(300)


def test_messages_without_an_id_cannot_be_read_exactly_once(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(3))
    frame = streaming(spark, amqp, name, exactlyOnce="true", ledger=str(tmp_path / "ledger"))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    with running(writer.start()) as query, pytest.raises(Exception, match="has no message_id"):
        query.awaitTermination(300)
    assert amqp.ready(name, 3) == 3
