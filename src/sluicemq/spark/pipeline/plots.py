"""Draws the charts over time: of one run with its steps marked, of its nodes, of several runs in
one, and the overview picture of two charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.charts import (
    DIVISORS,
    END_TO_END,
    THROUGHPUT,
    Chart,
    Scale,
    Series,
    Unit,
    lines_shown,
    series_of,
)
from sluicemq.spark.pipeline.drawing import (
    CLASS_SIGNS,
    COLOURS,
    LABEL_POINTS_PER_LETTER,
    LABEL_ROOM_POINTS,
    OVER_TIME,
    STYLE,
    Picture,
    axis_number,
    draw_svg,
    latency_axis,
    legend_above,
    run_style,
    step_mark,
)
from sluicemq.spark.pipeline.results import Analysis, RunResult, Step

SAME_TIME_S: Final = 0.1
"""The steps of two runs are the same ones if they are at most this many seconds apart."""


def over_time(run: RunResult, chart: Chart, series: Series) -> Picture:
    """Draw one chart over the run's time; `series` has its columns."""

    def fill(figure: Figure) -> None:
        draw(figure.add_subplot(), run, chart, series)

    return draw_svg(fill, chart.height, f"{run.label}: {chart.title} {chart.caption}")


def over_time_by_node(run: RunResult, chart: Chart, nodes: Mapping[str, Series]) -> Picture:
    """Draw the one line of a chart for each node of a run; `nodes` have the columns."""

    def fill(figure: Figure) -> None:
        draw_nodes(figure.add_subplot(), run, chart, nodes)

    return draw_svg(fill, chart.height, f"{run.label}: {chart.title} {chart.caption}")


def overlay(runs: Sequence[RunResult], chart: Chart, series: Sequence[Series]) -> Picture:
    """Draw the one line of a chart for each of these runs; `series` have their columns."""

    def fill(figure: Figure) -> None:
        draw_overlay(figure.add_subplot(), runs, chart, series)

    return draw_svg(fill, chart.height, f"{chart.title} {chart.caption}")


def save_overview_plot(results: Analysis, path: Path) -> None:
    """Save a picture for a README as PNG: throughput above latency, with a column for each run."""
    runs = results.runs
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.6 * len(runs) + 1.0, 5.2), layout="constrained")
        FigureCanvasAgg(figure)
        figure.set_facecolor(COLOURS["paper"])
        above, below = figure.subplots(2, len(runs), squeeze=False, sharex="col")
        for column, run in enumerate(runs):
            series = series_of(run)
            draw(above[column], run, THROUGHPUT, series)
            draw(below[column], run, END_TO_END, series)
            above[column].set_title(_heading(run), loc="left", fontsize=11, pad=26)
            above[column].set_xlabel("")
        for row in (above, below):
            _share_y(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def _share_y(row: Sequence[Axes]) -> None:
    """Give a row of axes the same scale."""
    low = min(axes.get_ylim()[0] for axes in row)
    high = max(axes.get_ylim()[1] for axes in row)
    for axes in row:
        axes.set_ylim(low, high)


def _heading(run: RunResult) -> str:
    info = run.info
    return (
        f"{info['product']} {info['version']}, scenario {info['scenario']}, "
        f"{info['queue_type']} queues: {run.label}"
    )


def draw(axes: Axes, run: RunResult, chart: Chart, series: Series) -> None:
    """Draw a chart of one run, with its steps, their limits and classes."""
    known: list[float] = []
    for line in lines_shown(chart, series):
        values = _values(chart, series[line.column])
        axes.plot(_times(values), values, line.dash, color=COLOURS[line.role],
                  linewidth=line.width, markersize=4, label=line.label)  # fmt: skip
        known += values
    for position, level in enumerate(chart.levels(run)):
        axes.hlines(level.value, level.start_s, level.end_s, color=COLOURS["muted"], linewidth=1,
                    linestyle=(0, (5, 3)),
                    label="" if position else chart.levels_label)  # fmt: skip
        known.append(level.value)
    _scale(axes, chart, known)
    _finish_run(axes, chart, run)


def draw_nodes(axes: Axes, run: RunResult, chart: Chart, nodes: Mapping[str, Series]) -> None:
    """Draw a chart of the nodes of one run, each in its own style, without a legend. Lines cross
    seconds without samples: some nodes are not asked each second."""
    (line,) = chart.lines
    known: list[float] = []
    for position, series in enumerate(nodes.values()):
        values = _values(chart, series[line.column])
        seen = [(x, y) for x, y in zip(_times(values), values, strict=True) if not isnan(y)]
        style = run_style(position)
        axes.plot([x for x, _ in seen], [y for _, y in seen], color=COLOURS[style.role],
                  linestyle=style.dash, linewidth=1.7)  # fmt: skip
        known += values
    _scale(axes, chart, known)
    _finish_run(axes, chart, run)


def _finish_run(axes: Axes, chart: Chart, run: RunResult) -> None:
    signs = {step.step: f"{CLASS_SIGNS[step.step_class]} {step.step_class}" for step in run.steps}
    finish(axes, chart.unit, max(len(run.seconds), run.steps[-1].end_s), run.steps, signs)


def draw_overlay(
    axes: Axes, runs: Sequence[RunResult], chart: Chart, series: Sequence[Series]
) -> None:
    """Draw a chart of several runs, each in its own style, without a legend, because labels of runs
    may be long; the steps are marked if all runs had the same ones."""
    (line,) = chart.lines
    known: list[float] = []
    for position, columns in enumerate(series):
        values = _values(chart, columns[line.column])
        style = run_style(position)
        axes.plot(_times(values), values, color=COLOURS[style.role], linestyle=style.dash,
                  linewidth=1.7)  # fmt: skip
        known += values
    _scale(axes, chart, known)
    end = max(max(len(run.seconds), run.steps[-1].end_s) for run in runs)
    alike = all(have_the_same_steps(runs[0], run) for run in runs)
    finish(axes, chart.unit, end, runs[0].steps if alike else [], {})


def have_the_same_steps(one: RunResult, other: RunResult) -> bool:
    """Tell whether two runs had the same in-flight limits at the same times."""
    return len(one.steps) == len(other.steps) and all(
        a.in_flight_limit == b.in_flight_limit and abs(a.start_s - b.start_s) < SAME_TIME_S
        for a, b in zip(one.steps, other.steps, strict=True)
    )


def _times(values: Sequence[float]) -> list[float]:
    """Return the middle of each second."""
    return [second + 0.5 for second in range(len(values))]


def _values(chart: Chart, column: Sequence[float | None]) -> list[float]:
    """Return the values of a column in the chart's unit; those that cannot be drawn are NaN."""
    divisor = DIVISORS.get(chart.unit, 1)
    lowest = 0.0 if chart.scale is Scale.LOG else -1.0
    return [
        value / divisor if value is not None and value > lowest else float("nan")
        for value in column
    ]


def _scale(axes: Axes, chart: Chart, values: Sequence[float]) -> None:
    """Give the vertical axis its kind, its ends and the form of its numbers."""
    known = [value for value in values if not isnan(value)]
    top = max([chart.floor, *known])
    if chart.scale is Scale.LINEAR:
        axes.set_ylim(0, top)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(axis_number))
    elif chart.scale is Scale.LOG:
        axes.set_yscale("log")
        if known:
            axes.set_ylim(min(known) / 1.5, top * 1.2)
        latency_axis(axes)
    else:
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(0, max(top, 1))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(axis_number))


