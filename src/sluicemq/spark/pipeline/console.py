"""Prints the results on a terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.differences import difference_table
from sluicemq.spark.pipeline.display_table import Cell, ColumnKind, Table, Tone
from sluicemq.spark.pipeline.report_answer import verified_words
from sluicemq.spark.pipeline.report_tables import claims_table, steps_tables
from sluicemq.spark.pipeline.results import Analysis, RunResult

TONE_STYLES: Final = {
    Tone.GOOD: "green",
    Tone.FAIR: "yellow",
    Tone.BAD: "bold red",
    Tone.DULL: "dim",
}

NUMBERS: Final = (ColumnKind.NUMBER, ColumnKind.CHANGE)
"""The kinds of columns that are set to the right."""


def print_comparison(results: Analysis, console: Console | None = None) -> None:
    """Print the differences of each run from the first one, step by step. None for `console` prints
    to standard output."""
    console = console or Console()
    first, *others = results.runs
    for other in others:
        console.print(drawn(f"{other.label} against {first.label}", difference_table(first, other)))
    for run in results.runs:
        good, words = verified_words(run)
        style = TONE_STYLES[Tone.GOOD if good else Tone.BAD]
        console.print(f"[{style}]{'✓' if good else '✕'} {escape(f'{run.label}: {words}')}[/]")


def print_tables(results: Analysis, console: Console | None = None) -> None:
    """Print every run's steps and verification, the recommendation, the claims, and the cost of the
    pipeline. None for `console` prints to standard output."""
    console = console or Console()
    for run in results.runs:
        console.print(step_table(run))
        good, words = verified_words(run)
        style = TONE_STYLES[Tone.GOOD if good else Tone.BAD]
        console.print(f"[{style}]{'✓' if good else '✕'} {escape(words)}[/]\n")
    _print_answer(results, console)
    own = {claim for run in results.runs for claim in run.info["claims"]}
    claims = [claim for claim in results.claims if claim.claim in own]
    console.print(drawn("The post's claims", claims_table(claims)))
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


def step_table(run: RunResult) -> RichTable:
    """Make a table of a run with a row for each step, narrow enough for 80 columns."""
    info = run.info
    title = (
        f"{info['product']} {info['version']}, scenario {info['scenario']}, {info['queue_type']} "
        f"queues: {run.label} ({formats.rate(run.target_per_s)} wanted)"
    )
    latencies, rest = steps_tables(run)
    return drawn(title, replace(latencies, groups=[*latencies.groups, *rest.groups]))


def drawn(title: str, table: Table[Any]) -> RichTable:
    """Draw those columns of a table that have a title for terminals."""
    drawing = RichTable(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    columns = [column for column in (table.name, *table.columns) if column.terminal]
    for column in columns:
        drawing.add_column(
            column.terminal,
            justify="right" if column.kind in NUMBERS else "left",
            no_wrap=not column.ratio,
            ratio=column.ratio or None,
        )
    for row in table.rows:
        cells = [text_of(column.cell(row)) for column in columns]
        drawing.add_row(*cells, style="bold" if table.chosen(row) else None)
    return drawing


def text_of(cell: Cell) -> str:
    """Return a cell's chips and text in rich's markup, with everything else escaped."""
    chips = [f"[{TONE_STYLES[chip.tone]}]{escape(chip.text)}[/]" for chip in cell.chips]
    return " ".join([*chips, escape(cell.text)]) if cell.text else " ".join(chips)
