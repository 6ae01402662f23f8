"""Disk, file I/O and file handles, as sections of `sluicemq ctl status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluicemq.broker.monitor import Monitor

Row = dict[str, Any]

COUNT, BYTES, TIME = "_count", "_bytes", "_time"
"""How the disk's counters end. A time is the sum in microseconds."""


def disk(monitor: Monitor, data_dir: str | None) -> Row:
    """Return the figures of the disk alarm, in bytes."""
    return {
        "free_bytes": monitor.free_bytes if monitor.free_known else "unknown",
        "limit_bytes": monitor.disk_alarm.limit_bytes,
        "data_dir": data_dir or "none",
    }


def io(counters: Mapping[str, int]) -> Row:
    """Return the totals of file I/O since the start under RabbitMQ's names: operations, bytes, and
    the average time of each."""
    facts: Row = {}
    for name, value in counters.items():
        if not name.startswith("io_"):
            continue
        if name.endswith(TIME):
            kind = name.removesuffix(TIME)
            times = counters.get(kind + COUNT, 0)
            facts[f"{kind}_avg_ms"] = round(value / times / 1000, 3) if times else 0
        else:
            facts[name] = value
    return facts


def file_handles(counters: Mapping[str, int]) -> Row:
    """Return how many files are open and how many may be; empty where the World has no such
    limit."""
    return {
        name.removeprefix("file_handles_"): value
        for name, value in counters.items()
        if name.startswith("file_handles_")
    }
