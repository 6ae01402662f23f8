"""What `test_amqp_attempts.py` has a standalone cluster do: tasks whose first attempt goes wrong.

A scenario runs with a first attempt that fails in the middle, or with one that stalls there until
Spark starts a second one beside it. `FOLDER/outcomes.json` says what came of each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from sluicemq.client.blocking import connect
from spark.amqp_messages import Broker, Files, batch, numbered, streaming

ROWS = 400
FAILS_AT = 120
"""In the first of two partitions."""

WIDTH = 4000
"""Of a row that is written: then buffers of 64 KiB have gone on to the sink before FAILS_AT."""

OVERTAKES_S = 300.0
"""How long a stalled attempt waits at most for a second one to come as far..."""

WRITES_S = 1.5
"""... and then until it goes on itself."""

STALL_S = 8.0
"""How long it stalls where a second one does not come so far."""

EXECUTOR_HOST = "127.0.0.2"

WAYS = "fails", "stalls"

SCENARIOS = (
    "source",
    "stream_source",
    "batch_never",
    "batch_on_read",
    "sink_at_least_once",
    "sink_once",
    "stream_to_sink_once",
)
"""Each is a method of Job."""


def number_of(text: str | bytes) -> int:
    """Of a row at full width."""
    return int(text.rstrip("." if isinstance(text, str) else b"."))  # type: ignore[arg-type]


@dataclass
class Outcome:
    """What a scenario has come to."""

    numbers: list[int] = field(default_factory=list)
    """That arrived, sorted."""
    attempts: list[int] = field(default_factory=list)
    """Of the task with FAILS_AT that came as far as that, sorted."""
    left: int = 0
    """In the queue that was read."""
    redelivered: int = 0
    error: str = ""


def stumbling(way: str, marks: Path) -> Callable[[bytes], str]:
    """The text of a body, at full width; the first attempt at the task with FAILS_AT goes wrong."""

    def work(body: bytes) -> str:
        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        if int(body) == FAILS_AT:
            (marks / str(attempt)).touch()
            if not attempt and way == "fails":
                raise RuntimeError("the first attempt")
            if not attempt and marks.name.startswith("batch_on_read"):
                time.sleep(STALL_S)
            elif not attempt:
                end = time.monotonic() + OVERTAKES_S
                while len(list(marks.iterdir())) < 2 and time.monotonic() < end:
                    time.sleep(0.1)
                time.sleep(WRITES_S)
        return body.decode().ljust(WIDTH, ".")

    return work


class Job:
    """Runs scenarios, named `scenario-way`."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self.spark = spark
        self.broker = Broker(url)
        self.folder = folder
        with connect(url) as client:
            self.is_own = client.product == "SluiceMQ"

    def run(self, names: Sequence[str]) -> dict[str, Outcome]:
        found: dict[str, Outcome] = {}
        for name in names:
            scenario, way = name.split("-")
            assert scenario in SCENARIOS
            self.marks = self.folder / "marks" / name
            self.marks.mkdir(parents=True)
            self.spark.udf.register("stumbling", stumbling(way, self.marks))
            try:
                outcome = getattr(self, scenario)(name)
            except Exception as error:
                outcome = Outcome(error=str(error))
            outcome.attempts = sorted(int(mark.name) for mark in self.marks.iterdir())
            found[name] = outcome
        found["unreachable"] = self.unreachable()
        self.broker.clear()
        return found

    def source(self, name: str) -> Outcome:
        """A queue, streaming; executors fetch from an address that is theirs."""
        queue = self.broker.declare(name)
        self.broker.publish(queue, numbered(ROWS))
        options = {"transferHost": EXECUTOR_HOST, "consumersPerQueue": "2"}
        outcome = self.to_files(name, streaming(self.spark, self.broker, queue, **options))
        outcome.left = self.broker.ready(queue, 0)
        return outcome

    def stream_source(self, name: str) -> Outcome:
        """A stream, streaming."""
        queue = self.broker.declare(name, x_queue_type="stream")
        self.broker.publish(queue, numbered(ROWS))
        return self.to_files(name, streaming(self.spark, self.broker, queue, queueType="stream"))

    def to_files(self, name: str, frame: DataFrame) -> Outcome:
        files = Files(self.spark, self.folder / name)
        files.run(frame.selectExpr("stumbling(body) as body", "redelivered"))
        rows = files.rows().collect()
        outcome = Outcome(sorted(number_of(row.body) for row in rows))
        outcome.redelivered = sum(row.redelivered for row in rows)
        return outcome

    def batch_never(self, name: str) -> Outcome:
        return self.batch(name, ROWS, ackMode="never")

    def batch_on_read(self, name: str) -> Outcome:
        return self.batch(name, 0, ackMode="onRead")

    def batch(self, name: str, left: int, **options: str) -> Outcome:
        """A batch read of a queue."""
        queue = self.broker.declare(name)
        self.broker.publish(queue, numbered(ROWS))
        frame = batch(self.spark, self.broker, queue, **options)
        rows = frame.selectExpr("stumbling(body) as body").collect()
        return Outcome(
            sorted(number_of(row.body) for row in rows), left=self.broker.ready(queue, left)
        )

    def sink_at_least_once(self, name: str) -> Outcome:
        return self.write(self.broker.declare(name))

    def sink_once(self, name: str) -> Outcome:
        """On a queue that deduplicates."""
        queue = self.broker.declare(name, x_message_deduplication=True)
        return self.write(queue, deduplication="content")

    def write(self, queue: str, **options: str) -> Outcome:
        ids = self.spark.range(0, ROWS, numPartitions=2).selectExpr("string(id) as id")
        frame = ids.selectExpr("stumbling(encode(id, 'utf-8')) as body")
        writer = frame.write.format("amqp").mode("append").option("uri", self.broker.url)
        writer.options(routingKey=queue, **options).save()
        return self.taken(queue)

    def stream_to_sink_once(self, name: str) -> Outcome:
        """A stream, streaming, to a queue that deduplicates."""
        stream = self.broker.declare(f"{name}-in", x_queue_type="stream")
        queue = self.broker.declare(name, x_message_deduplication=True)
        self.broker.publish(stream, numbered(ROWS))
        frame = streaming(self.spark, self.broker, stream, queueType="stream")
        writer = frame.selectExpr("stumbling(body) as body").writeStream.format("amqp")
        writer = writer.options(uri=self.broker.url, routingKey=queue, deduplication="content")
        checkpoint = str(self.folder / name / "checkpoint")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination(300)
        return self.taken(queue)

    def taken(self, queue: str) -> Outcome:
        """All that is in a queue, once nobody writes there any more."""
        count = self.broker.ready(queue)
        while time.sleep(0.5) or count != (now := self.broker.ready(queue)):
            count = now
        return Outcome(sorted(number_of(body) for _, body in self.broker.take(queue, count)))

    def unreachable(self) -> Outcome:
        """A `transferHost` that is none of the driver's."""
        queue = self.broker.declare("unreachable")
        self.broker.publish(queue, numbered(1))
        frame = streaming(self.spark, self.broker, queue, transferHost="203.0.113.7")
        try:
            return self.to_files("unreachable", frame)
        except Exception as error:
            return Outcome(error=str(error), left=self.broker.ready(queue, 1))


def run_all(spark: SparkSession, url: str, folder: Path, names: Sequence[str]) -> None:
    outcomes = Job(spark, url, folder).run(names)
    found = {name: asdict(outcome) for name, outcome in outcomes.items()}
    (folder / "outcomes.json").write_text(json.dumps(found))
