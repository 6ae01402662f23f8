"""The parts of the kill tests: a broker, a publisher of numbers and a driver, as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sluicemq.client.address import Address
from sluicemq.client.blocking import connect
from sluicemq.client.messages import BasicProperties, content, publish_frame
from sluicemq.client.publishing import Publisher
from sluicemq.client.session import BrokerError
from sluicemq.client.wire import Wire
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
START_S = 240.0
GONE_S = 120.0
"""How long what has lost its driver may stay."""

PLANNER = "python_streaming_source_runner"
WORKER = "pyspark.daemon\0pyspark.worker"


class BrokerProcess:
    """Our broker or RabbitMQ on one port and one data directory, started again after each kill."""

    def __init__(self, kind: str, folder: Path) -> None:
        sys.path.append(str(ROOT / "bench"))
        import brokers  # noqa: PLC0415 - beside the package, only found now

        self.kind = kind
        self.folder = folder
        self.port = free_port()
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
    """Numbers from 0 on to an exchange, `rate` a second, until told to stop; ends when all of them
    are confirmed."""

    def __init__(self, url: str, exchange: str, rate: int) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.exchange = exchange
        self.rate = rate
        self.published: Counter[int] = Counter()
        self.next = 0
        self.stopping = False
        self.failure: BaseException | None = None
        self.publisher: Publisher | None = None

    def run(self) -> None:
        waiting: list[bytes] = []
        while not self.stopping or waiting:
            try:
                waiting = self.work(waiting)
            except BrokerError as error:
                time.sleep(0.1)
                waiting = self.publisher.waiting() if self.publisher is not None else waiting
                self.failure = error

    def finish(self) -> None:
        """Publish no more; returns when all is confirmed."""
        self.stopping = True
        self.join(START_S)
        assert not self.is_alive(), f"the publisher hangs: {self.failure}"

    def work(self, waiting: list[bytes]) -> list[bytes]:
        """On one connection."""
        self.publisher = None
        wire = Wire(Address.parse(self.url), 60.0, "numbers")
        self.publisher = Publisher(wire, 200)
        self.publish(waiting)
        while not self.stopping:
            began = time.monotonic()
            numbers = range(self.next, self.next + self.rate // 20)
            self.next = numbers.stop
            self.publish([self.message(n, wire.frame_max) for n in numbers])
            time.sleep(max(0.0, 0.05 - (time.monotonic() - began)))
        self.publisher.settle()
        wire.close()
        return []

    def message(self, number: int, frame_max: int) -> bytes:
        """All frames of one."""
        properties = BasicProperties(delivery_mode=2).encode()
        body = content(properties, b"%d" % number, frame_max)
        return publish_frame(self.exchange, "", True) + body

    def publish(self, messages: list[bytes]) -> None:
        assert self.publisher is not None
        self.published.update(number_of(message) for message in messages)
        self.publisher.publish(messages)


def number_of(message: bytes) -> int:
    """Of a whole message: the digits before the last octet."""
    digits = message[:-1]
    return int(digits[len(digits.rstrip(b"0123456789")) :])


class Driver:
    """The process of `kill_driver.py` (or another `program` of that kind) and those below it; Spark
    starts, the queries do not yet."""

    def __init__(
        self, url: str, folder: Path, program: str = "spark.kill_driver", *more: str
    ) -> None:
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
        self.log = folder / "driver.txt"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", program, url, str(folder), *more],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )

    def go(self) -> None:
        """Returns when the queries have been started, or the driver has ended."""
        self.say("go")
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()

    def finish(self, within_s: float) -> None:
        """Have it take what is left, and end."""
        self.say("finish")
        code = self.process.wait(within_s)
        assert code == 0, self.log.read_text()[-3000:]

    def processes(self, is_wanted: Callable[[str], bool]) -> list[int]:
        """Pids below the driver whose command is wanted."""
        return [pid for pid, command in self.tree() if is_wanted(command)]

    def jvm(self) -> list[int]:
        return self.processes(lambda command: command.startswith("java") or "/java\0" in command)

    def planners(self) -> list[int]:
        """One for each query that runs."""
        return self.processes(lambda command: PLANNER in command)

    def workers(self) -> list[int]:
        """Those that run tasks, or wait for the next; not the daemon that forks them."""
        return self.processes(lambda command: WORKER in command)[1:]

    def tree(self) -> list[tuple[int, str]]:
        """All processes below the driver, parents first: pid and command."""
        parents: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    parents.setdefault(int(fields[1]), []).append(int(entry.name))
        found: list[tuple[int, str]] = []
        queue = [self.process.pid]
        while queue:
            for child in parents.get(queue.pop(0), ()):
                queue.append(child)
                found.append((child, command_of(child)))
        return found

    def kill(self, whom: str) -> None:
        """Its Python (`driver`), its `jvm`, or both at once (`machine`); the others must find out
        by themselves, in GONE_S."""
        below = self.tree()
        victims = self.jvm() if whom != "driver" else []
        for pid in [self.process.pid, *victims] if whom != "jvm" else victims:
            kill(pid)
        code = self.process.wait(GONE_S)
        assert code, "the driver says that all is well, without its JVM"
        deadline = time.monotonic() + GONE_S
        while left := [each for each in below if each[1] and command_of(each[0]) == each[1]]:
            assert time.monotonic() < deadline, f"{whom} is dead, and there are still {left}"
            time.sleep(0.05)
        self.close()

    def close(self) -> None:
        """End it in any way."""
        for pid in [self.process.pid, *self.jvm()]:
            kill(pid)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def command_of(pid: int) -> str:
    """Arguments with zeros between them; empty: it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def kill(pid: int) -> None:
    """By -9; it may be gone already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
