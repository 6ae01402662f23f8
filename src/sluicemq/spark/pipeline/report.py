"""The report: one self-contained HTML file, with the answer first, then the evidence for it.

The page is in `page/`, templates that escape everything except markup, which only the plots are.
This module makes their words and numbers. The page's own script shows the figures under the
pointer, and offers the tables for download; without it the page has all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from sluicemq import __version__
from sluicemq.lab.measurements import RunInfo
from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.charts import (
    CHARTS,
    END_TO_END,
    NODE_CHARTS,
    OVERLAYS,
    Chart,
    Series,
    lines_shown,
    series_of,
    series_of_nodes,
)
from sluicemq.spark.pipeline.differences import StepPair, difference_table
from sluicemq.spark.pipeline.display_table import Table
from sluicemq.spark.pipeline.distribution_plots import distribution, heat
from sluicemq.spark.pipeline.drawing import COLOURS, RunStyle, run_style
from sluicemq.spark.pipeline.limit_plots import over_limit
from sluicemq.spark.pipeline.page_data import page_data
from sluicemq.spark.pipeline.page_figure import PageFigure, run_legend
from sluicemq.spark.pipeline.plots import over_time, over_time_by_node, overlay
from sluicemq.spark.pipeline.report_answer import answer, verified
from sluicemq.spark.pipeline.report_method import busiest_worker, method
from sluicemq.spark.pipeline.report_tables import (
    balance_table,
    claims_table,
    queues_table,
    runs_table,
    steps_tables,
)
from sluicemq.spark.pipeline.results import (
    Analysis,
    ClaimResult,
    DistributionPoint,
    Outcome,
    RunResult,
    Step,
)

TEMPLATES: Final = Environment(
    loader=PackageLoader("sluicemq.spark.pipeline", "page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

WORKER_BUSY: Final = 0.9
"""A worker process that used this much of a core may have been the limit."""

ADDRESSES_SHOWN: Final = 3


def write_report(results: Analysis, path: Path, comparison: bool = False) -> None:
    """Write the report into the file at `path`, as one self-contained HTML page; a `comparison`
    shows only the runs beside one another."""
    path.write_text(render(results, comparison), encoding="utf-8")


def render(results: Analysis, comparison: bool = False) -> str:
    """Return the report, or the `comparison` of its runs, as the text of an HTML page."""
    several = len(results.runs) > 1
    series = [series_of(run) for run in results.runs]
    each = zip(results.runs, series, strict=True)
    return TEMPLATES.get_template("report.html").render(
        title=_title(results, comparison),
        colours=COLOURS,
        about=_about(results),
        answer=None if comparison else answer(results),
        verified=verified(results),
        runs_table=runs_table(results.runs) if several else None,
        differences=_differences(results.runs),
        overlays=_overlays(results.runs, series),
        over_limit=_over_limit(results),
        runs=[] if comparison else [_run(*one, number, several) for number, one in enumerate(each)],
        claims=None if comparison else _claims(results),
        method=method(results),
        data=page_data(results, [*CHARTS, *OVERLAYS, *NODE_CHARTS]),
        cost=results.pipeline,
        version=__version__,
        directories=[str(run.directory) for run in results.runs],
    )


def _title(results: Analysis, comparison: bool) -> str:
    """Return the title: the brokers and scenarios, each once; for a comparison the runs."""
    if comparison:
        first, *others = (run.label for run in results.runs)
        return f"{formats.listed(others)} against {first}"
    infos = [run.info for run in results.runs]
    brokers = dict.fromkeys(f"{info['product']} {info['version']}" for info in infos)
    scenarios = dict.fromkeys(f"{info['scenario']} ({info['name']})" for info in infos)
    return f"Stress scenario {' and '.join(scenarios)} on {' and '.join(brokers)}"


def _about(results: Analysis) -> list[str]:
    """Return paragraphs about the scenarios that were played, and where."""
    addresses: dict[str, dict[str, None]] = {}
    for run in results.runs:
        targets = (formats.without_password(uri) for uri in run.info["target"])
        addresses.setdefault(_what(run.info), {}).update(dict.fromkeys(targets))
    paragraphs = [f"{what}, {_brokers([*found])}." for what, found in addresses.items()]
    started = min(run.info["started_at"] for run in results.runs)
    paragraphs[-1] += f" Started {started[:16].replace('T', ' ')}."
    return paragraphs


def _what(info: RunInfo) -> str:
    """Return clients, queues, messages and machine of a run, in words."""
    machine = info["machine"]
    scale = ""
    if info["scale"] != 1:
        unscaled = formats.rate(info["publishers"] * info["rate_unscaled"])
        scale = f" (the scenario's {unscaled} scaled by {info['scale']:g})"
    wanted = formats.rate(info["publishers"] * info["rate_per_publisher"])
    kind = "Persistent" if info["persistent"] else "Transient"
    return " ".join(
        [
            f"{info['publishers']:,} publishers write to {info['queues']:,} {info['queue_type']}",
            f"queues, {info['consumers']:,} consumers read them. {kind} messages of",
            f"{info['body_bytes']:,} bytes, {wanted} wanted{scale}.",
            f"Load on {machine['cores']} cores with {formats.gibibytes(machine['ram'])} of memory",
        ]
    )


def _brokers(addresses: list[str]) -> str:
    """Return the addresses of the brokers; only their number, if the list would be long."""
    if len(addresses) > ADDRESSES_SHOWN:
        return f"brokers at {len(addresses)} addresses"
    return f"broker at {', '.join(addresses)}"


def _overlays(runs: Sequence[RunResult], series: Sequence[Series]) -> list[PageFigure]:
    if len(runs) < 2:
        return []
    end_s = max(max(len(run.seconds), run.steps[-1].end_s) for run in runs)
    numbers = " ".join(str(number) for number in range(len(runs)))
    legend = run_legend(runs)

    def figure(chart: Chart) -> PageFigure:
        drawn = overlay(runs, chart, series)
        return PageFigure(chart.title, chart.caption, drawn, chart.name, numbers, end_s, legend)

    shown = [x for x in OVERLAYS if any(lines_shown(x, columns) for columns in series)]
    named = [(run.label, run_style(i), _points(run, None)) for i, run in enumerate(runs)]
    return [*map(figure, shown), _distribution(named, "Distribution of latency by run")]


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences of another run from the first one."""

    label: str
    first: str
    table: Table[StepPair]


