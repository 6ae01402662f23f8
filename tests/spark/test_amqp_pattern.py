"""Goal: a query reads the queues its pattern stands for; one that comes into being is read, one
that is deleted ends nothing, and a checkpoint is understood whatever queues there are then.

Method: our own broker, with a small HTTP server beside it that lists its queues as RabbitMQ does; a
real RabbitMQ with its management plugin. A real Spark session.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluicemq.client.messages import BasicProperties
from sluicemq.spark.commits import Offset
from sluicemq.spark.options import Options
from sluicemq.spark.stream_planner import START, StreamPlanner
from spark.amqp_messages import Broker, Files, numbered, numbers, running
from spark.http_api import Server, item
from support.broker import Target
from support.thorough import only_thorough, thorough

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

WAIT_S = 240.0
ROOT = Path(__file__).resolve().parents[2]


class Listing:
    """Queues that are made and deleted where they are listed too. `pattern` matches them alone."""

    def __init__(self, broker: Broker, api: Server, name: str) -> None:
        self.broker = broker
        self.api = api
        self.name = name
        self.pattern = rf"{name}\..*"

    def make(self, part: str, *bodies: bytes) -> str:
        """A queue with these messages, the last part of whose name is given."""
        queue = self.broker.declare(f"{self.name}.{part}")
        self.broker.publish(queue, bodies)
        self.api.queues.append(item(queue))
        return queue

    def delete(self, part: str, *, is_listed: bool = False) -> None:
        """`is_listed`: the list does not know yet."""
        queue = f"{self.name}.{part}"
        with self.broker.admin() as admin:
            admin.delete_queue(queue)
        if not is_listed:
            self.api.queues = [each for each in self.api.queues if each["name"] != queue]

    def options(self, **more: str) -> dict[str, str]:
        pattern = {"uri": self.broker.url, "queuePattern": self.pattern}
        look = {"managementUrl": self.api.url, "discoveryInterval": "200"}
        return pattern | look | more

    def batch(self, spark: SparkSession, **more: str) -> DataFrame:
        given = self.options(**more)
        del given["discoveryInterval"]
        return spark.read.format("amqp").options(**given).load()

    def streaming(self, spark: SparkSession, **more: str) -> DataFrame:
        return spark.readStream.format("amqp").options(**self.options(**more)).load()


@pytest.fixture
def listing(amqp: Broker, name: str) -> Iterator[Listing]:
    with Server() as api:
        yield Listing(amqp, api, name)


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


class Rows:
    """What a query has handed to a sink, as numbers; of each, how often."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    def take(self, frame: DataFrame, _number: int) -> None:
        self.seen.update(numbers(frame))

    def wait_for(self, *wanted: range) -> None:
        all_of = {number for numbers in wanted for number in numbers}
        until(lambda: all_of <= set(self.seen), f"{len(all_of - set(self.seen))} rows are missing")


def test_a_batch_read_has_the_rows_of_all_that_match(spark: SparkSession, listing: Listing) -> None:
    listing.make("a", *numbered(5))
    listing.make("b", *numbered(5, first=5))
    other = listing.broker.declare(f"x{listing.name}.c")
    listing.broker.publish(other, numbered(1, first=99))
    listing.api.queues.append(item(other))
    found = listing.batch(spark)
    assert numbers(found) == list(range(10))
    assert found.groupBy("queue").count().collect() == [
        (f"{listing.name}.a", 5),
        (f"{listing.name}.b", 5),
    ]


def test_a_batch_read_of_nothing_names_the_option(spark: SparkSession, listing: Listing) -> None:
    words = "queuePattern = '.*': virtual host '/' has no queue whose whole name it matches"
    with pytest.raises(Exception, match=words):
        listing.batch(spark).collect()
    listing.make("a")
    listing.delete("a", is_listed=True)
    with pytest.raises(Exception, match=words):
        listing.batch(spark).collect()


def test_a_queue_that_goes_while_it_is_listed_is_not_read(
    spark: SparkSession, listing: Listing
) -> None:
    listing.make("a", *numbered(5))
    listing.make("b")
    listing.delete("b", is_listed=True)
    assert numbers(listing.batch(spark)) == list(range(5))


