"""Curves and cells are where the figures say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from sluicemq.spark.pipeline.distribution_plots import (
    HEAT_COLUMNS_MAX,
    HEAT_STEPS,
    draw_distribution,
    draw_heat,
)
from sluicemq.spark.pipeline.drawing import COLOURS, run_style
from sluicemq.spark.pipeline.results import DistributionPoint, HeatCell

from .records import make_run, make_second, make_step

RUN = make_run([make_step(10)])


def cells_of(run_cells: list[HeatCell], seconds: int) -> dict[str, list[list[float]]]:
    """The corners of each colour's cells."""
    run = replace(RUN, heat=run_cells, seconds=[make_second(x, 0) for x in range(seconds)])
    axes = Figure().add_subplot()
    draw_heat(axes, run)
    found = {}
    for patch in axes.patches:
        if isinstance(patch, PathPatch):
            label = str(patch.get_label())
            found[label] = [list(corner) for corner in patch.get_path().vertices]
    return found


def cell(second: int, messages: int, low: float = 1.0) -> HeatCell:
    return HeatCell(second=second, from_ms=low, to_ms=2 * low, messages=messages)


def test_a_cell_has_the_colour_of_its_share_of_its_second() -> None:
    found = cells_of([cell(0, 996), cell(0, 4, low=8.0), cell(1, 10), cell(1, 90, low=8.0)], 2)
    assert found["under 1 %"] == [[0, 8], [1, 8], [1, 16], [0, 16], [0, 8]]
    assert found["5 to 15 %"] == [[1, 1], [2, 1], [2, 2], [1, 2], [1, 1]]
    assert len(found["over 35 %"]) == 2 * 5


def test_columns_of_a_long_run_stand_for_several_seconds() -> None:
    seconds = 2 * HEAT_COLUMNS_MAX
    found = cells_of([cell(second, 5) for second in range(seconds)], seconds)
    corners = found["over 35 %"]
    assert len(corners) == 5 * HEAT_COLUMNS_MAX
    assert max(x for x, _ in corners) == seconds


def test_a_run_without_deliveries_can_be_drawn() -> None:
    assert cells_of([], 3) == {}
    draw_distribution(Figure().add_subplot(), [])


def test_a_single_message_is_a_curve_of_its_own() -> None:
    point = DistributionPoint(step=0, kind="end_to_end_response", share=1.0, latency_ms=3.0)
    axes = Figure().add_subplot()
    draw_distribution(axes, [(run_style(0), [point])])
    assert list(axes.lines[0].get_ydata()) == [3.0]


def test_a_curve_ends_with_the_largest_latency() -> None:
    points = [
        DistributionPoint(step=None, kind="end_to_end_response", share=share, latency_ms=latency)
        for share, latency in ((0.0, 1.0), (0.9, 5.0), (0.99, 8.0), (1.0, 9.0))
    ]
    axes = Figure().add_subplot()
    draw_distribution(axes, [(run_style(0), points)])
    (line,) = axes.lines
    assert list(line.get_ydata()) == [1.0, 5.0, 8.0, 9.0]
    assert list(line.get_xdata()[:3]) == pytest.approx([1, 10, 100])
    assert line.get_xdata()[3] > 100


def test_colours_of_heat_go_from_light_to_strong() -> None:
    shades = [int(COLOURS[role][1:3], 16) for role, _, _ in HEAT_STEPS]
    assert shades == sorted(shades, reverse=True)
    shares = [least for _, least, _ in HEAT_STEPS]
    assert shares == sorted(shares)