def _differences(runs: Sequence[RunResult]) -> list[Differences]:
    return [
        Differences(other.label, runs[0].label, difference_table(runs[0], other))
        for other in runs[1:]
    ]


def _over_limit(results: Analysis) -> PageFigure | None:
    """Return the plot over the limits; None when no run has tried several limits."""
    if not any(len(run.limited_steps) > 1 for run in results.runs):
        return None
    about = "Sustained throughput and p99 latency against the in-flight limit"
    return PageFigure(
        "What each in-flight limit buys.",
        "First what went in and came out again, then what 99\u00a0% of the messages took from the "
        "write to the delivery. The recommended limit is shaded: beyond it the first curve gains "
        "next to nothing.",
        over_limit(results.runs, about),
        legend=run_legend(results.runs),
    )


@dataclass(frozen=True, slots=True)
class RunSection:
    """The content of the page for one run."""

    number: int
    """Its position among the runs."""
    heading: str
    warnings: list[str]
    figures: list[PageFigure]
    nodes: list[PageFigure]
    """The charts of the nodes; none for a single node, which is in `figures`."""
    distributions: list[PageFigure]
    has_queues: bool
    """Whether the distribution of a queue can be chosen."""
    is_shaded: bool
    """Whether a step stands out, as the one whose limit is recommended."""
    steps: list[Table[Step]]
    balance: Table[Step]
    queues: Table[int]


def _run(run: RunResult, series: Series, number: int, named: bool) -> RunSection:
    end_s = max(len(run.seconds), run.steps[-1].end_s)

    def figure(chart: Chart) -> PageFigure:
        drawn = over_time(run, chart, series)
        return PageFigure(chart.title, chart.caption, drawn, chart.name, str(number), end_s)

    return RunSection(
        number,
        f"Run: {run.label}" if named or run.info.get("label") else "The run",
        warnings(run),
        [figure(chart) for chart in CHARTS if lines_shown(chart, series)],
        _nodes(run, number, end_s),
        _distributions(run, number, end_s),
        bool(run.queue_distribution),
        run.knee is not None,
        steps_tables(run),
        balance_table(run),
        queues_table(run),
    )


