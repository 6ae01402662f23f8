"""The look of the plots: colours by role, type, margins; and SVG as a part of the page.

matplotlib draws. Each colour stands for a role (a word of COLOURS); in the page it becomes a CSS
variable, so that one drawing serves light and dark. Lines differ in width or dash as well as in
colour. Each plot is drawn twice, for wide pages and for phones, because letters must not shrink
with a page; the style sheet shows one of them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sluicemq.spark.pipeline.results import StepClass

COLOURS: Final = {
    "ink": "#1c2024",
    "muted": "#60656d",
    "grid": "#e6e8eb",
    "edge": "#b4b9c0",
    "warm": "#f3f4f6",
    "published": "#56a0d3",
    "delivered": "#b34700",
    "p50": "#8cc5e3",
    "p75": "#4a9ccc",
    "p95": "#1b6ca8",
    "p99": "#0b3c68",
    "max": "#8b8f96",
    "service": "#c25e00",
    "backlog": "#0b6e4f",
    "unconfirmed": "#7a3e9d",
    "unacked": "#c77d0a",
    "heat1": "#e3edf7",
    "heat2": "#b3d0ea",
    "heat3": "#6fa8d8",
    "heat4": "#2f75b5",
    "heat5": "#0a3a6b",
    "highlight": "#fff3cd",
    "paper": "#ffffff",
}
"""By role, on white paper. The page's style sheet has the same roles on dark paper."""

CLASS_SIGNS: Final = {
    StepClass.STEADY: "●",
    StepClass.SWINGING: "≈",
    StepClass.BACKLOG_GROWING: "▲",
    StepClass.COLLAPSED: "✕",
}

LOW, MIDDLE, HIGH = 1.9, 2.5, 3.1
"""Heights of plots, inches."""


@dataclass(frozen=True, slots=True)
class Format:
    """The width of plots and their margins, in inches: the same for all, so that plots below one
    another line up."""

    name: str
    """The class of the SVG element, by which the style sheet shows it or not."""
    width: float
    left: float
    right: float
    top: float
    bottom: float
    legend_columns: int


WIDE: Final = Format("broad", 10.4, 0.78, 0.12, 0.3, 0.5, 6)
NARROW: Final = Format("narrow", 4.5, 0.74, 0.1, 0.5, 0.5, 3)


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot in both formats, as parts of the page."""

    broad: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True)
class RunStyle:
    """The style of one of several runs in a plot."""

    role: str
    dash: Any
    marker: str

    @property
    def dashes(self) -> str:
        """The dashes and gaps in the form of SVG, empty for a line without gaps."""
        return "" if self.dash == "-" else " ".join(f"{1.7 * part:g}" for part in self.dash[1])


RUN_STYLES: Final = (
    RunStyle("p95", "-", "o"),
    RunStyle("delivered", (0, (5, 2)), "s"),
    RunStyle("backlog", (0, (6, 2, 1, 2)), "^"),
    RunStyle("unconfirmed", (0, (1, 1.5)), "D"),
    RunStyle("unacked", (0, (3, 1, 1, 1, 1, 1)), "v"),
    RunStyle("ink", (0, (8, 3)), "P"),
    RunStyle("published", (0, (2, 2)), "X"),
)


def run_style(position: int) -> RunStyle:
    """Return the style of the run at this position, from 0; the eighth has that of the first
    again."""
    return RUN_STYLES[position % len(RUN_STYLES)]


MILLION: Final = 1_000_000

OVER_TIME: Final = "over-time"
"""The mark of what lies along a plot's axis of seconds, so that the page's script can zoom."""

POINTS: Final = 72
"""Points an inch, the unit of an SVG's lengths."""

LABEL_POINTS_PER_LETTER: Final = 5.2
LABEL_ROOM_POINTS: Final = 34
"""Above the curves, for the steps' labels."""

FEW_DECADES: Final = 200.0
"""Largest over smallest value of a log axis up to which 2 and 5 get ticks."""

STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.edgecolor": COLOURS["edge"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.8,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "text.color": COLOURS["ink"],
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "round",
}


def axis_number(value: float, _: int) -> str:
    """Return the label of a tick, without needless digits; millions have their unit."""
    if value >= MILLION:
        return f"{value / MILLION:,g} M"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2g}"


def latency_axis(axes: Axes) -> None:
    """Label the y axis, whose values are milliseconds, in µs, ms or s. When few powers of ten are
    in sight, there are ticks between them, too."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log" and high / low < FEW_DECADES:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _tick(value_ms: float) -> str:
    if value_ms >= 1000:
        return f"{value_ms / 1000:,.0f} s"
    return f"{value_ms:g} ms" if value_ms >= 1 else f"{value_ms * 1000:g} µs"


def is_narrow(figure: Any) -> bool:
    """Tell whether a figure is the one for phones."""
    return bool(figure.get_figwidth() <= NARROW.width)


def legend_above(axes: Axes) -> None:
    """Put the legend above the plot, at its right end; there is none when nothing has a name."""
    if axes.get_legend_handles_labels()[1]:
        columns = (NARROW if is_narrow(axes.figure) else WIDE).legend_columns
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, borderaxespad=0.2,
                    columnspacing=1.4, handlelength=1.8, handletextpad=0.5)  # fmt: skip


def draw_svg(
    fill: Callable[[Figure], None], height: float, about: str, narrow_height: float | None = None
) -> Picture:
    """Have `fill` draw into a figure, `height` inches high, and return it as parts of the page,
    which scales and colours them. `about` is the description for screen readers; for phones the
    figure is `narrow_height` high, if given."""
    return Picture(
        _drawn(fill, height, about, WIDE), _drawn(fill, narrow_height or height, about, NARROW)
    )


def _drawn(fill: Callable[[Figure], None], height: float, about: str, form: Format) -> Markup:
    with mpl.rc_context({**STYLE, "svg.hashsalt": form.name + about}):
        figure = Figure(figsize=(form.width, height))
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        figure.subplots_adjust(
            form.left / form.width,
            form.bottom / height,
            1 - form.right / form.width,
            1 - form.top / height,
            wspace=0.2,
            hspace=0.5,
        )
        fill(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    frame = (form.left, form.top, form.width - form.right, height - form.bottom)
    return page_part(buffer.getvalue(), about, form.name, frame)


def step_mark(start_s: float, end_s: float) -> str:
    """Return the mark of a label that belongs to a step from `start_s` to `end_s`."""
    return f"step {start_s:g} {end_s:g}"


def _group(found: re.Match[str]) -> str:
    """Return the beginning of a group of matplotlib's: what the page's script moves has a class."""
    kind, *bounds = found[1].split(" ")
    if kind == OVER_TIME:
        return f'<g class="{OVER_TIME}"'
    if kind.startswith("xtick"):
        return '<g class="tick"'
    if bounds:
        return f'<g class="step" data-start="{bounds[0]}" data-end="{bounds[1]}"'
    return "<g"


def page_part(svg: str, about: str, name: str, frame: Sequence[float]) -> Markup:
    """Return matplotlib's SVG file as an inline element without size, ids or fonts of its own. It
    is safe as markup, because matplotlib has escaped its text. `data-frame` has the bounds of the
    plot for the page's script: left, top, right and bottom, in points."""
    svg = svg[svg.index("<svg") :]
    view_box = re.search(r'viewBox="[^"]*"', svg)
    assert view_box is not None
    points = " ".join(f"{inches * POINTS:g}" for inches in frame)
    opening = (
        f'<svg class="{name}" {view_box[0]} data-frame="{points}" role="img" '
        f'aria-label="{escape(about)}">'
    )
    svg = opening + svg[svg.index(">") + 1 :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="([^"]*)"', _group, svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    for role, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{role})")
    return Markup(svg)
