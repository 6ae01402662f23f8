"""Which lines of a chart are worth showing, and how they are drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from sluicemq.spark.pipeline.charts import (
    CHARTS,
    NODE_CHARTS,
    OVERLAYS,
    lines_shown,
    series_of,
    series_of_nodes,
)
from sluicemq.spark.pipeline.drawing import COLOURS, RUN_STYLES
from sluicemq.spark.pipeline.plots import draw, draw_nodes, draw_overlay, have_the_same_steps
from sluicemq.spark.pipeline.results import NodeSecond, RunResult, Second
from sluicemq.spark.pipeline.store import columns_of

from .records import make_run, make_step

RUN = make_run([make_step(10), make_step(20, number=1)])
BY_NAME = {chart.name: chart for chart in CHARTS}


def with_seconds(**changes: object) -> RunResult:
    return replace(RUN, seconds=[replace(second, **changes) for second in RUN.seconds])  # type: ignore[arg-type]


@pytest.mark.parametrize("chart", [*CHARTS, *OVERLAYS], ids=lambda chart: chart.name)
def test_every_chart_has_columns_and_colours(chart: object) -> None:
    lines = chart.lines  # type: ignore[attr-defined]
    assert {line.column for line in lines} <= columns_of(Second).keys()
    assert {line.role for line in lines} <= COLOURS.keys()


@pytest.mark.parametrize("chart", NODE_CHARTS, ids=lambda chart: chart.name)
def test_charts_of_nodes_have_columns_and_colours(chart: object) -> None:
    (line,) = chart.lines  # type: ignore[attr-defined]
    assert line.column in columns_of(NodeSecond)
    assert line.role in COLOURS


def test_names_of_charts_are_different() -> None:
    names = [chart.name for chart in (*CHARTS, *OVERLAYS, *NODE_CHARTS)]
    assert len(names) == len(set(names))


def test_what_nobody_measured_has_no_chart() -> None:
    series = series_of(with_seconds(broker_cpu_cores=None, unconfirmed=0, unacked=0))
    assert lines_shown(BY_NAME["cpu"], series) == []
    assert lines_shown(BY_NAME["in-flight"], series) == []
    assert lines_shown(BY_NAME["memory"], series) != []


def test_a_backlog_of_nothing_is_shown_and_what_nobody_asked_is_not() -> None:
    series = series_of(with_seconds(backlog=0, messages_ready=None))
    assert [line.column for line in lines_shown(BY_NAME["backlog"], series)] == ["backlog"]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_run_without_seconds_can_be_drawn(name: str) -> None:
    empty = replace(RUN, seconds=[])
    draw(Figure().add_subplot(), empty, BY_NAME[name], series_of(empty))


def test_a_line_of_a_node_leads_over_seconds_in_which_nobody_asked() -> None:
    asked = [
        replace(row, leaders=row.leaders if row.second % 5 == 0 else None) for row in RUN.nodes
    ]
    nodes = series_of_nodes(replace(RUN, nodes=asked))
    assert list(nodes) == ["n1", "n2", "n3"]
    assert nodes["n1"]["leaders"][:6] == [4, None, None, None, None, 4]
    axes = Figure().add_subplot()
    chart = next(chart for chart in NODE_CHARTS if chart.name == "node-leaders")
    draw_nodes(axes, RUN, chart, nodes)
    first = axes.get_lines()[0]
    assert list(first.get_xdata()) == [0.5, 5.5, 10.5, 15.5]
    assert list(first.get_ydata()) == [4, 4, 4, 4]


def test_levels_and_lines_have_names_once() -> None:
    axes = Figure().add_subplot()
    draw(axes, RUN, BY_NAME["in-flight"], series_of(RUN))
    assert axes.get_legend_handles_labels()[1] == ["unconfirmed", "unacknowledged", "allowed"]


def test_memory_is_drawn_in_its_unit() -> None:
    axes = Figure().add_subplot()
    draw(axes, RUN, BY_NAME["memory"], series_of(RUN))
    assert set(axes.lines[0].get_ydata()) == {90.0}


def test_runs_in_one_chart_differ_in_more_than_colour() -> None:
    runs = [replace(RUN, label=str(number)) for number in range(len(RUN_STYLES))]
    axes = Figure().add_subplot()
    draw_overlay(axes, runs, OVERLAYS[0], [series_of(run) for run in runs])
    assert {style.role for style in RUN_STYLES} <= COLOURS.keys()
    assert len({line.get_color() for line in axes.lines[: len(runs)]}) == len(runs)
    assert len({str(style.dash) for style in RUN_STYLES}) == len(RUN_STYLES)


def test_steps_are_the_same_by_limit_and_time() -> None:
    other = make_run([make_step(10), make_step(30, number=1)])
    late = make_run([make_step(10), make_step(20, number=1, start_s=11.0)])
    assert have_the_same_steps(RUN, RUN)
    assert not have_the_same_steps(RUN, other)
    assert not have_the_same_steps(RUN, late)
