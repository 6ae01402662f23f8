"""Draws distributions of latency: over the share of messages, and over the seconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sluicemq.spark.pipeline.charts import Unit
from sluicemq.spark.pipeline.drawing import (
    CLASS_SIGNS,
    COLOURS,
    HIGH,
    MIDDLE,
    Picture,
    RunStyle,
    draw_svg,
    latency_axis,
)
from sluicemq.spark.pipeline.percentiles import POINTS_PER_DECADE
from sluicemq.spark.pipeline.plots import finish
from sluicemq.spark.pipeline.results import DistributionPoint, HeatCell, RunResult

Curve = tuple[RunStyle, Sequence[DistributionPoint]]

TICK_SHARES: Final = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)

HEAT_COLUMNS_MAX: Final = 150
"""The most columns of a heat map: those of longer runs stand for several seconds."""

HEAT_STEPS: Final = (
    ("heat1", 0.0, "under 1 %"),
    ("heat2", 0.01, "1 to 5 %"),
    ("heat3", 0.05, "5 to 15 %"),
    ("heat4", 0.15, "15 to 35 %"),
    ("heat5", 0.35, "over 35 %"),
)
"""Colour, the least share of a column's messages that has it, and its name."""

CORNERS: Final = (Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY)


def distribution(curves: Sequence[Curve], about: str) -> Picture:
    """Draw each distribution as a curve: the latency, on a log axis, that a share of the messages
    does not exceed. The axis of shares is logarithmic in the rest above them."""

    def fill(figure: Figure) -> None:
        draw_distribution(figure.add_subplot(), curves)

    return draw_svg(fill, HIGH, about)


def draw_distribution(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw the curves, each in its style."""
    rarest, values = 10.0, []
    for style, points in curves:
        below = [1 / (1 - point.share) for point in points if point.share < 1]
        # No message is above the largest latency; its point is where the next one would be.
        beyond = max(below, default=1.0) * 10 ** (1 / POINTS_PER_DECADE)
        rarities = [1 / (1 - point.share) if point.share < 1 else beyond for point in points]
        latencies = [point.latency_ms for point in points]
        axes.plot(rarities, latencies, color=COLOURS[style.role], linestyle=style.dash,
                  linewidth=1.7)  # fmt: skip
        rarest = max([rarest, *rarities])
        values += [value for value in latencies if value > 0]
    axes.set_xscale("log")
    axes.set_xlim(1, rarest)
    ticks = [1 / (1 - share) for share in TICK_SHARES]
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick <= rarest]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{round((1 - 1 / x) * 100, 4):g} %"))
    axes.set_yscale("log")
    if values:
        axes.set_ylim(min(values) / 1.3, max(values) * 1.3)
    latency_axis(axes)
    axes.set_ylabel(Unit.LATENCY)
    axes.set_xlabel("share of the messages that took at most so long")


def heat(run: RunResult, about: str) -> Picture:
    """Draw the latencies of each second: the stronger a colour, the more messages."""

    def fill(figure: Figure) -> None:
        draw_heat(figure.add_subplot(), run)

    return draw_svg(fill, MIDDLE, about)


def draw_heat(axes: Axes, run: RunResult) -> None:
    """Draw the cells of the run's heat map, all of one colour as one path."""
    width = -(-len(run.seconds) // HEAT_COLUMNS_MAX) or 1
    for role, cells in _by_colour(run.heat, width).items():
        corners = [
            corner
            for column, low, high in cells
            for corner in (
                *((column * width, low), (column * width + width, low)),
                *((column * width + width, high), (column * width, high)),
                (column * width, low),
            )
        ]
        label = next(name for one, _, name in HEAT_STEPS if one == role)
        path = Path(corners, CORNERS * len(cells))
        axes.add_patch(PathPatch(path, facecolor=COLOURS[role], linewidth=0, antialiased=False,
                                 label=label))  # fmt: skip
    axes.set_yscale("log")
    if run.heat:
        axes.set_ylim(min(x.from_ms for x in run.heat if x.from_ms) / 1.2,
                      max(x.to_ms for x in run.heat) * 1.2)  # fmt: skip
    latency_axis(axes)
    signs = {step.step: f"{CLASS_SIGNS[step.step_class]} {step.step_class}" for step in run.steps}
    finish(axes, Unit.LATENCY, max(len(run.seconds), run.steps[-1].end_s), run.steps, signs)


def _by_colour(cells: Sequence[HeatCell], width: int) -> dict[str, list[tuple[int, float, float]]]:
    """Return column, lowest and highest latency of all cells of each colour, lightest first."""
    messages: defaultdict[tuple[int, float, float], int] = defaultdict(int)
    of_column: defaultdict[int, int] = defaultdict(int)
    for cell in cells:
        column = cell.second // width
        messages[column, cell.from_ms, cell.to_ms] += cell.messages
        of_column[column] += cell.messages
    found: dict[str, list[tuple[int, float, float]]] = {role: [] for role, _, _ in HEAT_STEPS}
    for (column, low, high), count in messages.items():
        share = count / of_column[column]
        role = next(role for role, least, _ in reversed(HEAT_STEPS) if share >= least)
        found[role].append((column, low, high))
    return {role: where for role, where in found.items() if where}
