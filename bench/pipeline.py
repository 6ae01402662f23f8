"""What a report costs on synthetic runs of several sizes, and by how much it grows with each row.

    .venv/bin/python bench/pipeline.py [--rows 1e6,5e6,20e6] [--master local[2]] [--memory 4g]

Each run is written to a temporary directory (about 25 bytes a row) and analysed by a fresh process,
so that every figure includes a cold JVM. `stage` is what the report states: from opening the run to
the finished tables, without the session's start; `report` is writing page and plots. `CPU` is the
CPU time for all of it, of the JVM and of the Python that drives it: on a machine that does other
work, too, only that can be compared. `duckdb` is the time, and `its CPU` the CPU time, that DuckDB
takes for the latency tables alone, with as many threads; what it finds is compared with the
report's, and all ends when it differs by more than the report says. Below the table, the straight
lines that lie nearest to stage and CPU times, and how far off each size is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import linear_regression
from typing import Any

from duckdb_tables import differences, tables
from history import keep
from pyspark import SparkContext

from sluicemq.spark.pipeline.build import build_report
from sluicemq.spark.synthetic import RunShape, StepShape, write_synthetic_run

STEPS = ((1, 10), (2, 20), (5, 50), (10, 100), (20, 200), (100, 1000))
"""In-flight limits of scenario 1: percent, messages."""

STEP_SECONDS = 20
ROWS_A_MESSAGE = 2
ROWS_PER_S_MIN = 1_000_000
WIDTHS = (12, 9, 9, 9, 9, 12, 9, 9, 10, 7)
FITTED = {
    "stage": "stage_seconds",
    "CPU": "cpu_seconds",
    "duckdb": "duckdb_seconds",
    "its CPU": "duckdb_cpu_seconds",
}
THREADS = 2


def main() -> int:
    """Measure every size; 1 when the largest is below the promised rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="1e6,5e6,20e6", help="raw rows, comma-separated")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="4g", help="of the driver")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.master, options.memory)))
        return 0
    found = []
    titles = ["raw rows", "session", "stage", "report", "CPU", "rows/s"]
    titles += ["duckdb", "its CPU", "differ", "load"]
    print("".join(f"{title:>{width}}" for title, width in zip(titles, WIDTHS, strict=True)))
    for size in options.rows.split(","):
        found.append(measure_size(round(float(size)), options.master, options.memory))
        print(row(found[-1]), flush=True)
        keep("pipeline", f"{found[-1]['raw_rows']:,} rows", rate=found[-1]["rows_per_s"])
    if len(found) > 1:
        for title, name in FITTED.items():
            millions = [figures["raw_rows"] / 1e6 for figures in found]
            print(fit(title, millions, [figures[name] for figures in found]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if found[-1]["rows_per_s"] >= ROWS_PER_S_MIN else 1


def measure_size(rows: int, master: str, memory: str) -> dict[str, Any]:
    """Write a run of that many rows and have another process analyse it."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows)
        command = [sys.executable, __file__, "--measure", folder]
        command += ["--master", master, "--memory", memory]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures: dict[str, Any] = json.loads(answer.stdout)
        began, cpu_before = time.monotonic(), time.process_time()
        found = tables(Path(folder), THREADS)
        figures["duckdb_seconds"] = time.monotonic() - began
        figures["duckdb_cpu_seconds"] = time.process_time() - cpu_before
        figures["compared"], figures["difference"] = differences(Path(folder), found)
    return figures


def write(directory: Path, rows: int) -> None:
    """A run in the shape of scenario 1."""
    rate = rows / ROWS_A_MESSAGE / (len(STEPS) * STEP_SECONDS)
    steps = [
        StepShape(
            seconds=STEP_SECONDS,
            limit=limit,
            percent=percent,
            publish_rate=rate,
            latency_ms=1.0 + limit / 10,
        )
        for percent, limit in STEPS
    ]
    write_synthetic_run(directory, RunShape(steps=steps, target_rate=rate))


def measure(directory: Path, master: str, memory: str) -> dict[str, Any]:
    """One report, timed."""
    began = time.monotonic()
    cost = build_report(directory, master, memory).analysis.pipeline
    report_seconds = time.monotonic() - began - cost.session_seconds - cost.stage_seconds
    return asdict(cost) | {
        "report_seconds": report_seconds,
        "cpu_seconds": jvm_cpu_seconds() + time.process_time(),
        "load": os.getloadavg()[0],
    }


def jvm_cpu_seconds() -> float:
    """CPU time of this process's JVM so far, user and system."""
    gateway = SparkContext._gateway
    assert gateway is not None
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def row(figures: dict[str, Any]) -> str:
    """A line of the table."""
    names = ("session_seconds", "stage_seconds", "report_seconds", "cpu_seconds")
    cells = [
        f"{figures['raw_rows']:,}",
        *(f"{figures[name]:.1f} s" for name in names),
        f"{figures['rows_per_s']:,.0f}",
        f"{figures['duckdb_seconds']:.1f} s",
        f"{figures['duckdb_cpu_seconds']:.1f} s",
        f"{figures['difference']:.2%}",
        f"{figures['load']:.1f}",
    ]
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def fit(title: str, millions: Sequence[float], seconds: Sequence[float]) -> str:
    """Least squares over million rows: fixed seconds, seconds a million rows, residuals."""
    slope, fixed = linear_regression(millions, seconds)
    off = [y - fixed - slope * x for x, y in zip(millions, seconds, strict=True)]
    residuals = ", ".join(f"{value:+.1f}" for value in off)
    return f"{title} = {fixed:.1f} s + {slope:.2f} s a million rows, off by {residuals} s"


if __name__ == "__main__":
    sys.exit(main())
