"""Runs a scenario from beginning to end: queues, workers, clocks, drain, verification.

    make the queues -> start the workers -> all Ready -> Start -> ... steps ... -> all Settled
        -> everything promised has arrived, or the drain timeout -> Finish -> Reports -> verify

A run that cannot go on (the broker closed something or died) ends in order: its measurements are
kept, and `LabResult.stopped` says why. Ctrl-C ends the schedule, a second one the drain.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, Literal

from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused, SluiceError
from sluicemq.lab.clocks import NoAnswer, Offset, estimate
from sluicemq.lab.engine import Engine, Processes
from sluicemq.lab.handover import put
from sluicemq.lab.live import LiveRows
from sluicemq.lab.measurements import (
    RunInfo,
    StepInfo,
    Verification,
    WorkerClock,
    WorkerCost,
    write_run_info,
)
from sluicemq.lab.messages import (
    Arrived,
    Failed,
    FilePiece,
    Finish,
    Ready,
    SecondPassed,
    Settled,
    StartRun,
    StepTotals,
    Stop,
    WorkerReport,
)
from sluicemq.lab.plan import NS, RunPlan
from sluicemq.lab.process import WorkerHandle
from sluicemq.lab.progress import Progress, Snapshot
from sluicemq.lab.recorder import write_rows
from sluicemq.lab.sampler import Sampler
from sluicemq.lab.target import TargetQueues
from sluicemq.lab.target_admin import TargetAdmin, sampled_nodes
from sluicemq.lab.verification import verify

Problem = Literal["lost", "duplicates", "out_of_order", "foreign"]

HEAD_START_NS: Final = NS // 5
"""Nanoseconds from Start to the beginning of the run, so that every worker has received Start by
then."""

WAIT_S: Final = 0.1
REPORT_TIMEOUT_S: Final = 60.0
"""Seconds that workers have for their reports: writing the last rows of a large run takes
seconds."""

REQUEUE_TIMEOUT_S: Final = 30.0
"""Seconds that the broker has to requeue unacknowledged messages, and to show that on every
node."""

INTERRUPTED: Final = "interrupted"

SAME_CLOCK: Final = Offset(0, 0)

PROBLEMS: Final[tuple[Problem, ...]] = ("lost", "duplicates", "out_of_order", "foreign")
"""The counts of the verification that must be 0."""


@dataclass(frozen=True, slots=True)
class LabResult:
    """The result of a run: its run.json, and the directory of its measurements."""

    directory: Path
    info: RunInfo

    @property
    def verification(self) -> Verification:
        """Return the exact counts over all messages of the run."""
        return self.info["verification"]

    @property
    def problems(self) -> dict[str, int]:
        """Return the counts of the verification that must be 0 and are not; empty when all is
        well."""
        counts = {name: self.verification[name] for name in PROBLEMS}
        return {name: count for name, count in counts.items() if count}

    @property
    def failed(self) -> bool:
        """Tell whether the run ended early for another reason than the user's wish."""
        return self.info["stopped"] not in (None, INTERRUPTED)


def run_scenario(
    plan: RunPlan,
    progress: Progress,
    engine: Engine | None = None,
    admin: TargetAdmin | None = None,
) -> LabResult:
    """Run a plan, in processes of this machine unless another engine is given. With an admin the
    run samples the nodes of the target, and mirrors its queues when the plan says so. Raises
    `Refused` or `BrokerError` when it cannot even begin."""
    if (plan.directory / "run.json").exists():
        raise Refused(f"{plan.directory} already holds a run")
    progress.run_planned(plan)
    conductor = Conductor(plan, progress, engine or Processes(), admin)
    try:
        with handled_interrupts(conductor.interrupt):
            return conductor.run()
    finally:
        progress.run_ended()


