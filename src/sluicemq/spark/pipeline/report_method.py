"""The end of the report: the origin of the figures, in words."""

from __future__ import annotations

from dataclasses import dataclass

from sluicemq.lab.measurements import RunInfo
from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.classify import RULES
from sluicemq.spark.pipeline.display_table import Table
from sluicemq.spark.pipeline.report_tables import Rule, rules_table
from sluicemq.spark.pipeline.results import Analysis, RunResult


@dataclass(frozen=True, slots=True)
class MethodSection:
    """The parts of the section on method that differ from report to report."""

    notes: list[str]
    """For each run: what was recorded, and how exactly its clocks were known."""
    percentile_error: str
    rules: Table[Rule]


def method(results: Analysis) -> MethodSection:
    """Return those parts of the section on method that depend on the results."""
    clocks = [_clocks(run) for run in results.runs if run.info.get("clocks")]
    error = results.pipeline.percentile_error
    return MethodSection(
        [_recorded(run) for run in results.runs] + clocks,
        f"{error * 100:.1g}{formats.PERCENT}",
        rules_table(RULES),
    )


def _clocks(run: RunResult) -> str:
    """Return how wrong times between two machines may be."""
    clocks = run.info["clocks"]
    hosts = len({clock["host"] for clock in clocks})
    places = "one machine" if hosts == 1 else f"{hosts} machines"
    error_us = max(clock["error_ns"] for clock in clocks) / 1000
    drift_us = max(abs(clock["drift_ns"] or 0) for clock in clocks) / 1000
    label = run.label[:1].upper() + run.label[1:]
    return (
        f"{label}: {len(clocks)} workers on {places}, whose clocks were asked for. Each is "
        f"known within {error_us:,.0f} us and was off by {drift_us:,.0f} us more at the end; a "
        "latency between two machines carries the error of both."
    )


def _recorded(run: RunResult) -> str:
    every = run.info["sample_every"]
    kept = "every message has its row" if every == 1 else f"one message in {every:,} has a row"
    checks = ", ".join(
        f"{check.name} {check.exact:,} counted and {check.from_rows:,} recorded"
        for check in run.checks
    )
    label = run.label[:1].upper() + run.label[1:]
    text = f"{label}: {run.raw_rows:,} raw rows, {kept}; {checks}."
    busiest = busiest_worker(run.info)
    if busiest:
        text += f" The busiest worker of the load client used {formats.share(busiest)} of a core."
    return text


def busiest_worker(info: RunInfo) -> float:
    """Return the largest share of a core that a worker process of the load client used; 0 when it
    is not known."""
    return max(
        (cost["cpu_ns"] / cost["wall_ns"] for cost in info.get("worker_costs", ())), default=0.0
    )
