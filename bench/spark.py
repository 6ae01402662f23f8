"""Spark's source and sink against a plain pika loop and our own client, in one run.

    python bench/spark.py [--messages 1000000] [--rows 2000000] [--minutes 0]
                          [--flow 0] [--broker sluicemq|rabbitmq] [--tables REGEX]
                          [--conf NAME=VALUE]

Rows a second of 1 KiB bodies through one broker on loopback, best of `--repeats` runs of each case
in turn. The source reads a full queue or stream into Spark's `noop` sink; its rate is over the time
of the triggers that had rows, or over the whole batch query. `Spark alone` is a source whose rows
are ready in its tasks: what Spark costs by itself. The sink writes `--rows` rows into a queue that
keeps the last KEPT; its rate is over the whole query, and within its task from the first batch on.
`--minutes` adds a long run at a steady rate and shows what memory does; `--flow` so many seconds of
FLOW_RATE rows a second from a queue through Spark into another one, and how long each took.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final

import brokers
import pika
import pyarrow as pa
from history import keep
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from sluicemq.client.address import Address
from sluicemq.client.blocking import connect
from sluicemq.client.consuming import PREFETCH_MAX, Subscription
from sluicemq.client.messages import BasicProperties, Table, body_of, content, publish_frame
from sluicemq.client.publishing import Publisher
from sluicemq.client.wire import Wire
from sluicemq.spark.consumer_threads import CHUNK_ROWS_MAX
from sluicemq.spark.data_source import AmqpDataSource
from sluicemq.spark.option_declaration import Side
from sluicemq.spark.option_values import ROWS_PER_BATCH
from sluicemq.spark.options import Options
from sluicemq.spark.schema import columns_of
from sluicemq.spark.session import spark_session

QUEUE: Final = "bench"
BODY: Final = b"x" * 1024
STREAM: Final = "bench-stream"
WINDOW: Final = 2000
PIKA: Final = "pika loop"
PIKA_ROWS: Final = 20_000
STEADY_RATE: Final = 5000
FLOW_RATE: Final = 1000
FLOW_STEP_S: Final = 0.005
WARM_S: Final = 10.0
"""Of a flow, before it is measured: the JVM compiles."""
KEPT: Final = 50_000
"""Messages that a queue keeps of those that are written: its memory is the same all along."""
TIMING: Final = "timing"
PARTS: Final = (
    *("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets"),
    "triggerExecution",
)
"""Of the time of a trigger, as Spark calls them; the last is all of it."""


class TimedDataSource(AmqpDataSource):
    """The sink; the task writes into the file `timing` how long it took from its first batch on."""

    @classmethod
    def name(cls) -> str:
        return "amqp_timed"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return TimedWriter(super().writer(schema, overwrite), self.options[TIMING])

    def _options(self, side: Side) -> Options:
        return Options.parse({k: v for k, v in self.options.items() if k != TIMING}, side)


class TimedWriter(DataSourceArrowWriter):
    """See above."""

    def __init__(self, writer: DataSourceArrowWriter, timing: str) -> None:
        self.writer = writer
        self.timing = timing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        first = next(iterator)
        began = time.perf_counter()
        done = self.writer.write(chain((first,), iterator))
        Path(self.timing).write_text(f"{time.perf_counter() - began}")
        return done


class NothingDataSource(DataSource):
    """Reads rows that are ready, writes nothing: what Spark costs by itself."""

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def schema(self) -> str:
        return columns_of(include_properties=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(schema, int(self.options["rows"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return ReadyStreamReader(schema, int(self.options["rows"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return NothingWriter()


class NothingWriter(DataSourceArrowWriter):
    """See above."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class ReadyReader(DataSourceReader):
    """So many rows of 1 KiB bodies, in two tasks; each makes one chunk and gives it again."""

    def __init__(self, schema: StructType, rows: int) -> None:
        self._schema = schema
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // 2), InputPartition(self._rows - self._rows // 2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        chunk = self.chunk()
        left = partition.value
        while left > 0:
            yield chunk[:left]
            left -= len(chunk)

    def chunk(self) -> pa.RecordBatch:
        kinds = to_arrow_schema(self._schema, timezone="UTC")
        ready = {"body": BODY, "exchange": "", "routing_key": QUEUE, "redelivered": False}
        ready |= {"delivery_tag": 1, "queue": QUEUE, "delivery_mode": 1}
        columns = [pa.repeat(pa.scalar(ready.get(f.name), f.type), CHUNK_ROWS_MAX) for f in kinds]
        return pa.RecordBatch.from_arrays(columns, schema=kinds)


class ReadyStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The same as micro-batches."""

    def __init__(self, schema: StructType, rows: int) -> None:
        self._ready = ReadyReader(schema, rows)
        self._rows = rows

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name, and those below
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(ROWS_PER_BATCH)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"rows": min(start["rows"] + ROWS_PER_BATCH, self._rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return ReadyReader(StructType(), end["rows"] - start["rows"]).partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._ready.read(partition)


class Bench:
    """One broker, one Spark session; `kept`: all that the queue keeps of the messages."""

    def __init__(self, url: str, spark: SparkSession, messages: int, kept: int = 0) -> None:
        self.url = url
        self.spark = spark
        self.messages = messages
        self.arguments = {"x-max-length": kept} if kept else {}
        self.triggers: list[dict[str, int]] = []

    def fill(
        self,
        count: int,
        delivery_mode: int = 1,
        made: bool = False,
        queue: str = QUEUE,
        has_ids: bool = False,
    ) -> float:
        """Publish with our client; `made`: every message is encoded anew, as a sink must;
        `has_ids`: each has an id of 32 octets."""
        wire = Wire(Address.parse(self.url), 30.0, "bench fill")
        publisher = Publisher(wire, WINDOW)
        properties = BasicProperties(delivery_mode=delivery_mode).encode()
        method = publish_frame("", queue, False)
        message = method + content(properties, BODY, wire.frame_max)
        began = time.perf_counter()
        for at in range(0, count, 1000):
            some = min(1000, count - at)
            messages = [message] * some
            if made:
                messages = [method + content(properties, BODY, wire.frame_max) for _ in messages]
            if has_ids:
                ids = [BasicProperties(message_id=f"{n:032x}") for n in range(at, at + some)]
                messages = [method + content(i.encode(), BODY, wire.frame_max) for i in ids]
            publisher.publish(messages)
        publisher.settle()
        rate = count / (time.perf_counter() - began)
        wire.close()
        return rate

    def empty(self) -> None:
        with connect(self.url) as client:
            client.delete_queue(QUEUE)
            client.declare_queue(QUEUE, durable=False, arguments=self.arguments)

    # Reading

    def read_client(self) -> float:
        self.fill(self.messages)
        return self.consume(QUEUE, PREFETCH_MAX)

    def read_client_stream(self) -> float:
        self.fill_stream()
        return self.consume(STREAM, PREFETCH_MAX, {"x-stream-offset": "first"})

    def consume(self, queue: str, prefetch: int, arguments: Table | None = None) -> float:
        """Every message in hand as `bytes`, acknowledged."""
        wire = Wire(Address.parse(self.url), 30.0, "bench consumer")
        began = time.perf_counter()
        subscription = Subscription(wire, queue, prefetch, arguments=arguments)
        left = self.messages
        while left > 0:
            for event in subscription.poll(1.0):
                left -= len(event.contents)
                subscription.acknowledge(event.tags[0], event.tags[-1])
        rate = self.messages / (time.perf_counter() - began)
        wire.close()
        return rate

    def fill_stream(self) -> None:
        """Once: a stream keeps what is read."""
        with connect(self.url) as client:
            counts = client.count_queue(STREAM)
            if counts is None:
                client.declare_queue(STREAM, arguments={"x-queue-type": "stream"})
        if counts is None:
            self.fill(self.messages, 2, queue=STREAM)

    def read_pika(self) -> float:
        """An ack each 100."""
        self.fill(PIKA_ROWS)
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1000)
        began = time.perf_counter()
        for method, _, _ in channel.consume(QUEUE):
            if method.delivery_tag % 100 == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if method.delivery_tag == PIKA_ROWS:
                break
        rate = PIKA_ROWS / (time.perf_counter() - began)
        connection.close()
        return rate

    def read_spark(self, **options: Any) -> float:
        self.fill(self.messages)
        busy, rate = self.run(self.stream(**options))
        self.triggers += busy
        return rate

    def read_spark_once(self) -> float:
        self.fill(self.messages, has_ids=True)
        with tempfile.TemporaryDirectory() as ledger:
            once = {"exactlyOnce": "true", "ledger": ledger, "includeProperties": "false"}
            return self.run(self.stream(**once))[1]

    def stream(self, **options: Any) -> DataFrame:
        reader = self.spark.readStream.format("amqp").options(uri=self.url, **options)
        return reader.load(queue=QUEUE)

    def read_spark_stream(self, **options: Any) -> float:
        self.fill_stream()
        stream = self.spark.readStream.format("amqp").options(uri=self.url, **options)
        return self.run(stream.load(queue=STREAM, queueType="stream"))[1]

    def read_ready(self) -> float:
        self.spark.dataSource.register(NothingDataSource)
        return self.run(self.spark.readStream.format("nothing").load(rows=self.messages))[1]

    def run(self, frame: DataFrame) -> tuple[list[dict[str, int]], float]:
        """A query to the end of what there is: its triggers that had rows, ms, and its rate."""
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", checkpoint).start()
            query.awaitTermination()
            progress = query.recentProgress
        busy = [p["durationMs"] | {"rows": p["numInputRows"]} for p in progress]
        busy = [each for each in busy if each["rows"]]
        rows = sum(each["rows"] for each in busy)
        assert rows == self.messages, rows
        return busy, rows / sum(each["triggerExecution"] for each in busy) * 1000

    def read_spark_batch(self, **options: Any) -> float:
        self.fill(self.messages)
        reader = self.spark.read.format("amqp").options(uri=self.url, ackMode="onRead", **options)
        return self.run_batch(reader.load(queue=QUEUE))

    def read_ready_batch(self) -> float:
        self.spark.dataSource.register(NothingDataSource)
        return self.run_batch(self.spark.read.format("nothing").load(rows=self.messages))

    def run_batch(self, frame: DataFrame) -> float:
        """A batch query."""
        began = time.perf_counter()
        frame.write.format("noop").mode("append").save()
        return self.messages / (time.perf_counter() - began)

    # Writing

    def write_client(self) -> float:
        return self.fill(self.messages, made=True)

    def write_client_durable(self) -> float:
        self.make_durable()
        return self.fill(self.messages, delivery_mode=2, made=True)

    def write_spark_durable(self) -> float:
        self.make_durable()
        return self.write_spark(mode=2)

    def make_durable(self) -> None:
        with connect(self.url) as client:
            client.delete_queue(QUEUE)
            client.declare_queue(QUEUE, arguments=self.arguments)

    def write_pika(self) -> float:
        """Each message confirmed before the next."""
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        channel = connection.channel()
        channel.confirm_delivery()
        began = time.perf_counter()
        for _ in range(PIKA_ROWS):
            channel.basic_publish("", QUEUE, BODY)
        rate = PIKA_ROWS / (time.perf_counter() - began)
        connection.close()
        return rate

    def write_spark(self, tasks: int = 1, mode: int = 1, **options: Any) -> float:
        began = time.perf_counter()
        self.write("amqp", tasks, mode, uri=self.url, routingKey=QUEUE, **options)
        return self.messages / (time.perf_counter() - began)

    def write_within_task(self, **options: Any) -> float:
        self.spark.dataSource.register(TimedDataSource)
        with tempfile.NamedTemporaryFile("r") as timing:
            options |= {TIMING: timing.name, "uri": self.url, "routingKey": QUEUE}
            self.write("amqp_timed", **options)
            return self.messages / float(timing.read())

    def write_nothing(self) -> float:
        self.spark.dataSource.register(NothingDataSource)
        began = time.perf_counter()
        self.write("nothing")
        return self.messages / (time.perf_counter() - began)

    def write(self, kind: str, tasks: int = 1, mode: int = 1, **options: Any) -> None:
        rows = self.spark.range(0, self.messages, numPartitions=tasks)
        frame = rows.selectExpr("repeat('x', 1024) as body", f"{mode} as delivery_mode")
        writer = frame.write.format(kind).mode("append")
        writer.options(mandatory="false", **options).save()


def best(
    work: Callable[[], float], bench: Bench, repeats: int, rows: int
) -> tuple[float, dict[str, float]]:
    """The highest rate of several runs of `rows` rows, each on an empty queue; CPU time of all of
    them by program, us a row (filling the queue included)."""
    rates = []
    before = cpu_seconds()
    for _ in range(repeats):
        bench.empty()
        rates.append(work())
    spent = {"here": 0.0, "python": 0.0, "java": 0.0}
    for process, seconds in cpu_seconds().items():
        spent[process[0]] += (seconds - before.get(process, 0.0)) / (rows * repeats) * 1e6
    return max(rates), spent


def table(title: str, rows: dict[str, tuple[float, dict[str, float]]], raw: str) -> None:
    """Rates, what part of our client's each is, and CPU time."""
    print(f"\n| {title} | rows/s | of our client | us/row: this process | Spark's Python | JVM |")
    print("|---|---|---|---|---|---|")
    for name, (rate, cpu) in rows.items():
        us = {f"{kind}_us": spent for kind, spent in cpu.items()}
        keep("spark", f"{title}: {name}", rate=rate, of_client=rate / rows[raw][0], **us)
        spent = f"{cpu['here']:.2f} | {cpu['python']:.2f} | {cpu['java']:.2f}"
        print(f"| {name} | {rate:,.0f} | {rate / rows[raw][0]:.2f} | {spent} |")


