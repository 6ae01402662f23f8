"""Shows the progress of a run, as the conductor reports it.

On a terminal it shows live bars, elsewhere a plain line a second; subclasses may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column

from sluicemq.lab.plan import NS, LoadStep, RunPlan
from sluicemq.lab.scenarios import Limit

NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The figures of one second of a run, all workers together."""

    second: int
    step: LoadStep | None
    """The step under way; None: all steps are over, and the queues are being drained."""
    intended: int
    written: int
    confirmed: int
    delivered: int
    unconfirmed: int
    unacked: int
    blocked_connections: float
    """The number of blocked connections, on average over the second."""
    messages_ready: int
    """Messages ready in the queues at the last look, which may be some seconds old."""
    p50_ns: int | None
    """The median latency of a sample, from intended to delivered; None: nothing was delivered."""
    p99_ns: int | None


class Progress:
    """Receives the events of a run, and ignores them; override those of interest. Called from the
    thread of `run_scenario`."""

    def run_planned(self, plan: RunPlan) -> None:
        """Called once, before anything is done."""

    def note(self, text: str) -> None:
        """Called with a line about a phase that begins, a sampling or a fault."""

    def second_passed(self, snapshot: Snapshot) -> None:
        """Called once a second while the load runs."""

    def run_ended(self) -> None:
        """Called last, when the run has ended."""


def limit_text(limit: Limit | None) -> str:
    """Return a step's in-flight limit in words; None is a step without confirms."""
    return "no confirms" if limit is None else f"limit {limit.messages} ({limit.percent} %)"


def ms_text(latency_ns: float | None) -> str:
    """Return a latency in milliseconds, with three digits."""
    if latency_ns is None:
        return "-"
    ms = latency_ns / NS_PER_MS
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"


def snapshot_text(snapshot: Snapshot) -> str:
    """Return the figures of one second as text."""
    blocked = snapshot.blocked_connections
    return (
        f"pub {snapshot.written:>6,}/s  del {snapshot.delivered:>6,}/s  "
        f"p50 {ms_text(snapshot.p50_ns):>5}  p99 {ms_text(snapshot.p99_ns):>5} ms  "
        f"unconfirmed {snapshot.unconfirmed:>6,}  ready {snapshot.messages_ready:>7,}"
        + (f"  blocked {blocked:.0f}" if blocked else "")
    )


def intro_text(plan: RunPlan) -> str:
    """Return a description of the run that is about to begin."""
    scenario = plan.scenario
    acks = f"ack interval {plan.ack_interval}" if plan.ack_interval else "automatic acks"
    return (
        f"scenario {scenario.number} ({scenario.name}): {scenario.publishers} publishers x "
        f"{plan.rate:g}/s (unscaled {scenario.rate:,}/s), {scenario.queues} {plan.queue_type} "
        f"queues, {scenario.consumers} consumers, prefetch {plan.prefetch}, {acks}, "
        f"{len(plan.steps)} x {plan.step_seconds} s"
    )


class PlainProgress(Progress):
    """Prints a line a second, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._steps = 0

    def run_planned(self, plan: RunPlan) -> None:
        self._steps = len(plan.steps)
        self.note(intro_text(plan))

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def second_passed(self, snapshot: Snapshot) -> None:
        step = snapshot.step
        where = "draining"
        if step is not None:
            where = f"step {step.number + 1}/{self._steps} {limit_text(step.limit)}"
        self.note(f"{snapshot.second + 1:>4} s  {where:<28} {snapshot_text(snapshot)}")


class LiveProgress(Progress):
    """Shows a bar for each step, with the last second beside it."""

    def __init__(self, console: Console) -> None:
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[figures]}", table_column=Column(no_wrap=True)),
            console=console,
            auto_refresh=False,
        )
        self._tasks: dict[LoadStep, TaskID] = {}
        self._drain: TaskID | None = None

    def run_planned(self, plan: RunPlan) -> None:
        self._bars.start()
        self.note(intro_text(plan))
        for step in plan.steps:
            name = f"step {step.number + 1} {limit_text(step.limit)}"
            seconds = (step.end_ns - step.start_ns) / NS
            self._tasks[step] = self._bars.add_task(name, total=seconds, figures="")
        self._bars.refresh()

    def note(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False)

    def second_passed(self, snapshot: Snapshot) -> None:
        step = snapshot.step
        if step is not None:
            task = self._tasks[step]
        else:
            if self._drain is None:
                self._drain = self._bars.add_task("draining", total=None, figures="")
            task = self._drain
        self._bars.update(task, advance=1, figures=snapshot_text(snapshot))
        self._bars.refresh()

    def run_ended(self) -> None:
        self._bars.refresh()
        self._bars.stop()


def progress_for(console: Console) -> Progress:
    """Return the kind of progress that suits the console."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)
