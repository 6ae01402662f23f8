"""How the plots look: colours by role, type, margins; and an SVG as a part of the page.

matplotlib draws. Each colour stands for a role (a word of COLOURS); in the page it becomes a CSS
variable, so that one drawing serves light and dark. Lines differ in width or dash as well as in
colour.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
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

WIDTH: Final = 10.4
LOW, MIDDLE, HIGH = 1.9, 2.5, 3.1
"""Heights of plots, inches."""

LEFT, RIGHT = 0.78, 0.12
TOP, BOTTOM = 0.3, 0.5
"""Margins, inches: the same for all, so that plots below one another line up."""

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
    """Return the label of a tick, without needless digits."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2g}"


def latency_axis(axes: Axes) -> None:
    """Label the y axis, whose values are milliseconds, in µs, ms or s. Where few powers of ten are
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


def draw_svg(fill: Callable[[Figure], None], height: float, about: str) -> Markup:
    """Have `fill` draw into a figure, `height` inches high, and return it as a part of the page,
    which scales and colours it. `about` describes it to those who cannot see it."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": about}):
        figure = Figure(figsize=(WIDTH, height))
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        figure.subplots_adjust(
            LEFT / WIDTH, BOTTOM / height, 1 - RIGHT / WIDTH, 1 - TOP / height, wspace=0.2
        )
        fill(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return page_part(buffer.getvalue(), about)


def page_part(svg: str, about: str) -> Markup:
    """Return matplotlib's SVG file as an inline element without size, ids or fonts of its own. It
    is safe as markup, for matplotlib has escaped what is text in it."""
    svg = svg[svg.index("<svg") :]
    view_box = re.search(r'viewBox="[^"]*"', svg)
    assert view_box is not None
    opening = f'<svg {view_box[0]} role="img" aria-label="{escape(about)}">'
    svg = opening + svg[svg.index(">") + 1 :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    for role, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{role})")
    return Markup(svg)
