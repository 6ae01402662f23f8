"""Kill what gathers on executors, and all around it; count the ids.

    PYTHONPATH=src:tests python -m spark.executors [--executors 3] [--kills 24] [--seed 0]
        [--keep FOLDER]                                                  (make torture-spark)

A standalone cluster of so many executors, two queries with `gather = executors` (at least once and
exactlyOnce, `executors_driver.py`), and a publisher of numbers. These die by kill -9 at random
moments: a process that gathers, an executor with all that belongs to it, a Python worker, a
planner, the broker, the driver's JVM. In the end every number that was confirmed has arrived, what
came twice to the one query is flagged redelivered, and to the other nothing came twice.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from sluicemq.client.blocking import connect
from sluicemq.client.messages import BasicProperties, content, publish_frame
from spark.cluster import standalone_cluster
from spark.executors_driver import QUERIES, QUEUES
from spark.kill_parts import WORKER, BrokerProcess, Driver, Publishing, command_of, kill
from spark.killing import folder_for

EXCHANGE = "numbers"
ALL_QUEUES = [f"{name}{number}" for name in QUERIES for number in range(QUEUES)]
RATE = 100
PROGRESS_S = 600.0
WORK_S = 1.0
FINISH_S = 1200.0
VICTIMS = ("gatherer", "executor", "gatherer", "worker", "planner", "gatherer", "broker")
"""Of a round; each second one has the driver's JVM besides, which costs ten times what they do."""

GATHERER = "sluicemq.spark.gatherer"
EXECUTOR = "CoarseGrainedExecutorBackend"


class Numbers(Publishing):
    """With ids, to the queues in turn."""

    def message(self, number: int, frame_max: int) -> bytes:
        properties = BasicProperties(delivery_mode=2, message_id=f"id{number}").encode()
        body = content(properties, b"%d" % number, frame_max)
        return publish_frame(self.exchange, str(number % QUEUES), True) + body