def test_a_queue_that_goes_before_its_task_comes_is_loss_if_it_had_messages(
    spark: SparkSession, listing: Listing
) -> None:
    """Spark has planned by then, and planned once."""
    listing.make("a", *numbered(5))
    listing.make("b", *numbered(5, first=5))
    found = listing.batch(spark)
    lenient = listing.batch(spark, failOnDataLoss="false")
    assert (found.count(), lenient.count()) == (10, 10)
    listing.delete("b")
    with pytest.raises(Exception, match=rf"queue '{listing.name}\.b': .*404"):
        found.count()
    assert lenient.count() == 5


@pytest.mark.parametrize("gather", thorough(["executors"], ["driver", "executors"]))
def test_a_query_reads_queues_that_come_and_outlives_those_that_go(
    spark: SparkSession, listing: Listing, tmp_path: Path, gather: str
) -> None:
    """It begins with none at all; each message comes once, for no connection is lost."""
    rows = Rows()
    frame = listing.streaming(spark, gather=gather, consumersPerQueue="2")
    writer = frame.writeStream.foreachBatch(rows.take)
    with running(writer.option("checkpointLocation", str(tmp_path / "c")).start()) as query:
        listing.make("a", *numbered(100))
        rows.wait_for(range(100))
        for number, part in enumerate("bcd", 1):
            listing.make(part, *numbered(100, first=100 * number))
        rows.wait_for(range(400))
        listing.delete("b")
        listing.broker.publish(f"{listing.name}.c", numbered(100, first=400))
        rows.wait_for(range(500))
        listing.make("b", *numbered(100, first=500))  # another one
        rows.wait_for(range(600))
        for part in "abcd":
            listing.delete(part)
        until(lambda: queues_in(query) == set(), "queues that are gone are still reported")
        listing.make("e", *numbered(100, first=600))
        rows.wait_for(range(700))
        until(lambda: queues_in(query) == {f"{listing.name}.e"}, "a queue is not reported")
        listing.broker.ready(f"{listing.name}.e", 0)
        assert query.isActive
    assert rows.seen == Counter(range(700))


@pytest.mark.parametrize("consumers", [1, 3])
def test_a_queue_that_goes_between_triggers_is_read_when_it_is_made_again(
    listing: Listing, consumers: int
) -> None:
    """The trigger after finds its consumers gone, all of whose messages are committed, at once. No
    Spark; one consumer is in the planner's process, three are in others."""
    given = listing.options(consumersPerQueue=str(consumers))
    listing.make("a", *numbered(10))
    session = StreamPlanner(Options.parse(given, "source"))
    try:
        end = planned(session, START, 10)
        listing.delete("a")
        until(
            lambda: all(each.is_gone for each in session._consumers),
            "consumers do not notice",
        )
        assert session.plan(end, 100) == end
        listing.make("a", *numbered(20))
        planned(session, end, 20)
    finally:
        session.close()


def planned(session: StreamPlanner, start: Offset, rows: int) -> Offset:
    """Where batches end that have so many rows together."""
    deadline = time.monotonic() + WAIT_S
    while rows > 0:
        assert time.monotonic() < deadline, f"{rows} rows are missing"
        end = session.plan(start, 100)
        rows -= sum(count for _, count in session.batch(start, end))
        start = end
    assert rows == 0
    return start


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def queues_in(query: Any) -> set[str] | None:
    """Those the query's last progress has figures of; None: there is no progress yet."""
    progress = query.lastProgress
    latest = progress and progress["sources"][0]["latestOffset"]
    if not latest:
        return None
    words = json.loads(latest) if isinstance(latest, str) else latest
    return set(words.get("queues", {}))


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


def test_a_checkpoint_is_understood_whatever_queues_there_are(
    spark: SparkSession, listing: Listing, files: Files
) -> None:
    """A run over what is available takes in what is there when it begins; none is no error."""
    assert files.run(listing.streaming(spark)) in ([], [0])
    listing.make("a", *numbered(10))
    listing.make("b", *numbered(10, first=10))
    files.run(listing.streaming(spark))
    listing.delete("b", is_listed=True)  # which the run has to find out
    listing.make("c", *numbered(10, first=20))
    listing.broker.publish(f"{listing.name}.a", numbered(10, first=30))
    files.run(listing.streaming(spark))
    assert numbers(files.rows()) == list(range(40))
    assert listing.broker.ready(f"{listing.name}.c", 0) == 0
    listing.delete("a")
    listing.delete("c")
    files.run(listing.streaming(spark))
    assert numbers(files.rows()) == list(range(40))


