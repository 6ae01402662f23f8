"""The charts over a run's time as data: the columns of per_second, or of per_node, that they show,
and how.

`plots.py` draws them, and the page's script reads them to show the figures under the pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from sluicemq.spark.pipeline.drawing import HIGH, LOW, MIDDLE
from sluicemq.spark.pipeline.results import NodeSecond, RunResult, Second
from sluicemq.spark.pipeline.store import columns_of, flatten

Series = Mapping[str, Sequence[float | None]]
"""A column of per_second each, with a value for each second of one run; or one of per_node, with a
value for each second of one node."""


class Unit(StrEnum):
    """The units of charts, as they stand beside the axis."""

    RATE = "messages/s"
    MESSAGES = "messages"
    LATENCY = "latency"
    CORES = "cores"
    MEMORY = "MiB"
    CONNECTIONS = "connections"
    QUEUES = "queues"


DIVISORS: Final = {Unit.MEMORY: 2**20}
"""The divisors of columns that are not in their unit."""


class Scale(StrEnum):
    """The kinds of vertical axes."""

    LINEAR = "linear"
    LOG = "log"
    LOG_FROM_ZERO = "symlog"


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A column of per_second, and the style of its line."""

    column: str
    label: str
    role: str
    """The role of its colour, in COLOURS."""
    width: float = 1.6
    dash: str = "-"
    optional: bool = False
    """Whether to omit it when it is 0 all the time, or was never measured."""


class Level(NamedTuple):
    """A height to mark for some seconds."""

    start_s: float
    end_s: float
    value: float


