"""Plots for the page's template `figure.html`: with captions and legends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluicemq.spark.pipeline.drawing import Picture, RunStyle, run_style
from sluicemq.spark.pipeline.results import RunResult

Legend = Sequence[tuple[str, RunStyle]]
"""Names, which may be long, each with the style of its line."""


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A plot with its caption, and a legend if its curves need more than the plot shows. For a plot
    over time the page's script gets the chart, the positions of its runs, and how many seconds its
    axis has."""

    title: str
    caption: str
    picture: Picture
    chart: str = ""
    runs: str = ""
    end_s: float = 0.0
    legend: Legend = ()


def run_legend(runs: Sequence[RunResult]) -> Legend:
    """Return the legend of a plot of these runs; a single one needs none."""
    several = len(runs) > 1
    return [(run.label, run_style(number)) for number, run in enumerate(runs)] if several else []