class Run:
    """See the top of the file."""

    def __init__(self, folder: Path, executors: int, kills: int, seed: int) -> None:
        self.folder = folder
        self.executors = executors
        self.kills = kills
        self.dice = Random(seed)
        self.broker = BrokerProcess("sluicemq", folder)
        self.killed: Counter[str] = Counter()

    def run(self) -> str:
        """What happened; AssertionError when something was lost."""
        self.began = time.monotonic()
        self.home = self.folder / "cluster"
        self.home.mkdir(parents=True)
        with standalone_cluster(self.executors, home=self.home) as self.master:
            self.driver = self.start_driver()
            self.broker.start()
            try:
                declare(self.broker.url)
                publishing = Numbers(self.broker.url, EXCHANGE, RATE)
                publishing.start()
                self.driver.go()
                self.kill_all()
                publishing.finish()
                rows = self.finish()
            finally:
                self.driver.close()
                self.broker.kill()
        return self.judge(publishing, rows)

    def start_driver(self) -> Driver:
        program = "spark.executors_driver"
        more = self.master, str(self.executors)
        return Driver(self.broker.url, self.folder, program, *more)

    def kill_all(self) -> None:
        plan: list[str] = []
        while len(plan) < self.kills:
            victims = [*VICTIMS, *(["jvm"] if plan else [])]
            plan += self.dice.sample(victims, len(victims))
        self.await_progress()
        for victim in plan[: self.kills]:
            time.sleep(self.dice.uniform(0.0, WORK_S))
            print(f"{time.monotonic() - self.began:6.1f} s: {victim}", flush=True)
            self.kill(victim)
            self.killed[victim] += 1
            self.await_progress()

    def kill(self, victim: str) -> None:
        if victim == "broker":
            self.broker.kill()
            self.broker.start()
        elif victim == "jvm":
            self.driver.kill("jvm")
            self.driver = self.start_driver()
            self.driver.go()
        elif victim == "planner":
            kill(self.dice.choice(self.await_any(self.driver.planners)))
        elif victim == "executor":
            kill(self.dice.choice(self.await_any(lambda: self.processes(EXECUTOR))))
        elif victim == "worker":
            kill(self.dice.choice(self.await_any(lambda: self.processes(WORKER))))
        else:
            kill(self.dice.choice(self.await_any(lambda: self.processes(GATHERER))))

    def processes(self, word: str) -> list[int]:
        """Those of the cluster's executors."""
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and word in command_of(int(entry.name)):
                try:
                    if os.readlink(entry / "cwd").startswith(str(self.home / "work")):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def await_any(self, those: Callable[[], list[int]]) -> list[int]:
        deadline = time.monotonic() + PROGRESS_S
        while not (found := those()):
            assert time.monotonic() < deadline, "there is none"
            time.sleep(0.05)
        return found

    def await_progress(self) -> None:
        """Until each query has more rows in a batch that is committed."""
        before = self.batches()
        deadline = time.monotonic() + PROGRESS_S
        while any(now <= then for now, then in zip(self.batches(), before, strict=True)):
            said = self.driver.log
            assert self.driver.process.poll() is None, said.read_text()[-3000:]
            assert time.monotonic() < deadline, said.read_text()[-3000:]
            time.sleep(0.05)

    def batches(self) -> list[int]:
        return last_batches(self.folder)

    def finish(self) -> dict[str, list[tuple[int, bool]]]:
        """Let everything through; what has arrived."""
        self.driver.finish(FINISH_S)
        with connect(self.broker.url) as client:
            assert client.count_queues(ALL_QUEUES) == 0
        found: dict[str, list[tuple[int, bool]]]
        found = json.loads((self.folder / "found.json").read_text())
        return found

    def judge(self, publishing: Publishing, rows: dict[str, list[tuple[int, bool]]]) -> str:
        copies = len(rows["often"]) - len({number for number, _ in rows["often"]})
        line = (
            f"{self.executors} executors: {self.killed.total()} kills {dict(self.killed)} in"
            f" {time.monotonic() - self.began:.0f} s; {[n + 1 for n in self.batches()]} batches;"
            f" {publishing.next} confirmed, {copies} twice and flagged"
        )
        wrong = wrong_in(rows, publishing.published)
        assert not wrong, f"{line}: {wrong}"
        return f"{line}; exactlyOnce: each once"


def declare(url: str) -> None:
    """The exchange and the queues of both queries."""
    with connect(url) as client:
        client.declare_exchange(EXCHANGE, "direct")
        for name in QUERIES:
            for number in range(QUEUES):
                client.declare_queue(f"{name}{number}")
                client.bind_queue(f"{name}{number}", EXCHANGE, str(number))


def last_batches(folder: Path) -> list[int]:
    """The numbers of the last batches that each query has committed; -1: none."""
    logs = (folder / "checkpoint" / name / "commits" for name in QUERIES)
    return [max((int(f.name) for f in log.glob("[0-9]*")), default=-1) for log in logs]


def wrong_in(
    rows: dict[str, list[tuple[int, bool]]], published: Counter[int]
) -> dict[str, list[int]]:
    """Numbers that were lost, or came twice and should not; `published` is how often each was."""
    assert published
    arrived = {name: Counter(number for number, _ in rows[name]) for name in QUERIES}
    fresh = Counter(number for number, redelivered in rows["often"] if not redelivered)
    found = {f"lost by {name}": sorted({*published} - {*arrived[name]}) for name in QUERIES}
    found["twice without the flag"] = [n for n, count in fresh.items() if count > published[n]]
    found["twice in spite of exactlyOnce"] = [
        n for n, count in arrived["once"].items() if count > 1
    ]
    return {what: numbers for what, numbers in found.items() if numbers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--executors", type=int, default=3)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with folder_for(given.keep) as folder:
        print(Run(folder, given.executors, given.kills, given.seed).run())


if __name__ == "__main__":
    main()
