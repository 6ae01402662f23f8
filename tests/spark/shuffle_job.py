"""What `shuffles.py` has a standalone cluster do: writes behind shuffles whose tasks go wrong once.

    python -m spark.shuffle_job MASTER URL FOLDER DEDUPLICATION SCENARIO..

A scenario is `plan-way-mode-planning`, such as `join-executor-batch-adaptive`. Equal rows are among
those written, in several partitions. `FOLDER/outcomes.json` says what is in the queue after each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sluicemq.client.blocking import connect
from sluicemq.spark.session import start_session
from spark.amqp_messages import Broker

ROWS = 6000
DISTINCT = 3000
FILES = 9
FAILS_AT = 500
"""Row of a task, in the order in which the first attempt at it has them."""

WIDTH = 1000
"""Of a row that is written: then buffers of 64 KiB have gone on to the sink before FAILS_AT."""

PIECE_ROWS = 20
PARTITIONS = 3
SETTLES_S = 1.0
"""When the queue has not grown for so long, what was handed on is there."""

ARRIVES_S = 240.0
"""How long to wait for that."""

OVERTAKES_S = 300.0
"""How long a stalled attempt waits at most for a second one to overtake it."""

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.task.duration.threshold": "2s",
    "spark.task.maxFailures": "8",
    "spark.sql.shuffle.partitions": str(2 * PARTITIONS),
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(PIECE_ROWS),
    # A task a file, and each block fetched by itself: they come in any order.
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": str(FILES),
    "spark.reducer.maxBlocksInFlightPerAddress": "1",
    # So that adaptive execution merges partitions of these sizes, and not all of them.
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1k",
}

PLANS = "aggregation", "join", "repartition", "by-key", "sort"
WAYS = "executor", "python", "fails", "stalls"
MODES = "batch", "stream"
PLANNING = "adaptive", "fixed"


@dataclass
class Outcome:
    """What a scenario has come to."""

    wanted: int = 0
    lost: int = 0
    doubled: int = 0
    attempts: int = 0
    """That came as far as FAILS_AT in the partition that went wrong, with the one that did."""
    error: str = ""


def stumbling(way: str, marks: Path, url: str, queue: str) -> Callable[[str], str]:
    """The text at full width; the first task that comes to FAILS_AT goes wrong there, once, when
    much of it is in the queue."""
    rows: Counter[int] = Counter()

    def work(text: str) -> str:
        context = TaskContext.get()
        assert context is not None
        rows[context.taskAttemptId()] += 1
        if rows[context.taskAttemptId()] == FAILS_AT:
            mark = f"{context.partitionId()}-{context.taskAttemptId()}"
            (marks / f"came-{mark}").touch()
            try:
                (marks / "wrong").touch(exist_ok=False)
            except FileExistsError:
                return text.ljust(WIDTH, ".")
            (marks / f"wrong-{mark}").touch()
            await_arrival(url, queue)
            go_wrong(way, marks, context.partitionId())
        return text.ljust(WIDTH, ".")

    return work


def attempts(marks: Path) -> int:
    """How many there were at the partition that went wrong."""
    partitions = [mark.name.split("-")[1] for mark in marks.glob("wrong-*")]
    return sum(len(list(marks.glob(f"came-{partition}-*"))) for partition in partitions)


def await_arrival(url: str, queue: str) -> None:
    """Until messages are there, and no more come. Executors have our package, and no tests."""
    began = heard = time.monotonic()
    count = 0
    while not count or time.monotonic() - heard < SETTLES_S:
        assert time.monotonic() - began < ARRIVES_S, "nothing arrives, or no end of it"
        time.sleep(0.1)
        with connect(url) as client:
            counts = client.count_queue(queue)
        assert counts is not None
        if counts.messages_ready != count:
            count, heard = counts.messages_ready, time.monotonic()


def go_wrong(way: str, marks: Path, partition: int) -> None:
    """In the middle of a task."""
    if way == "fails":
        raise RuntimeError("the first attempt")
    if way == "stalls":
        end = time.monotonic() + OVERTAKES_S
        while len(list(marks.glob(f"came-{partition}-*"))) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(SETTLES_S)  # both write for a while
    if way == "python":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "executor":
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)


def planned(plan: str, rows: DataFrame, spark: SparkSession) -> DataFrame:
    """Rows of `text` behind a shuffle."""
    if plan == "aggregation":
        return rows.groupBy("n").count().selectExpr("concat(n, ':', count) as text")
    if plan == "join":
        other = spark.range(DISTINCT).selectExpr("string(id) as n", "string(id * 7) as more")
        joined = rows.join(other.hint("shuffle_hash"), "n")
        return joined.selectExpr("concat(n, ':', more) as text")
    texts = rows.selectExpr("n as text")
    if plan == "repartition":
        return texts.repartition(PARTITIONS)
    if plan == "by-key":
        return texts.repartition("text")
    assert plan == "sort"
    return texts.orderBy(f.length("text"), f.col("text").substr(-1, 1))  # ties come in any order


def expected(plan: str) -> Counter[str]:
    """What must be in the queue."""
    numbers = [n % DISTINCT for n in range(ROWS)]
    if plan == "aggregation":
        return Counter(f"{n}:{count}" for n, count in Counter(numbers).items())
    if plan == "join":
        return Counter(f"{n}:{7 * n}" for n in numbers)
    return Counter(map(str, numbers))


class Job:
    """Scenarios, one after the other."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, deduplication: str) -> None:
        self.spark = spark
        self.broker = Broker(url)
        self.folder = folder
        self.deduplication = deduplication
        self.rows = str(folder / "rows")
        numbers = spark.range(0, ROWS, numPartitions=FILES)
        numbers.selectExpr(f"string(id % {DISTINCT}) as n").write.parquet(self.rows)

    def run(self, scenario: str) -> Outcome:
        plan, way, mode, planning = scenario.rsplit("-", 3)
        marks = self.folder / scenario
        marks.mkdir()
        self.spark.conf.set("spark.sql.adaptive.enabled", str(planning == "adaptive").lower())
        queue = self.broker.declare(scenario, x_message_deduplication=True)
        self.spark.udf.register("stumbling", stumbling(way, marks, self.broker.url, queue))
        try:
            self.write(plan, mode, queue)
        except Exception as error:
            return Outcome(error=str(error)[-3000:])
        wanted, found = expected(plan), self.taken(queue)
        return Outcome(
            wanted=wanted.total(),
            lost=(wanted - found).total(),
            doubled=(found - wanted).total(),
            attempts=attempts(marks),
        )

    def write(self, plan: str, mode: str, queue: str) -> None:
        options = {
            "uri": self.broker.url,
            "routingKey": queue,
            "deduplication": self.deduplication,
        }
        if mode == "batch":
            frame = planned(plan, self.spark.read.parquet(self.rows), self.spark)
            writer = frame.selectExpr("stumbling(text) as body").write.format("amqp")
            writer.mode("append").options(**options).save()
            return
        rows = self.spark.readStream.schema("n string").parquet(self.rows)
        frame = planned(plan, rows, self.spark).selectExpr("stumbling(text) as body")
        streaming = frame.writeStream.format("amqp").options(**options).trigger(availableNow=True)
        streaming = streaming.outputMode("complete" if plan == "aggregation" else "append")
        checkpoint = str(self.folder / f"{queue}-checkpoint")
        streaming.option("checkpointLocation", checkpoint).start().awaitTermination()

    def taken(self, queue: str) -> Counter[str]:
        """All that is in a queue, once nobody writes there any more."""
        count = self.broker.ready(queue)
        while time.sleep(0.3) or count != (now := self.broker.ready(queue)):
            count = now
        return Counter(body.decode().rstrip(".") for _, body in self.broker.take(queue, count))


def run_all(
    spark: SparkSession, url: str, folder: Path, deduplication: str, scenarios: Sequence[str]
) -> None:
    job = Job(spark, url, folder, deduplication)
    found: dict[str, dict[str, object]] = {}
    for scenario in scenarios:
        began = time.monotonic()
        found[scenario] = asdict(job.run(scenario))
        print(f"{time.monotonic() - began:5.1f} s  {scenario}: {found[scenario]}", flush=True)
        (folder / "outcomes.json").write_text(json.dumps(found))
    job.broker.clear()


def main(arguments: list[str]) -> None:
    master, url, place, deduplication, *scenarios = arguments
    spark = start_session(master, "1g", settings=SETTINGS)
    run_all(spark, url, Path(place), deduplication, scenarios)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
