"""The plots over time, with the steps marked, and the overview picture made of two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isnan
from pathlib import Path

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from sluicemq.spark.pipeline.drawing import (
    CLASS_SIGNS,
    COLOURS,
    LABEL_POINTS_PER_LETTER,
    LABEL_ROOM_POINTS,
    MIDDLE,
    STYLE,
    axis_number,
    draw_svg,
    latency_axis,
)
from sluicemq.spark.pipeline.results import Analysis, Percentiles, RunResult, Second, Step

Draw = Callable[[Axes, RunResult], None]


def over_time(run: RunResult, draw: Draw, about: str, height: float = MIDDLE) -> Markup:
    """Have `draw` make one plot over the run's time, `height` inches high, as SVG; `about`
    describes it to those who cannot see it."""

    def fill(figure: Figure) -> None:
        draw(figure.add_subplot(), run)

    return draw_svg(fill, height, f"{run.label}: {about}")


def save_overview_plot(results: Analysis, path: Path) -> None:
    """Save a picture for a README as PNG: throughput above latency, with a column for each run."""
    runs = results.runs
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.6 * len(runs) + 1.0, 5.2), layout="constrained")
        FigureCanvasAgg(figure)
        figure.set_facecolor(COLOURS["paper"])
        above, below = figure.subplots(2, len(runs), squeeze=False, sharex="col")
        for column, run in enumerate(runs):
            draw_throughput(above[column], run)
            draw_end_to_end(below[column], run)
            above[column].set_title(_heading(run), loc="left", fontsize=11, pad=26)
            above[column].set_xlabel("")
        for row in (above, below):
            _share_y(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def _share_y(row: Sequence[Axes]) -> None:
    """The same scale across a row."""
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


def draw_throughput(axes: Axes, run: RunResult) -> None:
    """Draw published and delivered messages per second against the target."""
    times = _times(run.seconds)
    published = [second.published_per_s for second in run.seconds]
    delivered = [second.delivered_per_s for second in run.seconds]
    axes.plot(times, published, color=COLOURS["published"], linewidth=3.4, label="published")
    axes.plot(times, delivered, color=COLOURS["delivered"], linewidth=1.3, label="delivered")
    axes.hlines(
        run.target_per_s,
        run.steps[0].start_s,
        run.steps[-1].end_s,
        color=COLOURS["muted"],
        linestyle=(0, (5, 3)),
        linewidth=1,
        label="wanted",
    )
    top = max([run.target_per_s, *published, *delivered])
    axes.set_ylim(0, top)
    _finish(axes, run, "messages/s")


def draw_end_to_end(axes: Axes, run: RunResult) -> None:
    """Draw the end-to-end latency percentiles of each second, on a log axis."""
    _draw_latency(axes, run, lambda x: x.latencies.end_to_end_response,
                  lambda x: x.latencies.end_to_end_service)  # fmt: skip


def draw_confirm(axes: Axes, run: RunResult) -> None:
    """Draw the confirm latency percentiles of each second, on a log axis."""
    _draw_latency(axes, run, lambda x: x.latencies.confirm_response,
                  lambda x: x.latencies.confirm_service)  # fmt: skip


def _draw_latency(
    axes: Axes,
    run: RunResult,
    response: Callable[[Second], Percentiles],
    service: Callable[[Second], Percentiles],
) -> None:
    times = _times(run.seconds)
    widths = {"p50": 2.2, "p75": 1.6, "p95": 1.6, "p99": 1.6, "max": 0.9}
    values: list[float] = []
    for name, width in widths.items():
        line = [_positive(getattr(response(second), f"{name}_ms")) for second in run.seconds]
        values += line
        dash = ":" if name == "max" else "-"
        axes.plot(times, line, dash, color=COLOURS[name], linewidth=width, label=name)
    line = [_positive(service(second).p99_ms) for second in run.seconds]
    values += line
    axes.plot(
        times, line, "--", color=COLOURS["service"], linewidth=1.2, label="p99 from the write"
    )
    known = [value for value in values if not isnan(value)]
    axes.set_yscale("log")
    if known:
        axes.set_ylim(min(known) / 1.5, max(known) * 1.2)
    latency_axis(axes)
    _finish(axes, run, "latency")


def draw_backlog(axes: Axes, run: RunResult) -> None:
    """Draw how many messages are in the broker, by the clients' counts and by what the broker
    says."""
    backlog = [second.backlog for second in run.seconds]
    axes.plot(_times(run.seconds), backlog, color=COLOURS["backlog"], linewidth=2,
              label="published, not delivered")  # fmt: skip
    asked = [second for second in run.seconds if second.messages_ready is not None]
    ready = [second.messages_ready or 0 for second in asked]
    if asked:
        axes.plot(_times(asked), ready, ".", color=COLOURS["muted"], markersize=4,
                  label="ready, says the broker")  # fmt: skip
    axes.set_ylim(0, max([10, *backlog, *ready]))
    _finish(axes, run, "messages")


def draw_in_flight(axes: Axes, run: RunResult) -> None:
    """Draw how many messages are unconfirmed and unacknowledged, and how many unconfirmed ones are
    allowed."""
    times = _times(run.seconds)
    lines = [("unacked", "unacknowledged", ":")]
    if run.info["confirms"]:
        lines.insert(0, ("unconfirmed", "unconfirmed", "-"))
    top = 1
    for field, label, dash in lines:
        line = [getattr(second, field) for second in run.seconds]
        top = max([top, *line])
        axes.plot(times, line, dash, color=COLOURS[field], linewidth=1.6, label=label)
    for position, step in enumerate(run.limited_steps):
        allowed = (step.in_flight_limit or 0) * run.info["publishers"]
        top = max(top, allowed)
        axes.hlines(allowed, step.start_s, step.end_s, color=COLOURS["muted"], linewidth=1,
                    linestyle=(0, (5, 3)),
                    label="" if position else "allowed")  # fmt: skip
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, top)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(axis_number))
    _finish(axes, run, "messages")


def draw_broker(axes: Axes, run: RunResult) -> None:
    """Draw the CPU that the broker's process uses, in cores."""
    known = [second for second in run.seconds if second.broker_cpu_cores is not None]
    cpu = [second.broker_cpu_cores or 0.0 for second in known]
    axes.plot(_times(known), cpu, color=COLOURS["backlog"], linewidth=1.6, label="CPU")
    axes.set_ylim(0, max([*cpu, 0.1]))
    _finish(axes, run, "cores")