def test_a_batch_that_runs_again_without_its_queue_is_loss(
    spark: SparkSession, listing: Listing, tmp_path: Path
) -> None:
    """The others are read on when that is allowed."""
    for start, part in enumerate("ab"):
        listing.make(part)
        ids = [BasicProperties(message_id=f"{part}{n}") for n in range(10)]
        listing.broker.publish(f"{listing.name}.{part}", numbered(10, first=10 * start), ids)
    rows = Rows()

    def fail(_frame: DataFrame, _number: int) -> None:
        raise ValueError("after the output")

    def run(take: Callable[[DataFrame, int], None], **more: str) -> None:
        given = {"exactlyOnce": "true", "ledger": str(tmp_path / "ledger")} | more
        writer = listing.streaming(spark, **given).writeStream.foreachBatch(take)
        writer = writer.trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(WAIT_S)

    with pytest.raises(Exception, match="after the output"):
        run(fail)
    listing.delete("b")
    words = rf"messages of '{listing.name}\.b', which is not there or not read.*failOnDataLoss"
    with pytest.raises(Exception, match=words):
        run(rows.take)
    run(rows.take, failOnDataLoss="false")
    assert rows.seen == Counter(range(10))


@only_thorough
@pytest.mark.rabbitmq
@pytest.mark.timeout(600)
@pytest.mark.skipif(not shutil.which("rabbitmq-server"), reason="apt-get install rabbitmq-server")
def test_rabbitmq_lists_its_queues(spark: SparkSession, tmp_path: Path) -> None:
    """A real one: of each kind the right ones, with a user of its own, while queues come and go."""
    sys.path.append(str(ROOT / "bench"))
    import brokers  # noqa: PLC0415 - beside the package, only found now

    port, web = brokers.free_port(), brokers.free_port()
    settings = f"management.tcp.port = {web}", "management.tcp.ip = 127.0.0.1"
    plugins = ("rabbitmq_management",)
    with brokers.rabbitmq(port, tmp_path / "rabbitmq", *settings, plugins=plugins):
        until(lambda: listens(web), "the management plugin does not listen")
        rabbit = Broker(Target("127.0.0.1", port).url)
        rabbit.declare("o.classic")
        for kind in ("quorum", "stream"):
            rabbit.declare(f"o.{kind}", x_queue_type=kind)
        rabbit.declare("x.o.other")
        for queue, first in (("o.classic", 0), ("o.quorum", 10), ("x.o.other", 99)):
            rabbit.publish(queue, numbered(10, first=first))
        given = {
            "uri": rabbit.url,
            "queuePattern": r"o\..*",
            "managementUrl": f"http://127.0.0.1:{web}",
        }
        found = spark.read.format("amqp").options(**given).load()
        assert numbers(found) == list(range(20))
        with pytest.raises(Exception, match="does not let user 'guest' see virtual host '/': 401"):
            wrong = given | {"managementUrl": f"http://guest:secret@127.0.0.1:{web}"}
            spark.read.format("amqp").options(**wrong).load().collect()
        rows = Rows()
        frame = spark.readStream.format("amqp").options(discoveryInterval=200, **given).load()
        writer = frame.writeStream.foreachBatch(rows.take)
        with running(writer.option("checkpointLocation", str(tmp_path / "c")).start()) as query:
            rows.wait_for(range(20))
            with rabbit.admin() as admin:
                admin.delete_queue("o.classic")
            rabbit.declare("o.late", x_queue_type="quorum")
            rabbit.publish("o.late", numbered(10, first=20))
            rabbit.publish("o.quorum", numbered(10, first=30))
            rows.wait_for(range(40))
            assert query.isActive
        assert rows.seen == Counter(range(40))