def no_levels(_: RunResult) -> list[Level]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart over time: its title, its lines and its marked levels."""

    name: str
    title: str
    caption: str
    """The rest of the sentence that the title begins."""
    unit: Unit
    lines: Sequence[ChartLine]
    height: float = LOW
    """The height in inches."""
    scale: Scale = Scale.LINEAR
    floor: float = 0.1
    """The least value at the top of a linear axis."""
    always: bool = False
    """Whether to show it when it is empty, too, because that is the result."""
    levels: Callable[[RunResult], list[Level]] = no_levels
    levels_label: str = ""


def series_of(run: RunResult) -> Series:
    """Return the columns of per_second for one run."""
    rows = [flatten(second) for second in run.seconds]
    return {column: [row[column] for row in rows] for column in columns_of(Second)}


def series_of_nodes(run: RunResult) -> dict[str, Series]:
    """Return the columns of per_node for each node of one run, by its name; a value is None in a
    second without a sample."""
    last = max((row.second for row in run.nodes), default=-1)
    columns = columns_of(NodeSecond)
    found: dict[str, dict[str, list[float | None]]] = {}
    for row in run.nodes:
        if row.node not in found:
            found[row.node] = {column: [None] * (last + 1) for column in columns}
        own = found[row.node]
        for column, value in flatten(row).items():
            own[column][row.second] = value
    return {**found}


def lines_shown(chart: Chart, series: Series) -> list[ChartLine]:
    """Return the lines of a chart for which a run has values; none when the whole chart is not
    worth showing."""
    lines = [x for x in chart.lines if not x.optional or any(series[x.column])]
    if chart.always or any(any(series[line.column]) for line in lines):
        return lines
    return []


def _wanted(run: RunResult) -> list[Level]:
    return [Level(run.steps[0].start_s, run.steps[-1].end_s, run.target_per_s)]


def _allowed(run: RunResult) -> list[Level]:
    publishers = run.info["publishers"]
    return [
        Level(step.start_s, step.end_s, (step.in_flight_limit or 0) * publishers)
        for step in run.limited_steps
    ]


def _latency_lines(kind: str) -> list[ChartLine]:
    widths = {"p50": 1.2, "p75": 1.4, "p95": 1.7, "p99": 2.2, "max": 1.0}
    lines = [
        ChartLine(f"{kind}_response_{name}_ms", name, name, width, ":" if name == "max" else "-")
        for name, width in widths.items()
    ]
    return [*lines, ChartLine(f"{kind}_service_p99_ms", "p99 from the write", "service", 1.2, "--")]


THROUGHPUT: Final = Chart(
    name="throughput",
    title="Throughput.",
    caption="A line marks the start of each step, shading its warm-up. Where both curves lie on "
    "each other, consumers keep up.",
    unit=Unit.RATE,
    lines=[
        ChartLine("published_per_s", "published", "published", 3.4),
        ChartLine("delivered_per_s", "delivered", "delivered", 1.3),
    ],
    height=MIDDLE,
    always=True,
    levels=_wanted,
    levels_label="wanted",
)

END_TO_END: Final = Chart(
    name="end-to-end",
    title="End-to-end latency,",
    caption="log scale, from the moment a message was meant to be sent, so that waiting in the "
    "publisher counts. The dashed line counts from the write: where p99 is above it, publishers "
    "were held up.",
    unit=Unit.LATENCY,
    lines=_latency_lines("end_to_end"),
    height=HIGH,
    scale=Scale.LOG,
    always=True,
)

CHARTS: Final = (
    THROUGHPUT,
    END_TO_END,
    Chart(
        name="confirm",
        title="Confirm latency,",
        caption="log scale, counted likewise, by the second the message was written in.",
        unit=Unit.LATENCY,
        lines=_latency_lines("confirm"),
        height=HIGH,
        scale=Scale.LOG,
    ),
    Chart(
        name="backlog",
        title="Backlog",
        caption="at the end of each second.",
        unit=Unit.MESSAGES,
        lines=[
            ChartLine("backlog", "published, not delivered", "backlog", 2),
            ChartLine("messages_ready", "ready, says the broker", "muted", dash=".", optional=True),
        ],
        floor=10,
        always=True,
    ),
    Chart(
        name="in-flight",
        title="In flight",
        caption="at the end of each second, all clients together, log scale. “Allowed” is the "
        "limit times the publishers: where unconfirmed reaches it, the limit holds publishers "
        "back.",
        unit=Unit.MESSAGES,
        lines=[
            ChartLine("unconfirmed", "unconfirmed", "unconfirmed", optional=True),
            ChartLine("unacked", "unacknowledged", "unacked", dash=":"),
        ],
        height=MIDDLE,
        scale=Scale.LOG_FROM_ZERO,
        levels=_allowed,
        levels_label="allowed",
    ),
    Chart(
        name="cpu",
        title="CPU of the broker,",
        caption="in cores.",
        unit=Unit.CORES,
        lines=[ChartLine("broker_cpu_cores", "CPU", "backlog")],
    ),
    Chart(
        name="memory",
        title="Memory of the broker,",
        caption="resident set (RSS).",
        unit=Unit.MEMORY,
        lines=[ChartLine("broker_rss_bytes", "memory", "unconfirmed")],
    ),
)
"""The charts of a single run, in the order of the page."""

OVERLAYS: Final = (
    Chart(
        name="delivered",
        title="Delivered,",
        caption="all runs from their start on.",
        unit=Unit.RATE,
        lines=[ChartLine("delivered_per_s", "delivered", "delivered")],
        height=MIDDLE,
        always=True,
    ),
    Chart(
        name="p99",
        title="p99 end-to-end latency,",
        caption="log scale, from the intended time.",
        unit=Unit.LATENCY,
        lines=[ChartLine("end_to_end_response_p99_ms", "p99", "p99")],
        height=MIDDLE,
        scale=Scale.LOG,
        always=True,
    ),
    Chart(
        name="p99-service",
        title="p99 end-to-end latency from the write,",
        caption="log scale: the broker's own share.",
        unit=Unit.LATENCY,
        lines=[ChartLine("end_to_end_service_p99_ms", "p99 from the write", "service")],
        height=MIDDLE,
        scale=Scale.LOG,
        always=True,
    ),
    Chart(
        name="backlogs",
        title="Backlog",
        caption="at the end of each second.",
        unit=Unit.MESSAGES,
        lines=[ChartLine("backlog", "published, not delivered", "backlog")],
        floor=10,
        always=True,
    ),
    Chart(
        name="cpus",
        title="CPU of the brokers,",
        caption="in cores.",
        unit=Unit.CORES,
        lines=[ChartLine("broker_cpu_cores", "CPU", "backlog")],
    ),
    Chart(
        name="memories",
        title="Memory of the brokers,",
        caption="resident set (RSS).",
        unit=Unit.MEMORY,
        lines=[ChartLine("broker_rss_bytes", "memory", "unconfirmed")],
    ),
)
"""The charts of several runs over one another. Each has one line, which is drawn for each run."""

NODE_CHARTS: Final = (
    Chart(
        name="node-cpu",
        title="CPU of each node,",
        caption="in cores.",
        unit=Unit.CORES,
        lines=[ChartLine("cpu_cores", "CPU", "backlog")],
    ),
    Chart(
        name="node-memory",
        title="Memory of each node,",
        caption="resident set (RSS).",
        unit=Unit.MEMORY,
        lines=[ChartLine("rss_bytes", "memory", "unconfirmed")],
    ),
    Chart(
        name="node-flow",
        title="Connections in flow on each node,",
        caption="those that flow control holds up when the node is asked.",
        unit=Unit.CONNECTIONS,
        lines=[ChartLine("flow_connections", "in flow", "unacked")],
        floor=1,
    ),
    Chart(
        name="node-leaders",
        title="Leaders on each node,",
        caption="or masters, or classic queues: of how many queues it does the work.",
        unit=Unit.QUEUES,
        lines=[ChartLine("leaders", "leaders", "p95")],
        floor=1,
    ),
)
"""The charts of the nodes of one run. Each has one line, which is drawn for each node."""
