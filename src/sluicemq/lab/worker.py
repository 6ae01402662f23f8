"""The base of publisher and consumer workers: one process, one loop, one pipe.

    open all connections -> Ready -> (StartRun) -> load, SecondPassed each second -> (Finish)
    -> WorkerReport

The garbage collector is off: the code here makes few cycles, and its pauses would show as latency
that the broker does not have.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, ClassVar, Final, Generic, TypeVar

from sluicemq.client.poller import Poller
from sluicemq.errors import SluiceError
from sluicemq.lab.load_connection import LoadConnection, open_all
from sluicemq.lab.measurements import STEP_OUTSIDE
from sluicemq.lab.messages import (
    AskClock,
    ClockReading,
    Failed,
    Finish,
    Ready,
    SecondPassed,
    StartRun,
    Stop,
    WorkerReport,
)
from sluicemq.lab.plan import NS, LoadStep, RunPlan
from sluicemq.lab.recorder import Recorder, RecorderError
from sluicemq.lab.target import resolve

TICK_NS: Final = NS // 10
"""Nanoseconds between two ticks, each of which does work that is not urgent for a part of the
connections."""

TICKS_PER_ROUND: Final = 20
"""Ticks after which every connection has had its turn: two seconds."""

NEVER_NS: Final = 1 << 62
"""A time that does not come."""

CLOSING_NS: Final = 3 * NS
"""Nanoseconds that the broker may take to answer connection.close."""


ConnectionType = TypeVar("ConnectionType", bound=LoadConnection)


class Worker(Generic[ConnectionType]):
    """Base of both kinds of workers. `now_ns` is the time since the start of the run."""

    role: ClassVar[str]
    table: ClassVar[str]
    """The name of the table that the worker's rows go to."""

    def __init__(self, plan: RunPlan, index: int, pipe: Connection) -> None:
        self.plan = plan
        self.index = index
        self.pipe = pipe
        self.recorder = Recorder(plan.directory, self.table, f"{self.role}{index}")
        self.poller = Poller()
        self.links: Sequence[ConnectionType] = ()
        self.steps: Sequence[LoadStep] = plan.steps
        self.broker_addresses = [resolve(url) for url in plan.targets]
        self.hand_over: Callable[[], None] = nothing
        """Called when the files are written, to hand them over."""
        self.origin_ns = 0
        self.finished = False
        self.second_end_ns = NEVER_NS
        """When the current second ends; no seconds are counted before and after the load."""
        self._cpu_ns = 0
        self._next_tick_ns = 0
        self._tick = 0

    # For subclasses

    def makers(self) -> Sequence[Callable[[], ConnectionType]]:
        """Return a function for each of this worker's connections, which opens it."""
        raise NotImplementedError

    def work(self, now_ns: int) -> int:
        """Do the work that is due; returns how many nanoseconds later something is due again."""
        raise NotImplementedError

    def take_rows(self, link: ConnectionType, everything: bool) -> None:
        """Hand a connection's finished rows to the recorder."""
        raise NotImplementedError

    def tick(self, now_ns: int) -> None:
        """Do the work that is due ten times a second."""

    def counts(self, end_ns: int) -> dict[str, int]:
        """Return the counters of the second that ended at `end_ns`, and the levels."""
        raise NotImplementedError

    def sample_latencies(self, since_ns: int) -> list[int]:
        """Return some latencies of the second that began at `since_ns`, for the live view."""
        del since_ns
        return []

    def stop(self, now_ns: int) -> None:
        """End the load, because the user wants it."""

    def report(self) -> WorkerReport:
        """Return this worker's results, for the conductor."""
        raise NotImplementedError

    # The life of a worker

    def run(self) -> None:
        """Open the connections, run the load, close, hand over the measurements and report."""
        try:
            self._open()
            self._load()
            self._close()
        except SluiceError as error:
            self.pipe.send(Failed(str(error)))
        self.poller.close()
        try:
            for link in self.links:
                self.take_rows(link, everything=True)
            self.recorder.close()
            self.hand_over()
        except RecorderError as error:
            self.pipe.send(Failed(str(error)))
        report = self.report()
        report.cpu_ns = self._cpu_ns
        self.pipe.send(report)

    def _open(self) -> None:
        self.links = open_all(self.poller, self.makers())
        self.pipe.send(Ready())
        self.poller.watch(self.pipe.fileno())
        while not self.origin_ns and not self.finished:
            if self.poller.poll(NS):
                self._on_command()

    def _load(self) -> None:
        gc.collect()
        gc.freeze()
        cpu_before_ns = time.process_time_ns()
        self.second_end_ns = NS
        try:
            while not self.finished:
                self._turn()
        finally:
            self.second_end_ns = NEVER_NS
            self._cpu_ns = time.process_time_ns() - cpu_before_ns

    def _turn(self) -> None:
        now_ns = time.monotonic_ns() - self.origin_ns
        if now_ns >= self._next_tick_ns:
            self._on_tick(now_ns)
        wait_ns = min(self.work(now_ns), self._next_tick_ns - now_ns)
        if self.poller.poll(wait_ns):
            self._on_command()

    def _close(self) -> None:
        for link in self.links:
            link.close()
        deadline_ns = time.monotonic_ns() + CLOSING_NS
        while self.poller.has_members and time.monotonic_ns() < deadline_ns:
            self.poller.poll(NS // 10)

    def _on_command(self) -> None:
        try:
            command = self.pipe.recv()
        except EOFError:  # the conductor is gone, so no one would read a report
            sys.exit(1)
        if isinstance(command, AskClock):
            self.pipe.send(ClockReading(time.monotonic_ns()))
        elif isinstance(command, StartRun):
            self.origin_ns = command.origin_ns
        elif isinstance(command, Stop):
            self.stop(time.monotonic_ns() - self.origin_ns)
        elif isinstance(command, Finish):
            self.finished = True

    def _on_tick(self, now_ns: int) -> None:
        """Keep a twentieth of the connections alive and take their rows, so that no tick takes
        long."""
        self.reach(now_ns)
        monotonic_ns = now_ns + self.origin_ns
        for link in self.links[self._tick % TICKS_PER_ROUND :: TICKS_PER_ROUND]:
            link.keep_alive(monotonic_ns)
            self.take_rows(link, everything=False)
        self.recorder.check()
        self.tick(now_ns)
        self._tick += 1
        self._next_tick_ns = (now_ns // TICK_NS + 1) * TICK_NS

    def reach(self, now_ns: int) -> None:
        """End the seconds that are over by `now_ns`. A caller that counts events calls this first,
        with the time of their rows, so that each second has only its own events."""
        while now_ns >= self.second_end_ns:
            self._end_second()

    def _end_second(self) -> None:
        end_ns = self.second_end_ns
        second = end_ns // NS - 1
        row: dict[str, Any] = {
            "role": self.role,
            "index": self.index,
            "second": second,
            "step": step_at(self.steps, second * NS),
            "intended": 0,
            "written": 0,
            "confirmed": 0,
            "delivered": 0,
            "acked": 0,
            "unconfirmed": 0,
            "unacked": 0,
            "blocked_ns": 0,
        }
        row.update(self.counts(end_ns))
        self.pipe.send(SecondPassed(row, self.sample_latencies(second * NS)))
        self.second_end_ns = end_ns + NS


def nothing() -> None:
    """Do nothing, because the files are in their place already."""


def step_at(steps: Sequence[LoadStep], at_ns: int) -> int:
    """Return the number of the step in force at that time."""
    for step in steps:
        if step.start_ns <= at_ns < step.end_ns:
            return step.number
    return STEP_OUTSIDE