@contextmanager
def handled_interrupts(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Call `on_interrupt` at Ctrl-C, so that no KeyboardInterrupt cuts off a message in a pipe."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    before = signal.signal(signal.SIGINT, lambda *_: on_interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Conductor:
    """Conducts one run: starts its workers, has them run the schedule, and collects their
    measurements."""

    def __init__(
        self, plan: RunPlan, progress: Progress, engine: Engine, admin: TargetAdmin | None
    ) -> None:
        self._plan = plan
        self._engine = engine
        self._live = LiveRows(plan.directory)
        self._offsets: dict[Connection, Offset] = {}
        self._later: dict[Connection, Offset] = {}
        self._progress = progress
        self._queues = TargetQueues(plan)
        self._admin = admin
        self._nodes = sampled_nodes(plan, admin)
        self._workers: dict[Connection, WorkerHandle] = {}
        self._sampler: Sampler | None = None
        self._origin_ns = 0
        self._ready = 0
        self._settled = 0
        self._promised = 0
        self._arrived: dict[Connection, int] = {}
        self._reports: dict[Connection, WorkerReport] = {}
        self._rows: list[dict[str, Any]] = []
        self._seconds: defaultdict[int, list[SecondPassed]] = defaultdict(list)
        self._stopped: str | None = None
        self._stop_ns: int | None = None
        self._finished_ns = 0
        self._interrupts = 0

    def interrupt(self) -> None:
        """Handle Ctrl-C: the first ends the schedule, the second the drain, the third
        everything."""
        self._interrupts += 1
        if self._interrupts > 2:
            raise KeyboardInterrupt

    def run(self) -> LabResult:
        """Run from the first worker's start to the files in the run directory, and return the
        result. While it runs, queues that are to be mirrored have a policy."""
        if self._admin is None or self._plan.queue_type != "mirrored":
            return self._conduct()
        self._admin.set_mirrors()
        try:
            return self._conduct()
        finally:
            with suppress(SluiceError):  # the nodes are gone, and the run has said why
                self._admin.clear_mirrors()

    def _conduct(self) -> LabResult:
        plan = self._plan
        product, version = self._queues.make()
        plan.directory.mkdir(parents=True, exist_ok=True)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._progress.note(f"{product} {version}: opening connections")
        try:
            self._start_workers()
            self._load()
            self._collect_reports()
        finally:
            self._stop_sampling()
            for worker in self._workers.values():
                worker.end(timeout_s=5)
            self._engine.close()
        verification = self._verify()
        verification["drained"] &= self._stopped in (None, INTERRUPTED)
        info = self._info(product, version, started_at, verification)
        self._write(info)
        return LabResult(plan.directory, info)

    # The phases

    def _start_workers(self) -> None:
        for worker in self._engine.start(self._plan):
            self._workers[worker.pipe] = worker
        while self._ready < len(self._workers) and self._stopped is None:
            self._listen()

    def _load(self) -> None:
        """Run the schedule and the drain, until everything promised has arrived or waiting has
        become pointless."""
        if self._stopped is not None:
            return
        plan = self._plan
        self._offsets = self._ask_clocks()
        self._origin_ns = time.monotonic_ns() + HEAD_START_NS
        for pipe in self._workers:
            offset = self._offsets.get(pipe, SAME_CLOCK)
            self._send(StartRun(self._origin_ns + offset.offset_ns), pipe)
        self._sampler = Sampler(self._queues, self._nodes, self._admin, self._origin_ns)
        if plan.sample_every > 1:
            self._progress.note(f"recording every {plan.sample_every}th message; counts are exact")
        schedule_end_ns = self._origin_ns + plan.steps[-1].end_ns
        drain_ns = round(plan.drain_timeout_s * NS)
        while self._stopped in (None, INTERRUPTED) and self._interrupts < 2:
            self._listen()
            now_ns = time.monotonic_ns()
            if self._interrupts:
                schedule_end_ns = min(schedule_end_ns, now_ns)
            if self._everything_arrived():
                return
            if now_ns > schedule_end_ns + drain_ns:
                self._progress.note(f"gave up draining after {plan.drain_timeout_s:g} s")
                return

    def _everything_arrived(self) -> bool:
        settled = self._settled == self._plan.workers
        return settled and sum(self._arrived.values()) >= self._promised

    def _ask_clocks(self) -> dict[Connection, Offset]:
        """Return how far the workers' clocks are from the conductor's; empty when they share
        one."""
        found: dict[Connection, Offset] = {}
        for pipe in [] if self._engine.shares_clock else self._workers:
            if pipe not in self._reports:
                with suppress(NoAnswer):  # `_receive` notices a worker that is dead
                    found[pipe] = estimate(pipe, partial(self._handle, pipe))
        return found

    def _collect_reports(self) -> None:
        self._later = self._ask_clocks()
        self._send(Finish())
        self._finished_ns = time.monotonic_ns() - self._origin_ns if self._origin_ns else 0
        deadline = time.monotonic() + REPORT_TIMEOUT_S
        while len(self._reports) < len(self._workers):
            self._listen()
            if time.monotonic() > deadline:
                self._stop("a worker process did not report")
                return

    def _verify(self) -> Verification:
        reports = list(self._reports.values())
        published = [report.published for report in reports if report.published is not None]
        delivered = [report.delivered for report in reports if report.delivered is not None]
        result = verify(published, delivered, 0)
        missing = result["lost"]
        try:
            deadline = time.monotonic() + REQUEUE_TIMEOUT_S
            left = self._queues.count() if missing else 0
            while left < missing and time.monotonic() < deadline:
                time.sleep(WAIT_S)
                left = self._queues.count()
            self._queues.delete()
        except BrokerError as error:
            self._progress.note(f"the broker cannot be asked what is left: {error}")
            return verify(published, delivered, None)
        return verify(published, delivered, left)

    def _stop_sampling(self) -> None:
        if self._sampler is not None:
            self._sampler.stop()
            if self._sampler.failure is not None:
                self._progress.note(f"looking at the broker ended: {self._sampler.failure}")

    # Talking with the workers

    def _send(self, command: object, *pipes: Connection) -> None:
        """Send a command to the workers behind `pipes`, or to all when none are given."""
        for pipe in pipes or self._workers:
            with suppress(OSError):  # `_receive` notices a worker that is dead
                pipe.send(command)

    def _listen(self) -> None:
        """Handle what the workers send, for a moment."""
        alive = [pipe for pipe in self._workers if pipe not in self._reports]
        for pipe in wait(alive, WAIT_S):
            assert isinstance(pipe, Connection)
            self._receive(pipe)
        if self._interrupts:
            self._stop(INTERRUPTED)

    def _receive(self, pipe: Connection) -> None:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            self._reports[pipe] = WorkerReport()
            self._stop(f"a {self._workers[pipe].role} process died")
            return
        self._handle(pipe, message)

    def _handle(self, pipe: Connection, message: object) -> None:
        if isinstance(message, SecondPassed):
            self._on_second(message)
        elif isinstance(message, Arrived):
            self._arrived[pipe] = message.messages
        elif isinstance(message, Ready):
            self._ready += 1
        elif isinstance(message, Settled):
            self._settled += 1
            self._promised += message.promised
        elif isinstance(message, Failed):
            self._stop(message.reason)
        elif isinstance(message, FilePiece):
            put(self._plan.directory, message)
        elif isinstance(message, WorkerReport):
            self._reports[pipe] = message

    def _stop(self, reason: str) -> None:
        """End the schedule. The first reason counts, but a fault precedes an interrupt."""
        if self._stopped in (None, INTERRUPTED):
            if self._stopped == reason:
                return
            first = self._stopped is None
            self._stopped = reason
            if first and self._origin_ns:
                self._stop_ns = time.monotonic_ns() - self._origin_ns
                self._send(Stop())
            self._progress.note(f"stopping: {reason}")

    def _on_second(self, message: SecondPassed) -> None:
        self._rows.append(message.row)
        self._live.add(message)
        second = message.row["second"]
        group = self._seconds[second]
        group.append(message)
        if len(group) == len(self._workers):
            del self._seconds[second]
            self._live.write(second)
            self._progress.second_passed(self._snapshot(second, group))

    def _snapshot(self, second: int, group: list[SecondPassed]) -> Snapshot:
        sums: Counter[str] = Counter()
        for message in group:
            sums.update({name: n for name, n in message.row.items() if isinstance(n, int)})
        latencies = sorted(latency for message in group for latency in message.latencies_ns)
        steps = self._plan.steps
        number = group[0].row["step"]
        return Snapshot(
            second=second,
            step=steps[number] if number >= 0 else None,
            intended=sums["intended"],
            written=sums["written"],
            confirmed=sums["confirmed"],
            delivered=sums["delivered"],
            unconfirmed=sums["unconfirmed"],
            unacked=sums["unacked"],
            blocked_connections=sums["blocked_ns"] / NS,
            messages_ready=0 if self._sampler is None else self._sampler.messages_ready,
            p50_ns=latencies[len(latencies) // 2] if latencies else None,
            p99_ns=latencies[len(latencies) * 99 // 100] if latencies else None,
        )

    # What is left behind

    def _write(self, info: RunInfo) -> None:
        directory = self._plan.directory
        write_rows(directory, "counters", self._rows)
        sampler = self._sampler
        write_rows(directory, "broker", [] if sampler is None else sampler.rows)
        if self._nodes:
            write_rows(directory, "nodes", [] if sampler is None else sampler.node_rows)
        write_run_info(directory, info)

    def _step_infos(self) -> list[StepInfo]:
        stop_ns = self._plan.steps[-1].end_ns if self._stop_ns is None else self._stop_ns
        totals: defaultdict[int, StepTotals] = defaultdict(StepTotals)
        for report in self._reports.values():
            for number, part in report.steps.items():
                totals[number].intended += part.intended
                totals[number].abandoned += part.abandoned
        return [
            StepInfo(
                step=step.number,
                in_flight_limit=None if step.limit is None else step.limit.messages,
                in_flight_percent=None if step.limit is None else step.limit.percent,
                start_ns=step.start_ns,
                end_ns=min(step.end_ns, stop_ns),
                warm_ns=min(step.warm_ns, stop_ns),
                intended=totals[step.number].intended,
                abandoned=totals[step.number].abandoned,
            )
            for step in self._plan.steps
            if step.number in totals
        ]

    def _worker_clocks(self) -> list[WorkerClock]:
        clocks: list[WorkerClock] = []
        for pipe, offset in self._offsets.items():
            worker, later = self._workers[pipe], self._later.get(pipe)
            clocks.append(
                WorkerClock(
                    role=worker.role,
                    index=worker.index,
                    host=worker.host,
                    offset_ns=offset.offset_ns,
                    error_ns=offset.error_ns,
                    drift_ns=None if later is None else later.offset_ns - offset.offset_ns,
                )
            )
        return clocks

    def _worker_costs(self) -> list[WorkerCost]:
        return [
            WorkerCost(
                role=self._workers[pipe].role,
                index=self._workers[pipe].index,
                cpu_ns=report.cpu_ns,
                wall_ns=self._finished_ns,
            )
            for pipe, report in self._reports.items()
        ]

    def _info(
        self, product: str, version: str, started_at: str, verification: Verification
    ) -> RunInfo:
        plan = self._plan
        scenario = plan.scenario
        return RunInfo(
            scenario=scenario.number,
            name=scenario.name,
            target=[str(address) for address in self._queues.addresses],
            product=product,
            version=version,
            queue_type=plan.queue_type,
            queue_arguments=plan.declare_arguments,
            durable=True,
            persistent=True,
            confirms=plan.confirms,
            ack_interval=plan.ack_interval,
            scale=plan.scale,
            publishers=scenario.publishers,
            queues=scenario.queues,
            consumers=scenario.consumers,
            rate_per_publisher=plan.rate,
            rate_unscaled=scenario.rate,
            prefetch=plan.prefetch,
            body_bytes=plan.body_bytes,
            workers=plan.workers,
            worker_costs=self._worker_costs(),
            engine=self._engine.name,
            nodes=[node.name for node in self._nodes],
            profile=plan.profile,
            clocks=self._worker_clocks(),
            steps=self._step_infos(),
            sample_every=plan.sample_every,
            drain_timeout_s=plan.drain_timeout_s,
            started_at=started_at,
            machine={
                "cores": os.cpu_count() or 1,
                "ram": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            },
            verification=verification,
            claims=list(scenario.claims),
            label=plan.label,
            stopped=self._stopped,
        )
