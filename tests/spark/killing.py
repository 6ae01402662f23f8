"""Kill drivers, planners, Python workers and the broker under streaming queries; count the ids.

    PYTHONPATH=src:tests python -m spark.killing [--kills 24] [--seed 0]
        [--broker sluicemq|rabbitmq] [--keep FOLDER]                (make torture-spark BROKER=...)

A publisher publishes numbers with confirms, to a queue and a stream, and goes on through every
restart of the broker. Two queries read them (`kill_driver.py`). At random moments these die by
kill -9:

    worker    a Python process that runs tasks
    planner   the Python process beside the driver that a query's source lives in
    driver    the driver's Python; its JVM must end then
    jvm       the driver's JVM; its Python must end then
    machine   both at once
    broker    started again at once

A query that fails is started again by the driver. A driver that dies is followed by one that stands
by, and the next of those is started while the killing goes on. In the end the queries take what is
left, and

- every number that was confirmed has arrived from the queue; what arrived more than once is flagged
  redelivered, or was published more than once;
- every message of the stream has arrived in the queue that the sink writes to, behind a shuffle,
  under one name (by content), and under the same whenever it was written again: so without the
  copies, which are told by their names, exactly once. Where that queue deduplicates (ours), there
  are no copies but of what was confirmed in another life of the broker, which forgets names when
  it dies.

What RabbitMQ confirmed and does not have in its stream is told and not judged: 3.10 confirms what
is published in the first moments after a restart without writing it there (the queue has it).

Chance comes from the seed, but not the machine's own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from sluicemq.client.address import Address
from sluicemq.client.blocking import connect
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
from sluicemq.spark.encoding import DEDUPLICATION_HEADER
from spark.kill_driver import OUT, QUEUE, STREAM
from spark.kill_parts import START_S, BrokerProcess, Driver, Publishing, kill

EXCHANGE = "numbers"
RATE = 100
"""Messages a second; a confirmed one costs a sync."""

PROGRESS_S = 30.0
"""How long to wait for a new batch of each query since the last kill; a loaded machine takes its
time."""

HASTE = 0.2
"""The share of kills that do not wait for that: everybody is busy with the last one."""

WORK_S = 1.0
"""How long everybody lives after that, at most."""

FINISH_S = 1200.0

QUERIES = "files", "sink"
ROUNDS = (
    ("broker", "worker", "planner", "worker", "planner", "worker", "jvm"),
    ("broker", "worker", "planner", "worker", "planner", "worker", "driver"),
    ("broker", "worker", "planner", "worker", "planner", "machine"),
)
"""A driver costs ten times what the others do, so there is one in each."""

OF_DRIVERS = "jvm", "driver", "machine"

Name = str


@dataclass
class Arrived:
    """What is found in the end."""

    files: list[tuple[int, bool]]
    """(number, redelivered)"""
    out: list[tuple[Name, int]]
    """(name, number) in the order of the queue; name "" and a number from 0 on: a mark, before and
    after each death of the broker."""
    history: list[tuple[int, int]]
    """(offset, number) in the stream itself"""
    retried: int
    """Tasks that were tried again."""


@dataclass
class Verdict:
    """What was found wrong, and what is worth telling."""

    wrong: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def check(self, words: str, found: list[Any]) -> None:
        """Nothing may be found."""
        self.told.append(f"{len(found)} {words}")
        if found:
            self.wrong.append(f"{len(found)} {words}: {found[:10]}")


class Run:
    """See the top of the file."""

    def __init__(
        self,
        folder: Path,
        kills: int,
        seed: int,
        broker: str,
        rounds: Sequence[Sequence[str]] = ROUNDS,
    ) -> None:
        self.folder = folder
        self.kills = kills
        self.rounds = rounds
        self.ahead: list[str] = []
        """Victims that are still to come."""
        self.dice = Random(seed)
        self.broker = BrokerProcess(broker, folder)
        self.killed: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        """How long it took, by victim, until each query had a new batch."""
        self.marks = 0
        self.progressed = 0
        """Kills after which every query had a new batch before the next."""

    def run(self) -> str:
        """What happened; AssertionError when something was lost."""
        self.began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.driver = Driver(self.broker.url, self.folder)
        self.standby: Driver | None = None
        self.broker.start()
        try:
            self.declare()
            publishing = Publishing(self.broker.url, EXCHANGE, RATE)
            publishing.start()
            self.driver.go()
            self.kill_all()
            publishing.finish()
            arrived = self.finish()
        finally:
            self.driver.close()
            if self.standby is not None:
                self.standby.close()
            self.broker.kill()
        return self.judge(publishing, arrived, time.monotonic() - self.began)

    def declare(self) -> None:
        deduplicating = {"x-message-deduplication": True} if self.broker.kind == "sluicemq" else {}
        with connect(self.broker.url) as client:
            client.declare_queue(QUEUE)
            client.declare_queue(STREAM, arguments={"x-queue-type": "stream"})
            client.declare_queue(OUT, arguments=deduplicating)
            client.declare_exchange(EXCHANGE, "fanout")
            client.bind_queue(QUEUE, EXCHANGE, "")
            client.bind_queue(STREAM, EXCHANGE, "")

    def kill_all(self) -> None:
        """So many victims, in random order within each round."""
        plan: list[str] = []
        while len(plan) < self.kills:
            for victims in self.rounds:
                plan += self.dice.sample(victims, len(victims))
        self.ahead = plan[: self.kills]
        self.await_progress("start")
        while self.ahead:
            victim = self.ahead.pop(0)
            time.sleep(self.dice.uniform(0.0, WORK_S))
            print(f"{time.monotonic() - self.began:6.1f} s: {victim}", flush=True)
            self.kill(victim)
            if not self.ahead or self.dice.random() >= HASTE:
                self.progressed += self.await_progress(victim)

    def kill(self, victim: str) -> None:
        """One of them."""
        if victim == "broker":
            self.mark()
            self.broker.kill()
            self.broker.start()
            self.mark()
        elif victim in ("worker", "planner"):
            kill(self.dice.choice(self.await_any(victim)))
        else:
            self.driver.kill(victim)
            self.take_over()
        self.killed[victim] += 1

    def await_any(self, victim: str) -> list[int]:
        """Pids of the workers, or the planners, of a driver that may just be starting some."""
        deadline = time.monotonic() + FINISH_S
        while True:
            driver = self.ensure_driver()
            if pids := driver.workers() if victim == "worker" else driver.planners():
                return pids
            assert time.monotonic() < deadline, f"there is no {victim}"
            time.sleep(0.05)

    def take_over(self) -> None:
        self.driver, self.standby = self.stand_by(), None
        self.driver.go()

    def stand_by(self) -> Driver:
        """The driver that waits for its turn."""
        if self.standby is None:
            self.standby = Driver(self.broker.url, self.folder)
        return self.standby

    def ensure_driver(self) -> Driver:
        """One that runs. One that ended by itself has failed: its queries do not end it."""
        said = self.driver.log
        assert self.driver.process.poll() is None, said.read_text()[-3000:]
        return self.driver

    def mark(self) -> None:
        """Between the messages of one life of the broker and the next, as far as one can."""
        wire = Wire(Address.parse(self.broker.url), 240.0, "marks")
        publisher = Publisher(wire, 1)
        body = content(BasicProperties(delivery_mode=2).encode(), b"%d" % self.marks, 4096)
        publisher.publish([publish_frame("", OUT, True) + body])
        publisher.settle()
        wire.close()
        self.marks += 1

    def await_progress(self, victim: str) -> bool:
        """Until each query has planned one more batch."""
        before = self.batches()
        began = time.monotonic()
        while any(now <= then for now, then in zip(self.batches(), before, strict=True)):
            if time.monotonic() - began > PROGRESS_S:
                return False
            self.ensure_driver()
            time.sleep(0.05)
        self.seconds[victim] += time.monotonic() - began
        if not set(OF_DRIVERS).isdisjoint(self.ahead):
            self.stand_by()
        return True

    def batches(self) -> list[int]:
        """The numbers of the last batches in Spark's logs of offsets."""
        logs = (self.folder / "checkpoint" / name / "offsets" for name in QUERIES)
        return [max((int(f.name) for f in log.glob("[0-9]*")), default=-1) for log in logs]

    def finish(self) -> Arrived:
        """Let everything through; what has arrived."""
        self.driver.finish(FINISH_S)
        found = json.loads((self.folder / "found.json").read_text())
        with connect(self.broker.url) as client:
            assert client.count_queues([QUEUE]) == 0
            written = client.count_queues([OUT])
        out = [(name_of(each), int(body_of(each))) for each in self.consume(OUT, written)]
        names = {name for name, _ in out if name}  # each is of one message of the stream
        history = self.consume(STREAM, len(names), {"x-stream-offset": "first"})
        return Arrived(
            files=[(n, redelivered) for n, redelivered in found],
            out=out,
            history=[(headers_of(each)["x-stream-offset"], int(body_of(each))) for each in history],
            retried=len(list((self.folder / "retried").iterdir())),
        )

    def consume(
        self, queue: str, at_least: int, arguments: dict[str, Any] | None = None
    ) -> list[bytes]:
        """What is in a queue, read until it is silent."""
        wire = Wire(Address.parse(self.broker.url), 240.0, "checker")
        subscription = Subscription(wire, queue, 5000, arguments=arguments)
        found: list[bytes] = []
        heard = time.monotonic()
        while time.monotonic() - heard < 1 or len(found) < at_least:
            assert time.monotonic() - heard < START_S, f"{queue} gives {len(found)} of {at_least}"
            for event in subscription.poll(0.2):
                heard = time.monotonic()
                found += event.contents
                subscription.acknowledge(event.tags[0], event.tags[-1])
        wire.close()
        return found

    def judge(self, publishing: Publishing, arrived: Arrived, seconds: float) -> str:
        verdict = Verdict()
        judge_files(verdict, publishing, arrived.files)
        is_own = self.broker.kind == "sluicemq"
        judge_stream(verdict, publishing, arrived, is_own)
        judge_out(verdict, arrived, is_own)
        mean = {name: round(self.seconds[name] / n, 1) for name, n in self.killed.items()}
        line = (
            f"{self.broker.kind}: {self.killed.total()} kills {dict(self.killed)},"
            f" {self.progressed} with new batches before the next (after {mean} s),"
            f" in {seconds:.0f} s;"
            f" {[n + 1 for n in self.batches()]} batches, {arrived.retried} tasks tried again;"
            f" {publishing.next} confirmed, " + ", ".join(verdict.told)
        )
        assert not verdict.wrong, f"{line}: {verdict.wrong}"
        assert publishing.next > 0
        return line


