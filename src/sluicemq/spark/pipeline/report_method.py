"""The end of the report: how the figures came about, and what the pipeline itself cost."""

from __future__ import annotations

from html import escape
from typing import Final

from sluicemq import __version__
from sluicemq.lab.measurements import RunInfo
from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.classify import RULES
from sluicemq.spark.pipeline.report_tables import rules_table
from sluicemq.spark.pipeline.results import Analysis, PipelineStatistics, RunResult

NOTES: Final = (
    "Open loop: every message has an intended time, whatever the broker does. <b>Response</b> "
    "latency counts from it, <b>service</b> latency from the write to the socket. Flow control "
    "that holds publishers up shows in the first and not in the second.",
    "Throughput, backlog and unconfirmed counts are exact, counted by the clients each second. "
    "Latencies and balance come from recorded messages.",
    "End-to-end latency belongs to the second of delivery, confirm latency to the second of the "
    "write; both belong to the step the message was intended in.",
    "Sustained throughput is the smaller of publish and delivery rate. Warm-up is left out of "
    "every figure of a step.",
)


def method(results: Analysis) -> str:
    """The section."""
    cost = results.pipeline
    notes = [
        *NOTES,
        *(_recorded(run) for run in results.runs),
        *(_clocks(run) for run in results.runs if run.info.get("clocks")),
        "Latencies are kept in log-linear histograms, merged from seconds to steps to the run. A "
        f"percentile is off by {cost.percentile_error * 100:.1g}{formats.PERCENT} at most; the "
        "maximum is exact.",
    ]
    items = "".join(f"<li>{note}</li>" for note in notes)
    return (
        f"<section><h2>How this was measured</h2><ul>{items}</ul>"
        f"<h3>Classes of steps</h3>{rules_table(RULES)}"
        f"<h3>The pipeline</h3><p>{_cost(cost)}</p></section>"
    )


def _clocks(run: RunResult) -> str:
    """How wrong times may be that two machines have told."""
    clocks = run.info["clocks"]
    hosts = len({clock["host"] for clock in clocks})
    places = "one machine" if hosts == 1 else f"{hosts} machines"
    error_us = max(clock["error_ns"] for clock in clocks) / 1000
    drift_us = max(abs(clock["drift_ns"] or 0) for clock in clocks) / 1000
    label = run.label[:1].upper() + run.label[1:]
    return escape(
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
    return escape(text)


def busiest_worker(info: RunInfo) -> float:
    """The largest share of a core a worker process of the load client used; 0: not known."""
    return max(
        (cost["cpu_ns"] / cost["wall_ns"] for cost in info.get("worker_costs", ())), default=0.0
    )


def _cost(cost: PipelineStatistics) -> str:
    return (
        f"Spark {escape(cost.spark_version)} on <code>{escape(cost.master)}</code> with "
        f"{escape(cost.memory)} of driver memory took {cost.stage_seconds:,.1f} s for "
        f"{cost.raw_rows:,} raw rows: {formats.count(cost.rows_per_s)} rows/s, after "
        f"{cost.session_seconds:,.1f} s for starting the session. A few seconds of it are the same "
        "for any size; <code>bench/pipeline.py</code> measures the rate on large runs."
    )


def footer(results: Analysis) -> str:
    """Where the data is."""
    directories = ", ".join(f"<code>{escape(str(run.directory))}</code>" for run in results.runs)
    return (
        f"<footer>SluiceMQ {__version__}. Raw data: {directories}. The tables are beside this page "
        "in <code>results/</code>, as Parquet and JSON.</footer>"
    )
