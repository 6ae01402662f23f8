"""The same answers on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.drawing import CLASS_SIGNS
from sluicemq.spark.pipeline.report_answer import verified_words
from sluicemq.spark.pipeline.results import (
    Analysis,
    ClaimResult,
    Outcome,
    RunResult,
    Step,
    StepClass,
)

CLASS_STYLES: Final = {
    StepClass.STEADY: "green",
    StepClass.BACKLOG_GROWING: "yellow",
    StepClass.SWINGING: "red",
    StepClass.COLLAPSED: "bold red",
}
OUTCOME_STYLES: Final = {
    Outcome.HOLDS: "green",
    Outcome.BETTER: "bold green",
    Outcome.FAILS: "red",
    Outcome.UNTESTED: "dim",
}


def print_tables(results: Analysis, console: Console | None = None) -> None:
    """Every run's steps and verification, the recommendation, the claims, the pipeline's cost."""
    console = console or Console()
    for run in results.runs:
        console.print(step_table(run))
        good, words = verified_words(run)
        style = "green" if good else "bold red"
        console.print(f"[{style}]{'✓' if good else '✕'} {escape(words)}[/]\n")
    _print_answer(results, console)
    own = {claim for run in results.runs for claim in run.info["claims"]}
    console.print(claim_table(claim for claim in results.claims if claim.claim in own))
    cost = results.pipeline
    console.print(
        f"[dim]Spark {cost.spark_version} on {escape(cost.master)}: {cost.raw_rows:,} raw rows in "
        f"{cost.stage_seconds:,.1f} s ({cost.rows_per_s:,.0f} rows/s), session start "
        f"{cost.session_seconds:,.1f} s[/]"
    )


def _print_answer(results: Analysis, console: Console) -> None:
    run = results.recommended
    if run is None or run.knee is None:
        console.print("[bold]No in-flight limit can be recommended from these runs.[/]")
        return
    knee = run.knee
    limit = formats.limit(knee.in_flight_limit, knee.in_flight_percent)
    console.print(f"[bold]Recommended in-flight limit: {limit}[/], {escape(knee.reason)}")
    if knee.caveat:
        console.print(f"  mind: {escape(knee.caveat)}")
    console.print(f"  prefetch {knee.prefetch:,}: {escape(knee.prefetch_reason)}")
    console.print(f"  ack interval {knee.ack_interval:,}: {escape(knee.ack_reason)}\n")


def step_table(run: RunResult) -> Table:
    """A row a step, narrow enough for 80 columns."""
    info = run.info
    title = (
        f"{info['product']} {info['version']}, scenario {info['scenario']}, {info['queue_type']} "
        f"queues: {run.label} ({formats.rate(run.target_per_s)} wanted)"
    )
    table = _table(title)
    table.add_column("limit", no_wrap=True)
    for name in ("in/s", "out/s", "p50", "p99", "p99\nwrite", "p99\nconfirm"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("class", no_wrap=True)
    chosen = run.knee.step if run.knee is not None else None
    for step in run.steps:
        table.add_row(*_cells(step), style="bold" if step.step == chosen else None)
    return table


def _table(title: str) -> Table:
    return Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def _cells(step: Step) -> Iterable[str]:
    response = step.latencies.end_to_end_response
    yield formats.limit(step.in_flight_limit, step.in_flight_percent)
    yield formats.count(step.published_per_s)
    yield formats.count(step.delivered_per_s)
    for value in (response.p50_ms, response.p99_ms):
        yield formats.duration(value)
    yield formats.duration(step.latencies.end_to_end_service.p99_ms)
    yield formats.duration(step.latencies.confirm_response.p99_ms)
    style = CLASS_STYLES[step.step_class]
    yield f"[{style}]{CLASS_SIGNS[step.step_class]} {step.step_class}[/]"


def claim_table(claims: Iterable[ClaimResult]) -> Table:
    """A row a claim."""
    table = _table("The post's claims")
    table.add_column("id", no_wrap=True)
    table.add_column("claim", ratio=3)
    table.add_column("here", no_wrap=True)
    table.add_column("evidence", ratio=4)
    for claim in claims:
        outcome = f"[{OUTCOME_STYLES[claim.outcome]}]{claim.outcome}[/]"
        table.add_row(claim.claim, escape(claim.text), outcome, escape(claim.evidence))
    return table