def judge_files(verdict: Verdict, publishing: Publishing, rows: list[tuple[int, bool]]) -> None:
    """At least once; twice only with the flag."""
    arrived = Counter(number for number, _ in rows)
    fresh = Counter(number for number, redelivered in rows if not redelivered)
    verdict.told.append(f"from the queue {arrived.total() - len(arrived)} twice")
    verdict.check("lost", sorted(set(range(publishing.next)) - set(arrived)))
    unflagged = [n for n, count in fresh.items() if count > publishing.published[n]]
    verdict.check("twice without the flag", unflagged)


def judge_stream(
    verdict: Verdict, publishing: Publishing, arrived: Arrived, is_complete: bool
) -> None:
    """The stream itself: what a broker owes us."""
    there = {number for _, number in arrived.history}
    missing = sorted(set(range(publishing.next)) - there)
    if is_complete:
        verdict.check("missing in the stream", missing)
    else:
        verdict.told.append(f"{len(missing)} missing in the stream")
    offsets = [offset for offset, _ in arrived.history]
    verdict.check("offsets in disorder", [] if offsets == sorted(set(offsets)) else offsets)


def judge_out(verdict: Verdict, arrived: Arrived, deduplicates: bool) -> None:
    """By name each message of the stream once."""
    names: dict[Name, int] = {}
    lives: dict[Name, int] = {}
    different: list[Name] = []
    copies: list[Name] = []
    copied = 0
    life = 0
    for name, number in arrived.out:
        if not name:
            life = number + 1
        elif name in names:
            copied += 1
            different += [name] if names[name] != number else []
            # Odd: between the mark before a death and the one after it.
            copies += [name] if life % 2 == 0 and lives[name] == life else []
        else:
            names[name], lives[name] = number, life
    verdict.told.append(f"in the sink's queue {copied} copies")
    verdict.check("with another body", different)
    if deduplicates:
        verdict.check("in one life of the broker", copies)
    wanted, found = Counter(n for _, n in arrived.history), Counter(names.values())
    verdict.check("lost by the sink", sorted((wanted - found).elements()))
    verdict.check("too many from the sink", sorted((found - wanted).elements()))


def headers_of(message: bytes) -> dict[str, Any]:
    """None are {}."""
    return dict(BasicProperties.decode(properties_of(message)).headers or {})


def name_of(message: bytes) -> Name:
    """What the sink called it; "" for a mark."""
    headers = headers_of(message)
    return headers[DEDUPLICATION_HEADER] if headers else ""


@contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    """A temporary one, or one that stays."""
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="spark-kill-") as place:
        yield Path(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--broker", choices=("sluicemq", "rabbitmq"), default="sluicemq")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with folder_for(given.keep) as folder:
        print(Run(folder, given.kills, given.seed, given.broker).run())


if __name__ == "__main__":
    main()