def _nodes(run: RunResult, number: int, end_s: float) -> list[PageFigure]:
    nodes = series_of_nodes(run)
    if len(nodes) < 2:
        return []
    legend = [(name, run_style(position)) for position, name in enumerate(nodes)]
    return [
        PageFigure(
            chart.title,
            chart.caption,
            over_time_by_node(run, chart, nodes),
            chart.name,
            str(number),
            end_s,
            legend,
        )
        for chart in NODE_CHARTS
        if any(lines_shown(chart, series) for series in nodes.values())
    ]


def _distributions(run: RunResult, number: int, end_s: float) -> list[PageFigure]:
    """Return plots of one run's end-to-end latencies: over its time, and of each step."""
    if not run.heat:
        return []
    heat_map = PageFigure(
        "Where latencies lay,",
        "end to end from the intended time, log scale: the stronger a cell's colour, the more of "
        "its second's messages took so long. Two bands are two kinds of messages, which no "
        "percentile tells.",
        heat(run, f"{run.label}: where the end-to-end latencies of each second lay"),
        END_TO_END.name,
        str(number),
        end_s,
    )
    steps = [
        (
            formats.limit_name(step.in_flight_limit, step.in_flight_percent),
            run_style(position),
            _points(run, step.step),
        )
        for position, step in enumerate(run.steps)
    ]
    return [heat_map, _distribution(steps, f"{run.label}: distribution of latency by step")]


def _distribution(
    named: Sequence[tuple[str, RunStyle, Sequence[DistributionPoint]]], about: str
) -> PageFigure:
    curves = [(style, points) for _, style, points in named if points]
    return PageFigure(
        "Distribution of the end-to-end latency,",
        "from the intended time, log scale, without warm-up. From 90\u00a0% on each mark leaves a "
        "tenth of the messages above it; a curve ends with the largest latency.",
        distribution(curves, about),
        legend=[(name, style) for name, style, points in named if points],
    )


def _points(run: RunResult, step: int | None) -> list[DistributionPoint]:
    return [x for x in run.distribution if x.step == step and x.kind == "end_to_end_response"]


def warnings(run: RunResult) -> list[str]:
    """Return the warnings to read before trusting the run's figures, a sentence each."""
    found = []
    if run.info["stopped"]:
        found.append(f"The run ended early: {run.info['stopped']}")
    found += [f"Damaged, and left out: {file}" for file in run.damaged]
    found += [
        f"Counters and recorded rows disagree on messages {check.name}: {check.exact:,} counted, "
        f"{check.from_rows:,} recorded, {formats.share(check.difference)} apart. The latencies "
        "may not stand for all messages."
        for check in run.checks
        if not check.agrees
    ]
    latencies = run.latencies
    negative = latencies.end_to_end_service.negative + latencies.confirm_service.negative
    if negative:
        found.append(f"{negative:,} latencies were below 0 and are left out: clocks disagreed.")
    if run.info["confirms"] and latencies.confirm_service.never:
        never = latencies.confirm_service.never
        found.append(f"{never:,} of the messages after warm-up were never confirmed.")
    busiest = busiest_worker(run.info)
    if busiest >= WORKER_BUSY:
        found.append(
            f"A worker process of the load client used {formats.share(busiest)} of a core: the "
            "client, not the broker, may be the limit."
        )
    short = [str(step.step) for step in run.steps if step.warm_up_included]
    if short:
        steps = ", ".join(short)
        found.append(f"Too short to leave out their warm-up: step {steps} (counted from 0).")
    return found


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims about the scenarios that were played, how many of these could be tested, and the
    claims about other scenarios."""

    own: Table[ClaimResult]
    tested: int
    others: Table[ClaimResult]


def _claims(results: Analysis) -> Claims:
    own = {claim for run in results.runs for claim in run.info["claims"]}
    mine = [claim for claim in results.claims if claim.claim in own]
    others = [claim for claim in results.claims if claim.claim not in own]
    tested = sum(claim.outcome is not Outcome.UNTESTED for claim in mine)
    return Claims(claims_table(mine), tested, claims_table(others))