def cpu_seconds() -> dict[tuple[str, int], float]:
    """User and system time so far, by kind and pid: this process, Spark's Python, the JVM."""
    found = {}
    tick = os.sysconf("SC_CLK_TCK")
    for pid, fields in family():
        kind = "java" if "(java)" in fields else "here" if pid == os.getpid() else "python"
        numbers = fields.rpartition(")")[2].split()
        found[kind, pid] = (int(numbers[11]) + int(numbers[12])) / tick
    return found


def family() -> Iterator[tuple[int, str]]:
    """This process and all below it but the broker: pid and what /proc/PID/stat says."""
    ours = {os.getpid()}
    for pid in sorted(int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text()
            command = Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            continue
        parent = int(fields.rpartition(")")[2].split()[1])
        if (pid in ours or parent in ours) and "sluicemq\0serve" not in command:
            ours.add(pid)
            yield pid, fields


def trigger_table(triggers: list[dict[str, int]]) -> None:
    """Medians of what a micro-batch costs beside its rows."""
    full = [t for t in triggers if t["rows"] >= ROWS_PER_BATCH // 2]
    print(
        f"\nA micro-batch of {statistics.median(t['rows'] for t in full):,.0f} rows, ms (median):"
    )
    for part in PARTS:
        print(f"  {part:18} {statistics.median(t.get(part, 0) for t in full):.0f}")


def resident_mib() -> dict[str, int]:
    """By program, of all processes below this one."""
    found = {"java": 0, "python": 0}
    for pid, fields in family():
        kind = "java" if "(java)" in fields else "python"
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            kib = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
            found[kind] += int(kib[0]) // 1024 if kib else 0
    return found


def long_run(bench: Bench, minutes: float) -> None:
    """A steady flow; memory of driver, planner and workers each tenth of the time."""
    bench.empty()
    stopping = threading.Event()

    def publish() -> None:
        wire = Wire(Address.parse(bench.url), 30.0, "bench steady")
        publisher = Publisher(wire, WINDOW)
        properties = BasicProperties(delivery_mode=1).encode()
        message = publish_frame("", QUEUE, False) + content(properties, BODY, wire.frame_max)
        while not stopping.wait(0.1):
            publisher.publish([message] * (STEADY_RATE // 10))
        wire.close()

    thread = threading.Thread(target=publish)
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = bench.stream().writeStream.format("noop").trigger(processingTime="1 second")
        query = writer.option("checkpointLocation", checkpoint).start()
        thread.start()
        rows = 0
        seen = -1
        print(f"\nMemory over {minutes:g} minutes at {STEADY_RATE:,} rows/s, MiB:")
        until = time.monotonic() + minutes * 60
        while time.monotonic() < until:
            time.sleep(min(minutes * 6, max(0.0, until - time.monotonic())))
            for progress in query.recentProgress:
                if progress["batchId"] > seen:
                    seen = progress["batchId"]
                    rows += progress["numInputRows"]
            left = (until - time.monotonic()) / 60
            print(f"  {minutes - left:5.1f} min {resident_mib()} batch {seen}", flush=True)
        stopping.set()
        thread.join()
        query.stop()
    print(f"  {rows:,} rows in the progress kept")


def flow(bench: Bench, seconds: float) -> None:
    """From a queue through Spark into another: milliseconds from the publisher to the consumer, by
    the clock both have."""
    bench.empty()
    target = f"{QUEUE}-out"
    with connect(bench.url) as client:
        client.declare_queue(target, durable=False)
    stopping = threading.Event()
    sent_and_took: list[tuple[float, float]] = []

    def consume() -> None:
        wire = Wire(Address.parse(bench.url), 30.0, "bench flow out")
        subscription = Subscription(wire, target, PREFETCH_MAX)
        while not stopping.is_set():
            for event in subscription.poll(0.1):
                now = time.time()
                sent = [float(body_of(each)[:20]) for each in event.contents]
                sent_and_took.extend((each, now - each) for each in sent)
                subscription.acknowledge(event.tags[0], event.tags[-1])
        wire.close()

    thread = threading.Thread(target=consume)
    with tempfile.TemporaryDirectory() as checkpoint:
        rows = bench.stream().drop("exchange", "routing_key")
        writer = rows.writeStream.format("amqp").options(uri=bench.url, routingKey=target)
        query = writer.option("checkpointLocation", checkpoint).start()
        thread.start()
        began = publish_times(bench.url, lambda: bool(sent_and_took), seconds)
        query.processAllAvailable()
        busy = [p for p in query.recentProgress if p["numInputRows"]][
            len(query.recentProgress) // 2 :
        ]
        query.stop()
        stopping.set()
        thread.join()
    took = sorted(took * 1000 for sent, took in sent_and_took if sent >= began)
    at = {name: round(took[int(len(took) * part)]) for name, part in (("p50", 0.5), ("p99", 0.99))}
    sizes = statistics.median(p["numInputRows"] for p in busy)
    print(f"\n{len(took):,} rows at {FLOW_RATE:,} a second, ms: {at}, max {took[-1]:.0f}")
    print(f"  a micro-batch of {sizes:,.0f} rows, ms (median):")
    for part in PARTS:
        print(f"  {part:18} {statistics.median(p['durationMs'].get(part, 0) for p in busy):.0f}")


def publish_times(url: str, is_through: Callable[[], bool], seconds: float) -> float:
    """At the rate, for so long after the first came through and a while; when that was over. Each
    message says when it was sent."""
    wire = Wire(Address.parse(url), 30.0, "bench flow in")
    publisher = Publisher(wire, WINDOW)
    properties = BasicProperties(delivery_mode=1).encode()
    method = publish_frame("", QUEUE, False)
    measured = 0.0
    at = time.time()
    while not measured or at < measured + seconds:
        due = int((time.time() - at) * FLOW_RATE)
        at += due / FLOW_RATE
        body = (b"%.6f" % time.time()).ljust(len(BODY))
        publisher.publish([method + content(properties, body, wire.frame_max)] * due)
        if not measured and is_through():
            measured = at + WARM_S
        time.sleep(FLOW_STEP_S)
    publisher.settle()
    wire.close()
    return measured


@contextmanager
def serving(kind: str, home: Path) -> Iterator[str]:
    """A broker; its URL."""
    port = brokers.free_port()
    start = brokers.rabbitmq if kind == "rabbitmq" else brokers.sluicemq
    with start(port, home):
        yield f"amqp://guest:guest@127.0.0.1:{port}/"


def arguments() -> argparse.Namespace:
    """What to do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--flow", type=float, default=0.0)
    parser.add_argument("--conf", action="append", default=[], help="of Spark, NAME=VALUE")
    parser.add_argument("--broker", choices=("sluicemq", "rabbitmq"), default="sluicemq")
    parser.add_argument("--tables", default="", help="those whose titles this is found in")
    return parser.parse_args()


def main() -> None:
    """Everything, in turn."""
    given = arguments()
    with (
        tempfile.TemporaryDirectory() as home,
        serving(given.broker, Path(home)) as url,
        spark_session("local[2]", "2g", 10**9) as spark,
    ):
        for name, _, value in (each.partition("=") for each in given.conf):
            spark.conf.set(name, value)
        bench = Bench(url, spark, given.messages)
        sink = Bench(url, spark, given.rows, KEPT)
        slim = {"includeProperties": "false"}
        reading = {
            PIKA: bench.read_pika,
            "our client": bench.read_client,
            "micro-batches of a queue": bench.read_spark,
            "the same, includeProperties = false": lambda: bench.read_spark(**slim),
            "the same, and exactlyOnce": bench.read_spark_once,
            "micro-batches, Spark alone": bench.read_ready,
            "batch read of a queue, 1 task": bench.read_spark_batch,
            "batch read, includeProperties = false": lambda: bench.read_spark_batch(**slim),
            "batch read, Spark alone, 2 tasks": bench.read_ready_batch,
        }
        streaming = {
            "our client": bench.read_client_stream,
            "micro-batches of a stream": bench.read_spark_stream,
        }
        plain = {"placeHeaders": "false"}
        writing = {
            PIKA: sink.write_pika,
            "our client, window 2000": sink.write_client,
            "Spark sink, 1 task": sink.write_spark,
            "Spark sink, 1 task, within the task": sink.write_within_task,
            "Spark sink, 2 tasks": lambda: sink.write_spark(2),
            "Spark sink, 1 task, no headers": lambda: sink.write_spark(**plain),
            "Spark, a writer of nothing, 1 task": sink.write_nothing,
        }
        durable = {
            "our client, window 2000": sink.write_client_durable,
            "Spark sink, 1 task": sink.write_spark_durable,
        }
        for title, one, cases, raw in (
            ("source", bench, reading, "our client"),
            ("source, stream", bench, streaming, "our client"),
            ("sink, transient", sink, writing, "our client, window 2000"),
            ("sink, durable and persistent", sink, durable, "our client, window 2000"),
        ):
            if not re.search(given.tables, title):
                continue
            found = {
                name: best(work, one, given.repeats, PIKA_ROWS if name == PIKA else one.messages)
                for name, work in cases.items()
            }
            table(title, found, raw)
            sys.stdout.flush()
        if bench.triggers:
            trigger_table(bench.triggers)
        if given.flow:
            flow(bench, given.flow)
        if given.minutes:
            long_run(bench, given.minutes)


if __name__ == "__main__":
    main()
