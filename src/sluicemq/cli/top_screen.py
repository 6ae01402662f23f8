"""The screen of `sluicemq top`: makes what rich draws from two looks at a broker.

Pure: figures in (`manage/gateway.py`, `manage/records.py`), lines out, as many as there is room
for. Unprintable characters of names are escaped, and names are never taken as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sluicemq.cli.chain_picture import picture
from sluicemq.cli.formats import escaped
from sluicemq.manage.record_columns import QUEUES, RECORDS

RATES: Final = ("published", "confirmed", "delivered", "acknowledged")
"""The broker's counters whose rates are shown."""

STAGES: Final = ("q1", "q2", "delta", "q3", "q4")
CHAIN_ROWS: Final = 3
"""Rows of each stage of the chain that are shown."""

QUEUE_LINES_MIN: Final = 5
Row = dict[str, Any]


class QueueRates(NamedTuple):
    """A queue's record, and how many messages enter and leave it per second."""

    row: Row
    come: float
    go: float


class BrokerLook(NamedTuple):
    """The state of a broker at one time: its figures, the chain and its queues, and when it was
    asked for them, by a clock in seconds."""

    time_s: float
    node: Row
    chain: Row
    queues: Sequence[QueueRates]
    queues_time_s: float


def queues_now(
    records: Sequence[Any], before: Sequence[QueueRates], seconds: float
) -> list[QueueRates]:
    """Return the queues of these records, with rates since the look before, `seconds` ago."""
    then = {(each.row["vhost"], each.row["name"]): each.row for each in before}
    found = []
    for values in records:
        row = dict(zip(RECORDS[QUEUES], values, strict=True))
        old = then.get((row["vhost"], row["name"]), row)
        come = rate(row["publish"], old["publish"], seconds)
        found.append(QueueRates(row, come, rate(gone(row), gone(old), seconds)))
    return found


def gone(row: Row) -> int:
    """Return how many messages a queue has delivered."""
    return sum(row[name] for name in ("deliver", "deliver_no_ack", "get", "get_no_ack"))


def rate(new: float, old: float, seconds: float) -> float:
    """Return how fast a counter grows per second; one that has begun anew counts from 0."""
    return (new - old if new >= old else new) / seconds if seconds > 0 else 0.0


def size(count: float) -> str:
    """Return a number of bytes as text with a unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def lasting(milliseconds: int) -> str:
    """Return how long a broker has been up, as text."""
    minutes = milliseconds // 60_000
    hours, days = minutes // 60, minutes // 1440
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def screen(
    look: BrokerLook, before: BrokerLook, width: int, height: int, trouble: str = ""
) -> RenderableType:
    """Return everything for a terminal of this size; `trouble` tells why the figures are not
    current."""
    drawn = picture(look.chain["stages"], look.chain["links"], width, CHAIN_ROWS)
    lines = [*header(look, before), *map(plain, drawn)]
    if trouble:
        lines.insert(0, Text(escaped(trouble), style="bold red", no_wrap=True))
    room = max(QUEUE_LINES_MIN, height - len(lines) - 3)
    kept = [*lines[: max(1, height - room - 1)], Text("")]
    return Group(*kept, queue_table(look.queues, room))


def plain(line: str) -> Text:
    """Return a line of the chain's picture."""
    return Text(escaped(line), no_wrap=True, overflow="ellipsis")


def header(look: BrokerLook, before: BrokerLook) -> list[Text]:
    """Return the lines about the whole broker."""
    node, totals = look.node, look.node["totals"]
    seconds = look.time_s - before.time_s
    then = before.node["counters"]
    rates = ", ".join(
        f"{name} {rate(node['counters'][name], then[name], seconds):,.0f}/s" for name in RATES
    )
    memory, disk = node["memory"], node["disk"]
    first = Text(no_wrap=True)
    first.append(f"SluiceMQ {node['version']}", style="bold cyan")
    first.append(f"  {escaped(node['name'] or '')}  up {lasting(node['uptime_ms'])}   q: leave")
    lines = [
        first,
        Text(
            f"{totals['messages_ready']:,} ready, {totals['messages_unacknowledged']:,}"
            f" unacknowledged; {rates}",
            no_wrap=True,
        ),
        Text(
            f"memory {size(memory['resident_bytes'])} of {size(memory['limit_bytes'])},"
            f" disk free {size(disk['free_bytes'] or 0)};"
            f" {totals['connections']:,} connections, {totals['channels']:,} channels,"
            f" {totals['consumers']:,} consumers, {totals['queues']:,} queues",
            no_wrap=True,
        ),
    ]
    for source, reason in node["alarms"].items():
        lines.append(Text(f"{source} ALARM: {escaped(reason)}", style="bold red", no_wrap=True))
    return [*lines, Text("")]


def queue_table(queues: Sequence[QueueRates], room: int) -> Table:
    """Return the busiest queues, and where the messages of each are."""
    busiest = sorted(
        queues, key=lambda each: (-each.come - each.go, -each.row["messages"], each.row["name"])
    )
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("queue", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("state", no_wrap=True)
    for title in ("ready", "unacked", "in/s", "out/s", *STAGES):
        table.add_column(title, justify="right", no_wrap=True)
    for row, come, go in busiest[: room - 1]:
        where = "" if row["vhost"] == "/" else f" in {row['vhost']}"
        style = "green" if row["state"] == "running" else "yellow"
        table.add_row(
            Text(escaped(row["name"] + where)),
            Text(escaped(row["state"]), style=style),
            f"{row['messages_ready']:,}",
            f"{row['messages_unacknowledged']:,}",
            f"{come:,.0f}",
            f"{go:,.0f}",
            *(f"{count:,}" for count in stages(row["backing_queue_status"])),
        )
    return table


def stages(status: Mapping[str, Any]) -> list[int]:
    """Return how many messages are at each of the five places; empty without a status."""
    return [status[name] if name != "delta" else status[name]["count"] for name in STAGES if status]
