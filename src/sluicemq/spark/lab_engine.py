"""Runs the lab's workers as the tasks of one barrier job, so that all of them run or none does.

A task starts a worker in a clean process of its own and waits for its end. The worker connects to
the conductor, which listens where the Spark driver does, and from then on is like any other. A task
that dies ends its worker, the conductor notices a dead worker, and nothing is tried again: half of
a load test is worth nothing.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterable, Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, Final

from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

import sluicemq
from sluicemq.errors import Refused
from sluicemq.lab.engine import ROLES, Engine
from sluicemq.lab.plan import RunPlan
from sluicemq.lab.process import WorkerHandle, worker_environment
from sluicemq.spark.session import start_session

CALL_TIMEOUT_S: Final = 60.0
"""Seconds from the job's beginning until the last worker has connected; executors start
meanwhile."""

SETTINGS: Final = {
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "40",
}
"""Processes beside the executors make the load, so executors need little themselves. A job that
cannot run is given up after 40 s, and no part of it is ever run twice."""

NO_SLOTS: Final = "more slots than the total number of slots"
"""Spark's words for a barrier job that is too large for the cluster."""

KEY_BYTES: Final = 32
LOOK_S: Final = 0.2


class SparkWorker(WorkerHandle):
    """A worker of the lab that runs in a Spark task and has connected to the conductor."""

    def __init__(self, role: str, index: int, host: str, pipe: Connection) -> None:
        self.role = role
        self.index = index
        self.host = host
        self.pipe = pipe

    def end(self, timeout_s: float) -> None:
        """Close the connection, upon which the worker ends. Does not wait for that:
        `SparkEngine.close` waits for all workers."""
        self.pipe.close()


class SparkEngine(Engine):
    """Runs the lab's workers on the Spark cluster at `master`, with `memory` for the driver. A
    running session is used as it is."""

    name = "spark"
    shares_clock = False

    def __init__(self, master: str = "local[*]", memory: str = "1g") -> None:
        self.master = master
        self._ours = SparkSession.getActiveSession() is None
        self._session = start_session(master, memory, settings=SETTINGS) if self._ours else None
        context = SparkSession.getActiveSession()
        assert context is not None
        self._context = context.sparkContext
        self._key = secrets.token_bytes(KEY_BYTES)
        host = self._context.getConf().get("spark.driver.host") or "127.0.0.1"
        self._listener = Listener((host, 0), backlog=128, authkey=self._key)
        self._callers: list[tuple[int, str, Connection]] = []
        self._failure: Exception | None = None
        self._threads: list[threading.Thread] = []
        self._closing = False

    def start(self, plan: RunPlan) -> Iterator[WorkerHandle]:
        places = [(role, index) for index in range(plan.workers) for role in ROLES]
        if self.master.startswith("local"):
            if len(places) > self._context.defaultParallelism:
                raise self._too_few(len(places))
        else:
            self._context.addPyFile(str(packed_package(Path(tempfile.mkdtemp()))))
        self._spawn(self._answer, len(places))
        self._spawn(self._run_job, len(places))
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while len(self._callers) < len(places):
            if self._failure is not None:
                raise self._refusal(len(places), self._failure)
            if time.monotonic() > deadline:
                raise Refused(
                    f"--engine spark: {len(self._callers)} of {len(places)} workers have called "
                    f"from --master {self.master} within {CALL_TIMEOUT_S:g} s; do its executors "
                    f"reach {self._listener.address[0]}?"
                )
            time.sleep(LOOK_S / 4)
        for number, host, pipe in sorted(self._callers, key=lambda caller: caller[0]):
            role, index = places[number]
            pipe.send((plan, role, index))
            yield SparkWorker(role, index, host, pipe)

    def close(self) -> None:
        """Stop listening, wait for the job that holds the workers, and stop the session if it was
        started here."""
        self._closing = True
        self._listener.close()
        for thread in self._threads:
            thread.join(CALL_TIMEOUT_S / 6)
        if self._session is not None:
            self._session.stop()

    def _spawn(self, work: Any, count: int) -> None:
        thread = threading.Thread(target=work, args=(count,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _answer(self, count: int) -> None:
        """Accept connections until all workers have connected; those without the key are closed."""
        while len(self._callers) < count and not self._closing:
            try:
                pipe = self._listener.accept()
                number, host = pipe.recv()
            except (AuthenticationError, EOFError):
                continue
            except OSError:
                return  # the listener is closed
            self._callers.append((number, host, pipe))

    def _run_job(self, count: int) -> None:
        """Run the Spark job, which ends with the last worker."""
        host, port = self._listener.address
        task = WorkerTask(f"{host}:{port}", self._key.hex())
        try:
            self._context.parallelize(range(count), count).barrier().mapPartitions(task).collect()
        except Exception as error:  # any exception of Spark: the waiting thread reports it
            self._failure = error

    def _refusal(self, wanted: int, error: Exception) -> Refused:
        if NO_SLOTS in str(error):
            return self._too_few(wanted)
        first = next((line for line in str(error).splitlines() if "Exception" in line), str(error))
        return Refused(f"--engine spark: the job on --master {self.master} failed: {first.strip()}")

    def _too_few(self, wanted: int) -> Refused:
        return Refused(
            f"--workers: {wanted // 2} workers of each role need {wanted} slots at once, and "
            f"--master {self.master} has fewer"
        )


class WorkerTask:
    """The work of one Spark task, sent to the executors: it runs a worker that connects to the
    conductor at `place` with `key`."""

    def __init__(self, place: str, key: str) -> None:
        self.place = place
        self.key = key

    def __call__(self, numbers: Iterable[int]) -> Iterator[int]:
        """Run the worker with the partition's number, and yield its exit code."""
        number = BarrierTaskContext.get().partitionId()
        del numbers
        worker = subprocess.Popen(
            [sys.executable, "-m", "sluicemq.lab.process", self.place],
            stdin=subprocess.PIPE,
            env=worker_environment(),
            text=True,
        )
        try:
            assert worker.stdin is not None
            worker.stdin.write(f"{self.key}\n{number}\n")
            worker.stdin.close()
            yield worker.wait()
        finally:
            worker.kill()
            worker.wait()


def packed_package(directory: Path) -> Path:
    """Write this package into `directory` as a zip file, for executors that do not have it, and
    return its path."""
    root = Path(sluicemq.__file__).parent
    packed = directory / "sluicemq.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path("sluicemq") / path.relative_to(root))
    return packed