def finish(
    axes: Axes, unit: Unit | str, end_s: float, steps: Sequence[Step], signs: dict[int, str]
) -> None:
    """Give a plot over time its steps, axes and legend. `signs` has the sign to show below a step's
    limit, by its number."""
    points = 72 / axes.figure.dpi
    width_points = axes.get_window_extent().width * points
    if steps:
        make_room(axes, LABEL_ROOM_POINTS / (axes.get_window_extent().height * points))
    room = min((step.end_s - step.start_s for step in steps), default=0.0) / end_s * width_points
    names = {step.step: formats.limit_name(step.in_flight_limit) for step in steps}
    numbers = {step.step: f"{step.in_flight_limit or 0:,}" for step in steps}
    limits = names if _fit(names, room) else numbers
    if not _fit(signs, room):
        signs = {number: sign[:1] for number, sign in signs.items()}
    for step in steps:
        _mark_step(axes, step, limits[step.step], signs.get(step.step, ""))
    if steps:
        axes.axvline(steps[-1].end_s, color=COLOURS["edge"], linewidth=0.8)
    axes.set_xlim(0, end_s)
    axes.set_ylabel(unit)
    axes.set_xlabel("seconds since the start of the run")
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, steps=[1, 2, 5, 10]))
    for artist in (*axes.lines, *axes.collections, *axes.patches):
        artist.set_gid(OVER_TIME)
    legend_above(axes)


def make_room(axes: Axes, part: float) -> None:
    """Leave the upper `part` of the axes empty, whatever their scale."""
    scale = axes.yaxis.get_transform()
    low, high = (float(scale.transform(value)) for value in axes.get_ylim())
    above = high + (high - low) * part / (1 - part)
    axes.set_ylim(axes.get_ylim()[0], float(scale.inverted().transform(above)))


def _mark_step(axes: Axes, step: Step, limit: str, sign: str) -> None:
    """Draw a line where a step starts, shade its warm-up, and write its limit and sign."""
    axes.axvspan(step.start_s, step.warm_s, color=COLOURS["warm"], linewidth=0, zorder=0)
    axes.axvline(step.start_s, color=COLOURS["edge"], linewidth=0.8)
    for line, (text, colour) in enumerate(((limit, COLOURS["ink"]), (sign, COLOURS["muted"]))):
        axes.annotate(
            text,
            xy=(step.start_s, 1),
            xycoords=("data", "axes fraction"),
            xytext=(5, -3 - 11 * line),
            textcoords="offset points",
            va="top",
            fontsize=8,
            color=colour,
            gid=step_mark(step.start_s, step.end_s),
        )


def _fit(texts: Mapping[int, str], room_points: float) -> bool:
    """Return whether each of the texts has room."""
    return all(len(text) * LABEL_POINTS_PER_LETTER < room_points for text in texts.values())
