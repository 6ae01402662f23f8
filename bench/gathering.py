"""Gathering from 1, 4 and 20 queues: our own client, the driver, executors. And what it comes to.

    python bench/gathering.py [--messages 400000] [--executors 2] [--cases REGEX] [--tls]

Messages of 1 KiB, spread evenly over the queues of one broker on loopback, into Spark's `noop`
sink. Broker, gatherers, tasks and JVMs share the machine's cores, so a rate is what all of them
together reach; CPU time a row says what each costs, wherever it runs. The last table has the
planner's own cost with so many processes that gather (they have no broker and only report), which a
model needs for more executors than a machine has.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import socket
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import brokers
from history import keep
from pyspark.sql import SparkSession

from sluicemq.client.address import Address
from sluicemq.client.blocking import connect
from sluicemq.client.consuming import PREFETCH_MAX, Subscription
from sluicemq.client.messages import BasicProperties, content, publish_frame
from sluicemq.client.publishing import Publisher
from sluicemq.client.wire import Wire
from sluicemq.spark.consumer_groups import PlannedConsumer
from sluicemq.spark.data_source import AmqpDataSource
from sluicemq.spark.planner_link import PlannerLink
from sluicemq.spark.remote_groups import RemoteGroup
from sluicemq.spark.session import start_session
from sluicemq.spark.transfer import Endpoint

QUEUES: Final = (1, 4, 20)
BODY: Final = b"x" * 1024
MARK: Final = "BENCH_MARK"
TICKS: Final = os.sysconf("SC_CLK_TCK")
SAMPLE_S: Final = 0.2
ROLES: Final = {
    "gatherers": "sluicemq.spark.gatherer",
    "planner": "python_streaming_source_runner",
    "tasks": "pyspark.daemon",
    "JVM": "java",
    "broker": "sluicemq",
}
"""What the command line of each has in it; the first that fits counts."""

TASK_ROWS: Final = 2048
PROCESSES: Final = (1, 10, 100)


class Meter(threading.Thread):
    """CPU seconds by role, of all processes that were started by this one."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self._mark = f"{MARK}={mark}".encode()
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._roles: dict[int, str] = {}
        self._stopping = threading.Event()
        self._look()
        self._first = dict(self._last)

    def run(self) -> None:
        while not self._stopping.wait(SAMPLE_S):
            self._look()

    def stop(self) -> dict[str, float]:
        """Since it was made."""
        self._stopping.set()
        self.join()
        self._look()
        found: dict[str, float] = defaultdict(float)
        for pid, seconds in self._last.items():
            found[self._roles[pid]] += seconds - self._first.get(pid, 0.0)
        return found

    def _look(self) -> None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    self._note(int(entry.name), entry)

    def _note(self, pid: int, entry: Path) -> None:
        if pid not in self._roles:
            ours = self._mark in (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_text()
            roles = (role for role, word in ROLES.items() if word in command)
            self._roles[pid] = next(roles, "client") if ours else ""
        if not self._roles[pid]:
            return
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        self._last[pid] = (int(fields[11]) + int(fields[12])) / TICKS


def names(queues: int) -> list[str]:
    return [f"bench{number}" for number in range(queues)]


def fill(url: str, queues: int, messages: int) -> int:
    """How many there are then."""
    each = messages // queues
    with connect(url) as client:
        for queue in names(max(QUEUES)):
            client.delete_queue(queue)
        for queue in names(queues):
            client.declare_queue(queue, durable=False)
    wire = Wire(Address.parse(url), 60.0, "bench fill")
    publisher = Publisher(wire, 2000)
    frames = content(BasicProperties(delivery_mode=1).encode(), BODY, wire.frame_max)
    for queue in names(queues):
        message = publish_frame("", queue, False) + frames
        for at in range(0, each, 1000):
            publisher.publish([message] * min(1000, each - at))
    publisher.settle()
    wire.close()
    return each * queues


def read_client(url: str, queues: int, rows: int) -> float:
    """Seconds until one process had all of them as `bytes`, a queue after the other."""
    began = time.perf_counter()
    for queue in names(queues):
        wire = Wire(Address.parse(url), 60.0, "bench client")
        subscription = Subscription(wire, queue, PREFETCH_MAX)
        left = rows // queues
        while left > 0:
            for event in subscription.poll(1.0):
                left -= len(event.contents)
                subscription.acknowledge(event.tags[0], event.tags[-1])
        wire.close()
    return time.perf_counter() - began


def read_spark(spark: SparkSession, url: str, queues: int, rows: int, options: Any) -> float:
    """Seconds of the triggers that had rows."""
    reader = spark.readStream.format("amqp").options(uri=url, includeProperties="false", **options)
    frame = reader.load(queues=",".join(names(queues)))
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", checkpoint).start()
        query.awaitTermination()
        busy = [each for each in query.recentProgress if each["numInputRows"]]
    assert sum(each["numInputRows"] for each in busy) == rows
    return float(sum(each["durationMs"]["triggerExecution"] for each in busy)) / 1000


def line(name: str, queues: int, rows: int, seconds: float, cpu: dict[str, float]) -> None:
    roles = ("client", "planner", "gatherers", "tasks", "JVM", "broker")
    costs = " | ".join(f"{cpu.get(role, 0.0) / rows * 1e6:.2f}" for role in roles)
    us = {f"{role.lower()}_us": spent / rows * 1e6 for role, spent in cpu.items()}
    keep("gathering", f"{name}, {queues} queues", rate=rows / seconds, **us)
    print(f"| {name} | {queues} | {rows / seconds:,.0f} | {costs} |", flush=True)


def spark_cases(master: str, url: str, given: Any, mark: str, cases: dict[str, Any]) -> None:
    wanted = {name: options for name, options in cases.items() if re.search(given.cases, name)}
    if not wanted:
        return
    settings = {"spark.executor.memory": "600m", "spark.driver.host": "127.0.0.1"}
    spark = start_session(master, "1500m", 10**9, settings)
    spark.dataSource.register(AmqpDataSource)
    fill(url, 1, 20_000)
    read_spark(spark, url, 1, 20_000, {})  # warms up
    for name, options in wanted.items():
        for queues in QUEUES:
            rows = fill(url, queues, given.messages)
            meter = Meter(mark)
            meter.start()
            more = {"transferTls": str(given.tls)}
            seconds = read_spark(spark, url, queues, rows, options | more)
            line(name, queues, rows, seconds, meter.stop())
    spark.stop()


def cluster() -> Any:
    """The tests' module; `spark` here is the script beside this one."""
    place = Path(__file__).parents[1] / "tests/spark/cluster.py"
    spec = importlib.util.spec_from_file_location("cluster", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Talker(threading.Thread):
    """The other side of a `RemoteGroup`: it gathers a chunk of TASK_ROWS every `step_s`."""

    def __init__(self, link: PlannerLink, consumers: list[str], step_s: float) -> None:
        super().__init__(daemon=True)
        self.link = link
        self.consumers = consumers
        self.step_s = step_s
        self.heard = 0
        self.waiting = 0
        threading.Thread(target=self.listen, daemon=True).start()

    def say(self, **more: Any) -> None:
        rows = self.waiting
        state = [rows, rows * 1024, min(rows, TASK_ROWS), False, True, False, 0, 0, 0, None, None]
        self.link.send({"n": self.heard, "state": dict.fromkeys(self.consumers, state), **more})

    def run(self) -> None:
        while True:
            time.sleep(self.step_s)
            self.waiting += TASK_ROWS
            with suppress(OSError):
                self.say()

    def listen(self) -> None:
        while (words := self.link.receive()) is not None:
            answer = []
            if words["ask"] == "take":
                chunks, self.waiting = self.waiting // TASK_ROWS, 0
                size = TASK_ROWS, TASK_ROWS * 1024
                consumer = self.consumers[0]
                answer = [
                    (consumer, consumer, n * TASK_ROWS, *size, n, None, 0) for n in range(chunks)
                ]
            self.heard = words["n"]
            self.say(answer=answer)


def planner_cost(processes: int, step_s: float, seconds: float) -> None:
    """What the planner's half of so many connections costs; the other half is in another process,
    each of which hands over a chunk every `step_s`."""
    pairs = [socket.socketpair() for _ in range(processes)]
    child = os.fork()
    if not child:
        talkers = [Talker(PlannerLink(theirs), ["consumer"], step_s) for _, theirs in pairs]
        for talker in talkers:
            talker.start()
        time.sleep(seconds + 30)
        os._exit(0)
    news = threading.Condition()
    groups = [RemoteGroup(PlannerLink(ours), Endpoint("", 0, "", ""), news) for ours, _ in pairs]
    for group in groups:
        threading.Thread(target=group.listen, daemon=True).start()
        group.open([PlannedConsumer("consumer", "consumer")], 2**30)
    began, cpu, rows, plans, waits = time.perf_counter(), time.process_time(), 0, 0, 0.0
    while time.perf_counter() - began < seconds:
        at = time.perf_counter()
        for group in groups:
            rows += sum(taken.rows for taken in group.take(["consumer"], 2**40, 2**40))
            group.acknowledge({"consumer": rows})
        waits += time.perf_counter() - at
        plans += 1
        time.sleep(0.3)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"| {processes} | {rows / took:,.0f} | {100 * cpu / took:.0f} % |"
        f" {cpu / max(rows, 1) * 1e6:.3f} | {1000 * waits / plans:.0f} ms |",
        flush=True,
    )
    os.kill(child, 9)
    os.waitpid(child, 0)
    for group in groups:
        group.abandon()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--cases", default="")
    parser.add_argument("--tls", action="store_true", help="with transferTls")
    given = parser.parse_args()
    mark = os.environ[MARK] = uuid.uuid4().hex
    if re.search(given.cases, "planner"):
        print(
            "| processes | rows/s | planner, of a core | us/row | a plan |\n|---|---|---|---|---|"
        )
        for processes in PROCESSES:
            planner_cost(processes, 0.02, 5.0)
    print(
        "\n| case | queues | rows/s | us/row: client | planner | gatherers | tasks | JVM | broker |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as home:
        port = brokers.free_port()
        with brokers.sluicemq(port, Path(home)):
            url = f"amqp://guest:guest@127.0.0.1:{port}/"
            for queues in QUEUES if re.search(given.cases, "our client") else ():
                rows = fill(url, queues, given.messages)
                began = time.process_time()
                meter = Meter(mark)
                meter.start()
                seconds = read_client(url, queues, rows)
                cpu = meter.stop() | {"client": time.process_time() - began}
                line("our client", queues, rows, seconds, cpu)
            local = {
                "driver": {"gather": "driver"},
                "executors, local": {"gather": "executors", "gatherers": "1"},
            }
            spark_cases("local[2]", url, given, mark, local)
            name = f"executors, cluster of {given.executors}"
            many = {name: {"gather": "executors", "gatherers": str(given.executors)}}
            if re.search(given.cases, name):
                with cluster().standalone_cluster(given.executors) as master:
                    spark_cases(master, url, given, mark, many)


if __name__ == "__main__":
    main()