def draw_memory(axes: Axes, run: RunResult) -> None:
    """Draw the memory that the broker's process uses, in MiB."""
    known = [second for second in run.seconds if second.broker_rss_bytes is not None]
    memory = [(second.broker_rss_bytes or 0) / 2**20 for second in known]
    axes.plot(_times(known), memory, color=COLOURS["unconfirmed"], linewidth=1.6, label="memory")
    axes.set_ylim(0, max([*memory, 1.0]))
    _finish(axes, run, "MiB")


def _times(seconds: Iterable[Second]) -> list[float]:
    return [second.second + 0.5 for second in seconds]


def _positive(value: float | None) -> float:
    """For a log axis."""
    return value if value is not None and value > 0 else float("nan")


def _finish(axes: Axes, run: RunResult, unit: str) -> None:
    """Steps, axes and legend."""
    end = max(len(run.seconds), run.steps[-1].end_s)
    points = 72 / axes.figure.dpi
    width_points = axes.get_window_extent().width * points
    _make_room(axes, LABEL_ROOM_POINTS / (axes.get_window_extent().height * points))
    for step in run.steps:
        _mark_step(axes, step, (step.end_s - step.start_s) / end * width_points)
    axes.axvline(run.steps[-1].end_s, color=COLOURS["edge"], linewidth=0.8)
    axes.set_xlim(0, end)
    axes.set_ylabel(unit)
    axes.set_xlabel("seconds since the start of the run")
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, steps=[1, 2, 5, 10]))
    if axes.get_yscale() == "linear":
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(axis_number))
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=6, borderaxespad=0.2,
                columnspacing=1.4, handlelength=1.8, handletextpad=0.5)  # fmt: skip


def _make_room(axes: Axes, part: float) -> None:
    """Leave the upper `part` of the axes empty, whatever their scale."""
    scale = axes.yaxis.get_transform()
    low, high = (float(scale.transform(value)) for value in axes.get_ylim())
    above = high + (high - low) * part / (1 - part)
    axes.set_ylim(axes.get_ylim()[0], float(scale.inverted().transform(above)))


def _mark_step(axes: Axes, step: Step, room_points: float) -> None:
    """A line where it starts, shading over its warm-up, and its name as far as there is room."""
    axes.axvspan(step.start_s, step.warm_s, color=COLOURS["warm"], linewidth=0, zorder=0)
    axes.axvline(step.start_s, color=COLOURS["edge"], linewidth=0.8)
    number = f"{step.in_flight_limit or 0:,}"
    name = "no limit" if step.in_flight_limit is None else f"limit {number}"
    sign = CLASS_SIGNS[step.step_class]
    words = (
        (name if _fits(name, room_points) else number, COLOURS["ink"]),
        (f"{sign} {step.step_class}" if _fits(f"{sign} {step.step_class}", room_points) else sign,
         COLOURS["muted"]),
    )  # fmt: skip
    for line, (text, colour) in enumerate(words):
        axes.annotate(
            text,
            xy=(step.start_s, 1),
            xycoords=("data", "axes fraction"),
            xytext=(5, -3 - 11 * line),
            textcoords="offset points",
            va="top",
            fontsize=8,
            color=colour,
        )


def _fits(text: str, room_points: float) -> bool:
    return len(text) * LABEL_POINTS_PER_LETTER < room_points
