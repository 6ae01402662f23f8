"""The tables at the end of a run."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from sluicemq.lab.conductor import PROBLEMS, LabResult
from sluicemq.lab.progress import ms_text
from sluicemq.lab.summary import Quantiles, StepSummary


def print_result(result: LabResult, steps: Sequence[StepSummary], console: Console) -> None:
    """Print the steps, the verification, and where the measurements are."""
    console.print(_steps_table(steps))
    console.print(verification_text(result), markup=False, highlight=False)
    if result.problems:
        words = ", ".join(
            f"{count:,} {name.replace('_', ' ')}" for name, count in result.problems.items()
        )
        console.print(f"verification FAILED: {words}", style="bold red", highlight=False)
    stopped = result.info["stopped"]
    if stopped is not None:
        console.print(f"the run ended early: {stopped}", style="bold red", markup=False)
    console.print(f"measurements: {result.directory}", highlight=False, soft_wrap=True)


def verification_text(result: LabResult) -> str:
    """Return every count that is not zero, in one sentence."""
    counts = result.verification
    always = ("published", "delivered", *PROBLEMS)
    words = [
        f"{count:,} {name.replace('_', ' ')}"
        for name, count in counts.items()
        if isinstance(count, int) and name != "drained" and (count or name in always)
    ]
    return "over every message: " + ", ".join(words)


def _steps_table(steps: Sequence[StepSummary]) -> Table:
    table = Table(
        title="each step after its warm-up; latencies in ms",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("in-flight\nlimit")
    for name in (
        "published\n/s",
        "delivered\n/s",
        "held\nback",
        "confirm\np50/p99",
        "end to end\np50/p95/p99",
        "response\np50/p99",
    ):
        table.add_column(name, justify="right")
    for step in steps:
        limit, percent = step.step["in_flight_limit"], step.step["in_flight_percent"]
        intended = step.step["intended"]
        table.add_row(
            "none" if limit is None else f"{limit} ({percent} %)",
            f"{step.published_rate:,.0f}",
            f"{step.delivered_rate:,.0f}",
            f"{step.step['abandoned'] / intended:.1%}" if intended else "-",
            _quantiles_text(step.confirm_ns, (0, 2)),
            _quantiles_text(step.service_ns, (0, 1, 2)),
            _quantiles_text(step.response_ns, (0, 2)),
        )
    return table


def _quantiles_text(quantiles: Quantiles, chosen: Sequence[int]) -> str:
    return "-" if quantiles is None else "/".join(ms_text(quantiles[index]) for index in chosen)
