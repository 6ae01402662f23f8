"""Messages for the tests of format("amqp"): published and consumed with our own client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from sluicemq.client.address import Address
from sluicemq.client.blocking import BlockingClient, connect
from sluicemq.client.consuming import Subscription
from sluicemq.client.messages import (
    BasicProperties,
    body_of,
    content,
    properties_of,
    publish_frame,
)
from sluicemq.client.publishing import Publisher
from sluicemq.client.wire import Wire

WAIT_S = 300


class Broker:
    """What tests do to a broker beside Spark."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._made: list[str] = []

    def declare(self, name: str, **arguments: Any) -> str:
        """A durable queue, deleted at the end."""
        table = {key.replace("_", "-"): value for key, value in arguments.items()}
        with connect(self.url) as client:
            client.declare_queue(name, arguments=table)
        self._made.append(name)
        return name

    def publish(
        self,
        queue: str,
        bodies: Sequence[bytes],
        properties: BasicProperties | Sequence[BasicProperties] | None = None,
    ) -> None:
        """To a queue, confirmed; one set of properties for all, or one each."""
        wire = Wire(Address.parse(self.url), 240.0, "test publisher")
        publisher = Publisher(wire, 1000)
        given = properties or BasicProperties(delivery_mode=2)
        each = [given] * len(bodies) if isinstance(given, BasicProperties) else given
        method = publish_frame("", queue, True)
        publisher.publish(
            [
                method + content(one.encode(), body, wire.frame_max)
                for one, body in zip(each, bodies, strict=True)
            ]
        )
        publisher.settle()
        wire.close()

    def ready(self, queue: str, wanted: int | None = None) -> int:
        """Messages ready, after a while at most if another count is wanted."""
        deadline = time.monotonic() + 240
        while True:
            with connect(self.url) as client:
                counts = client.count_queue(queue)
            assert counts is not None
            if wanted in (None, counts.messages_ready) or time.monotonic() > deadline:
                return counts.messages_ready
            time.sleep(0.05)

    def take(self, queue: str, count: int) -> list[tuple[BasicProperties, bytes]]:
        """So many messages, acknowledged."""
        wire = Wire(Address.parse(self.url), 240.0, "test consumer")
        subscription = Subscription(wire, queue, min(count, 65_535))
        taken: list[tuple[BasicProperties, bytes]] = []
        deadline = time.monotonic() + 240
        while len(taken) < count and time.monotonic() < deadline:
            for event in subscription.poll(0.2):
                taken += [
                    (BasicProperties.decode(properties_of(each)), body_of(each))
                    for each in event.contents
                ]
                subscription.acknowledge(event.tags[0], event.tags[-1])
        wire.close()
        return taken

    def clear(self) -> None:
        """Delete what was declared."""
        with connect(self.url) as client:
            for name in self._made:
                client.delete_queue(name)

    def admin(self) -> BlockingClient:
        """For what is not here."""
        return connect(self.url)


def numbered(count: int, first: int = 0, size: int = 0) -> list[bytes]:
    """Bodies that say their number."""
    return [(b"%d" % n).ljust(size, b".") for n in range(first, first + count)]


def numbers(frame: DataFrame) -> list[int]:
    """What `numbered` bodies say, sorted."""
    rows = frame.selectExpr("cast(rtrim('.', cast(body as string)) as int) as n").collect()
    return sorted(row.n for row in rows)


def batch(spark: SparkSession, broker: Broker, queue: str, **options: Any) -> DataFrame:
    """A batch read."""
    reader: DataFrameReader = spark.read.format("amqp").option("uri", broker.url)
    return reader.options(**options).option("queue", queue).load()


def streaming(spark: SparkSession, broker: Broker, queue: str, **options: Any) -> DataFrame:
    """A streaming read."""
    reader: DataStreamReader = spark.readStream.format("amqp").option("uri", broker.url)
    return reader.options(**options).option("queue", queue).load()


class Files:
    """A streaming query into Parquet, run again and again on one checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def start(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.format("parquet").trigger(**trigger or {"availableNow": True})
        checkpoint = str(self.folder / "checkpoint")
        return writer.option("checkpointLocation", checkpoint).start(str(self.folder / "rows"))

    def run(self, frame: DataFrame) -> list[int]:
        """What is available now; rows of each batch."""
        query = self.start(frame)
        assert query.awaitTermination(WAIT_S)
        return [progress["numInputRows"] for progress in query.recentProgress]

    def rows(self) -> DataFrame:
        return self.spark.read.parquet(str(self.folder / "rows"))


@contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    """Stopped at the end; why it has failed is told with what it lacks then."""
    try:
        yield query
    except AssertionError as error:
        raise AssertionError(f"{error}; the query: {query.exception()}") from error
    finally:
        query.stop()
