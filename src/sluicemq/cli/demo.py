"""`make demo`: runs the whole product: broker, stress run, Spark report.

Starts a broker of its own, runs stress scenario 1 against it (without confirms, then with confirms
and a growing in-flight limit), lets Spark analyse the raw measurements, prints the tables and
writes one HTML report.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console

from sluicemq.errors import SluiceError
from sluicemq.lab.conductor import LabResult, run_scenario
from sluicemq.lab.plan import RunPlan
from sluicemq.lab.progress import progress_for
from sluicemq.lab.scenarios import scenario_named
from sluicemq.spark.pipeline.build import build_report
from sluicemq.spark.pipeline.console import print_tables

SCALE_PER_CORE = 1.0
"""Scenario 1 asks for 20,000 messages a second; broker, clients and system share the cores."""

READY = "ready "


@contextmanager
def embedded_broker() -> Iterator[tuple[str, int]]:
    """Run a broker on a free loopback port while inside; yields its URL and pid."""
    command = [sys.executable, "-m", "sluicemq", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith(READY):
            raise SluiceError(f"the broker did not start: {line!r}")
        address = line.removeprefix(READY).strip().removeprefix("amqp://")
        try:
            yield f"amqp://guest:guest@{address}", process.pid
        finally:
            process.terminate()


def run_both(console: Console, out: Path, scale: float, step_seconds: int) -> list[LabResult]:
    """Run scenario 1 without and with confirms."""
    results = []
    scenario = scenario_named("1")
    with embedded_broker() as (url, pid):
        console.print(f"broker ready at {url.replace('guest:guest@', '')}")
        for name, confirms in (("no-confirms", False), ("confirms", True)):
            plan = RunPlan(
                scenario=scenario,
                targets=(url,),
                directory=out / name,
                confirms=confirms,
                scale=scale,
                step_seconds=step_seconds,
                broker_pids=(pid,),
            )
            results.append(run_scenario(plan, progress_for(console)))
    return results


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/demo"), show_default=True)
@click.option(
    "--scale", type=float, help="A factor for the scenario's rate [default: 1 for each core]."
)
@click.option("--step-seconds", type=click.IntRange(2), default=10, show_default=True)
def demo(out: Path, scale: float | None, step_seconds: int) -> None:
    """Run the main job: broker, stress scenario 1, Spark report."""
    console = Console()
    began = time.monotonic()
    if scale is None:
        scale = SCALE_PER_CORE * (os.cpu_count() or 1)
    out = out / datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")
    try:
        results = run_both(console, out, scale, step_seconds)
        paths = build_report(
            [result.directory for result in results],
            out=out,
            progress=lambda stage: console.print(f"[dim]{stage} ...[/dim]"),
        )
    except SluiceError as error:
        raise click.ClickException(str(error)) from error
    print_tables(paths.analysis, console)
    console.print(
        f"\n{time.monotonic() - began:.0f} s in all. The report: {paths.report.resolve()}"
    )
    if any(result.failed or result.verification["lost"] for result in results):
        sys.exit(1)


if __name__ == "__main__":
    demo()
