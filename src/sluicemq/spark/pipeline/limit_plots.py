"""Plots throughput and latency against the in-flight limit, where the knee shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from sluicemq.spark.pipeline.drawing import (
    COLOURS,
    HIGH,
    Picture,
    axis_number,
    draw_svg,
    is_narrow,
    latency_axis,
    run_style,
)
from sluicemq.spark.pipeline.results import RunResult, Step


def over_limit(runs: Sequence[RunResult], about: str) -> Picture:
    """Plot throughput and p99 latency against the in-flight limit, for all runs; `about` is the
    description for screen readers."""

    def fill(figure: Figure) -> None:
        first, second = figure.subplots(2, 1) if is_narrow(figure) else figure.subplots(1, 2)
        draw_throughput_over_limit(first, runs)
        draw_latency_over_limit(second, runs)

    return draw_svg(fill, HIGH, about, 2 * HIGH)


def draw_throughput_over_limit(axes: Axes, runs: Sequence[RunResult]) -> None:
    """Draw the rate that each limit sustains, in messages per second; the line of a run without
    limits is horizontal."""
    _draw_over_limit(axes, runs, lambda step: step.sustained_per_s)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.12)
    axes.set_title("sustained throughput, messages/s", loc="left", fontsize=9, color=COLOURS["ink"])
    axes.yaxis.set_major_formatter(FuncFormatter(axis_number))


def draw_latency_over_limit(axes: Axes, runs: Sequence[RunResult]) -> None:
    """Draw the p99 end-to-end latency from the write at each limit, in ms; the line of a run
    without limits is horizontal."""
    _draw_over_limit(axes, runs, lambda step: step.latencies.end_to_end_service.p99_ms)
    if axes.lines:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(low / 1.5, high * 2)
    latency_axis(axes)
    axes.set_title(
        "p99 end-to-end latency from the write", loc="left", fontsize=9, color=COLOURS["ink"]
    )


def _draw_over_limit(
    axes: Axes, runs: Sequence[RunResult], value: Callable[[Step], float | None]
) -> None:
    limits = sorted({step.in_flight_limit or 0 for run in runs for step in run.limited_steps})
    place = {limit: position for position, limit in enumerate(limits)}
    for position, run in enumerate(runs):
        style = run_style(position)
        colour = COLOURS[style.role]
        if not run.limited_steps:
            level = value(run.steps[0])
            if level is not None:
                axes.axhline(level, color=colour, linestyle=style.dash, linewidth=1.4)
            continue
        points = [(place[step.in_flight_limit or 0], value(step)) for step in run.limited_steps]
        known = [(x, y) for x, y in points if y is not None]
        if known:
            xs, ys = zip(*known, strict=True)
            axes.plot(xs, ys, color=colour, linestyle=style.dash, marker=style.marker,
                  linewidth=1.6, markersize=5)  # fmt: skip
        if run.knee is not None:
            knee = place[run.knee.in_flight_limit]
            axes.axvspan(knee - 0.3, knee + 0.3, color=COLOURS["highlight"], linewidth=0, zorder=0)
    axes.set_xticks(range(len(limits)), [f"{limit:,}" for limit in limits])
    axes.set_xlim(-0.5, len(limits) - 0.5)
    axes.set_xlabel("in-flight limit, messages per publisher")
