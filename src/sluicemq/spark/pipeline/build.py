"""The entry point: makes results, report and overview plot of run directories."""

from __future__ import annotations

import time
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sluicemq.errors import Refused
from sluicemq.spark.pipeline.claims import evaluate
from sluicemq.spark.pipeline.ingest import RawRun, count_rows, load_info, open_run
from sluicemq.spark.pipeline.knee import find_knee
from sluicemq.spark.pipeline.labels import label_runs
from sluicemq.spark.pipeline.latency_histograms import KINDS, RELATIVE_ERROR
from sluicemq.spark.pipeline.plots import save_overview_plot
from sluicemq.spark.pipeline.post_claims import CLAIMS
from sluicemq.spark.pipeline.report import write_report
from sluicemq.spark.pipeline.results import Analysis, Latencies, PipelineStatistics, RunResult
from sluicemq.spark.pipeline.store import write_results
from sluicemq.spark.pipeline.tables import (
    collect,
    cross_check,
    make_node_seconds,
    make_seconds,
    make_steps,
    queue_figures,
)
from sluicemq.spark.session import spark_session

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """The paths of the files that `build_report` wrote, and its analysis."""

    report: Path
    """The HTML file."""
    results: Path
    """The directory of Parquet and JSON files."""
    overview: Path
    """The plot, PNG."""
    analysis: Analysis


def build_report(
    directory: Path | Sequence[Path],
    master: str = "local[*]",
    memory: str = "2g",
    *,
    out: Path | None = None,
    open_browser: bool = False,
    progress: Progress = lambda _: None,
) -> ReportPaths:
    """Analyse one run, or several side by side, and write report, results and plot into `out`.

    `out` defaults to the run's own directory; for several runs it must be given. `progress` is
    called with a few words at each stage. Raises `Refused` when there is no run, no `out`, or a run
    cannot be read.
    """
    directories = [directory] if isinstance(directory, Path) else list(directory)
    if not directories:
        raise Refused("a report needs at least one run directory")
    if out is None and len(directories) > 1:
        raise Refused("a report of several runs needs a directory of its own (out)")
    target = out or directories[0]
    analysis = analyse(directories, master, memory, progress)
    progress("Writing the report")
    return _write(analysis, target / "report.html", False, open_browser)


def build_comparison(
    directories: Sequence[Path],
    master: str = "local[*]",
    memory: str = "2g",
    *,
    out: Path,
    open_browser: bool = False,
    progress: Progress = lambda _: None,
) -> ReportPaths:
    """Analyse runs and write into `out` a page on their differences, by steps and by seconds, and
    the results; the others are compared with the first run.

    `progress` is called with a few words at each stage. Raises `Refused` when there are fewer than
    two runs, or one cannot be read.
    """
    if len(directories) < 2:
        raise Refused("a comparison needs at least two run directories")
    analysis = analyse(directories, master, memory, progress)
    progress("Writing the comparison")
    return _write(analysis, out / "compare.html", True, open_browser)


def _write(analysis: Analysis, page: Path, comparison: bool, open_browser: bool) -> ReportPaths:
    """Write the page, and the results and the plot beside it."""
    page.parent.mkdir(parents=True, exist_ok=True)
    results = page.parent / "results"
    paths = ReportPaths(page, results, results / "overview.png", analysis)
    write_results(analysis, paths.results)
    save_overview_plot(analysis, paths.overview)
    write_report(analysis, paths.report, comparison)
    if open_browser:
        webbrowser.open(paths.report.resolve().as_uri())
    return paths


def analyse(
    directories: Sequence[Path],
    master: str = "local[*]",
    memory: str = "2g",
    progress: Progress = lambda _: None,
) -> Analysis:
    """Analyse the runs in these directories, without writing anything. Raises `Refused` when one of
    them cannot be read."""
    infos = [load_info(directory) for directory in directories]
    labels = label_runs(infos, directories)
    rows = sum(count_rows(directory) for directory in directories)
    progress(f"Starting Spark for {rows:,} raw rows")
    before_session = time.monotonic()
    with spark_session(master, memory, rows) as session:
        before_stage = time.monotonic()
        runs = []
        for directory, label in zip(directories, labels, strict=True):
            progress(f"Analysing {label}")
            runs.append(analyse_run(open_run(session, directory), label))
        stage_seconds = time.monotonic() - before_stage
        version = session.version
    raw_rows = sum(run.raw_rows for run in runs)
    statistics = PipelineStatistics(
        raw_rows=raw_rows,
        session_seconds=before_stage - before_session,
        stage_seconds=stage_seconds,
        rows_per_s=raw_rows / stage_seconds,
        master=master,
        memory=memory,
        spark_version=version,
        percentile_error=RELATIVE_ERROR,
    )
    return Analysis(runs=runs, claims=evaluate(CLAIMS, runs), pipeline=statistics)


def analyse_run(raw: RawRun, label: str) -> RunResult:
    """Analyse one run; `label` is its name beside others."""
    tables = collect(raw)
    seconds = make_seconds(raw.info, tables)
    steps = make_steps(raw.info, tables, seconds)
    run = RunResult(
        label=label,
        directory=raw.directory,
        info=raw.info,
        seconds=seconds,
        steps=steps,
        latencies=tables.latencies.get(("run", 0), Latencies()),
        distribution=tables.distribution,
        heat=tables.heat,
        queues=queue_figures(tables.shares),
        queue_distribution=tables.queue_distribution,
        knee=None,
        no_knee_reason="",
        checks=cross_check(raw.info, tables),
        damaged=[
            f"{file.relative_to(raw.directory)}: {wrong}" for file, wrong in tables.damaged.items()
        ],
        raw_rows=sum(tables.recorded(table, "rows") for table in KINDS),
        nodes=make_node_seconds(raw.nodes),
    )
    knee, no_knee_reason = find_knee(raw.info, run.limited_steps)
    return replace(run, knee=knee, no_knee_reason=no_knee_reason)
