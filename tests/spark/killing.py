"""Kill driver, Python workers and broker again and again under a streaming query; count the ids.

    PYTHONPATH=src:tests python -m spark.killing [--kills 24] [--seed 0] [--mode files|queue]
        [--broker sluicemq|rabbitmq]                                        (make torture-spark)

A publisher publishes numbers with confirms and goes on through every restart of the broker. Three
victims die by kill -9, at random moments: the driver (Python and JVM), one of its Python processes
(a worker or the planner), the broker. A query that fails is started again by the driver, a driver
that is gone by us. In the end everything is drained, and

- every number that was confirmed has arrived (nothing is lost);
- what arrived more than once is flagged redelivered, or was published more than once.

Chance comes from the seed, but not the machine's own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from sluicemq.client.address import Address
from sluicemq.client.blocking import connect
from sluicemq.client.consuming import Subscription
from sluicemq.client.messages import BasicProperties, body_of, content, publish_frame
from sluicemq.client.publishing import Publisher
from sluicemq.client.session import BrokerError
from sluicemq.client.wire import Wire

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "work"
RATE = 500
"""Messages a second; a confirmed one costs a sync."""

START_S = 60.0
PROGRESS_S = 20.0
"""How long to wait for a new batch since the last kill; a loaded machine takes its time."""

WORK_S = 1.5
"""How long everybody lives after that, at most."""

DRAIN_S = 150.0

VICTIMS = ("broker", "python", "driver", "python", "broker", "python")


class BrokerProcess:
    """Our broker or RabbitMQ on one port and one data directory, started again after each kill."""

    def __init__(self, kind: str, folder: Path) -> None:
        sys.path.append(str(ROOT / "bench"))
        import brokers  # noqa: PLC0415 - beside the package, only found now

        self.kind = kind
        self.folder = folder
        self.port = brokers.free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self._brokers = brokers
        self._stack = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.kind == "rabbitmq":
            self._stack = self._brokers.rabbitmq(self.port, self.folder / "rabbitmq")
            self.pid = self._stack.__enter__()
        else:
            self._process = self._brokers.start_sluicemq(self.port, self.folder / "broker")
            self._brokers.wait_for(self.port, self._process)
            self.pid = self._process.pid
        self.await_answer()

    def await_answer(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                connect(self.url).close()
                return
            except BrokerError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        elif self._stack is not None:
            with suppress(ProcessLookupError):
                self._stack.__exit__(None, None, None)


class Publishing(threading.Thread):
    """Numbers from 0 on, at RATE, until told to stop; ends when all of them are confirmed."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.published: Counter[int] = Counter()
        self.next = 0
        self.stopping = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        waiting: list[bytes] = []
        while not self.stopping or waiting:
            try:
                waiting = self.work(waiting)
            except BrokerError as error:
                time.sleep(0.1)
                waiting = self.publisher.waiting() if self.publisher is not None else waiting
                self.failure = error

    def work(self, waiting: list[bytes]) -> list[bytes]:
        """On one connection."""
        self.publisher: Publisher | None = None
        wire = Wire(Address.parse(self.url), 10.0, "numbers")
        self.publisher = Publisher(wire, 200)
        self.publish(waiting)
        properties = BasicProperties(delivery_mode=2).encode()
        method = publish_frame("", QUEUE, True)
        while not self.stopping:
            began = time.monotonic()
            numbers = range(self.next, self.next + RATE // 20)
            self.next = numbers.stop
            self.publish([method + content(properties, b"%d" % n, wire.frame_max) for n in numbers])
            time.sleep(max(0.0, 0.05 - (time.monotonic() - began)))
        self.publisher.settle()
        wire.close()
        return []

    def publish(self, messages: list[bytes]) -> None:
        assert self.publisher is not None
        self.published.update(number_of(message) for message in messages)
        self.publisher.publish(messages)


def number_of(message: bytes) -> int:
    """Of a whole message: the digits before the last octet."""
    digits = message[:-1]
    return int(digits[len(digits.rstrip(b"0123456789")) :])


class Driver:
    """The driver's process and its children."""

    def __init__(self, url: str, folder: Path, mode: str) -> None:
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
        self.log = folder / "driver.txt"
        command = [sys.executable, "-m", "spark.kill_driver", url, QUEUE, str(folder), mode]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=environment
            )

    def await_start(self) -> bool:
        """Until the query runs; False: it ended before."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().startswith(b"started")

    def tree(self) -> list[tuple[int, str]]:
        """All processes below the driver: pid and command."""
        parents: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    parents.setdefault(int(fields[1]), []).append(int(entry.name))
                except OSError:
                    continue
        found: list[tuple[int, str]] = []
        queue = [self.process.pid]
        while queue:
            for child in parents.get(queue.pop(), ()):
                queue.append(child)
                try:
                    command = (Path("/proc") / str(child) / "cmdline").read_text()
                except OSError:
                    continue
                found.append((child, command))
        return found

    def python_processes(self) -> list[int]:
        """Workers and planner: what the daemon has forked, not the daemon itself."""
        daemons = [
            pid for pid, command in self.tree() if "pyspark" in command and "java" not in command
        ]
        return daemons[1:]

    def kill_all(self) -> None:
        """Driver and JVM at once; the Python processes below find out by themselves."""
        victims = [pid for pid, command in self.tree() if "java" in command]
        for pid in [self.process.pid, *victims]:
            kill(pid)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def kill(pid: int) -> None:
    """By -9; it may be gone already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Run:
    """See the top of the file."""

    def __init__(self, folder: Path, kills: int, seed: int, mode: str, broker: str) -> None:
        self.folder = folder
        self.kills = kills
        self.dice = Random(seed)
        self.mode = mode
        self.broker = BrokerProcess(broker, folder)
        self.killed: Counter[str] = Counter()
        self.driver: Driver | None = None
        self.progressed = 0
        """Kills that had a batch planned before them."""

    def run(self) -> str:
        """What happened; AssertionError when something was lost."""
        began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.broker.start()
        try:
            with connect(self.broker.url) as client:
                client.declare_queue(QUEUE)
                client.declare_queue(f"{QUEUE}-out")
            publishing = Publishing(self.broker.url)
            publishing.start()
            plan = [VICTIMS[n % len(VICTIMS)] for n in range(self.kills)]
            self.dice.shuffle(plan)
            self.ensure_driver()
            for victim in plan:
                self.await_progress()
                time.sleep(self.dice.uniform(0.0, WORK_S))
                self.kill(victim)
            publishing.stopping = True
            publishing.join(START_S)
            assert not publishing.is_alive(), f"the publisher hangs: {publishing.failure}"
            found = self.finish()
        finally:
            if self.driver is not None:
                self.driver.kill_all()
            self.broker.kill()
        return self.judge(publishing, found, time.monotonic() - began)

    def kill(self, victim: str) -> None:
        """One of them."""
        driver = self.ensure_driver()
        if victim == "python":
            processes = driver.python_processes()
            if not processes:
                victim = "driver"
            else:
                kill(self.dice.choice(processes))
        if victim == "driver":
            driver.kill_all()
        elif victim == "broker":
            self.broker.kill()
            self.broker.start()
        self.killed[victim] += 1

    def await_progress(self) -> None:
        """Until a batch more has been planned."""
        before = self.batches()
        deadline = time.monotonic() + PROGRESS_S
        while self.batches() <= before and time.monotonic() < deadline:
            self.ensure_driver()
            time.sleep(0.05)
        self.progressed += self.batches() > before

    def batches(self) -> int:
        """The number of the last batch in Spark's log of offsets."""
        files = (self.folder / "checkpoint" / "offsets").glob("[0-9]*")
        return max((int(file.name) for file in files), default=-1)

    def ensure_driver(self) -> Driver:
        """A driver whose query runs; a new one when it has ended."""
        deadline = time.monotonic() + START_S
        while self.driver is None or self.driver.process.poll() is not None:
            assert time.monotonic() < deadline, self.driver and self.driver.log.read_text()[-3000:]
            self.driver = Driver(self.broker.url, self.folder, self.mode)
            self.driver.await_start()
        return self.driver

    def finish(self) -> list[tuple[int, bool]]:
        """Let everything through; what has arrived: (number, redelivered)."""
        if self.mode == "queue":
            return self.drain()
        self.driver, last = None, self.driver
        if last is not None:
            last.kill_all()
        finishing = Driver(self.broker.url, self.folder, "finish")
        code = finishing.process.wait(120)
        assert code == 0, finishing.log.read_text()[-3000:]
        with connect(self.broker.url) as client:
            assert client.count_queues([QUEUE]) == 0
        return [(n, r) for n, r in json.loads((self.folder / "found.json").read_text())]

    def drain(self) -> list[tuple[int, bool]]:
        """The queue that the query writes to, until both are empty and silent."""
        wire = Wire(Address.parse(self.broker.url), 10.0, "checker")
        subscription = Subscription(wire, f"{QUEUE}-out", 5000)
        found: list[tuple[int, bool]] = []
        heard = counted = time.monotonic()
        until = heard + DRAIN_S
        left = 1
        while (left or time.monotonic() - heard < 5) and time.monotonic() < until:
            self.ensure_driver()
            if time.monotonic() - counted > 1:
                counted = time.monotonic()
                with connect(self.broker.url) as client:
                    left = client.count_queues([QUEUE])
            for event in subscription.poll(0.5):
                heard = time.monotonic()
                # What was written twice carries no flag: only loss can be judged.
                found += [(int(body_of(each)), True) for each in event.contents]
                subscription.acknowledge(event.tags[0], event.tags[-1])
        wire.close()
        assert not left, f"{left} messages are still in the queue"
        return found

    def judge(self, publishing: Publishing, found: list[tuple[int, bool]], seconds: float) -> str:
        arrived = Counter(number for number, _ in found)
        fresh = Counter(number for number, redelivered in found if not redelivered)
        lost = sorted(set(range(publishing.next)) - set(arrived))
        unflagged = [n for n, count in fresh.items() if count > publishing.published[n]]
        doubles = sum(arrived.values()) - len(arrived)
        line = (
            f"{sum(self.killed.values())} kills ({dict(self.killed)}), {self.progressed} after a"
            f" new batch, {self.batches() + 1} batches, {publishing.next} confirmed,"
            f" {len(arrived)} arrived, {len(lost)} lost, {doubles} more than once,"
            f" {len(unflagged)} of them without the flag; {seconds:.0f} s"
        )
        assert not lost, f"{line}: {lost[:20]}"
        assert not unflagged, f"{line}: {unflagged[:20]}"
        assert publishing.next > 0
        return line


@contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    """A temporary one, or one that stays."""
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="spark-kill-") as place:
        yield Path(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=("files", "queue"), default="files")
    parser.add_argument("--broker", choices=("sluicemq", "rabbitmq"), default="sluicemq")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with folder_for(given.keep) as folder:
        run = Run(folder, given.kills, given.seed, given.mode, given.broker)
        print(run.run())


if __name__ == "__main__":
    main()
