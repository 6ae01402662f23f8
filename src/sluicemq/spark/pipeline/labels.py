"""Names runs beside one another: by their labels, or by the shortest words that distinguish
them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sluicemq.lab.measurements import RunInfo

CONFIRMS: Final = 6
"""The part of a label that is always shown: whether confirms are on."""


def label_runs(infos: Sequence[RunInfo], directories: Sequence[Path]) -> list[str]:
    """Return a label for each run, all of them different: its own, or its settings as far as they
    differ. Runs whose labels would be alike are distinguished by their directories, or else by
    numbers."""
    parts = [_parts(info) for info in infos]
    varying = [
        position
        for position, column in enumerate(zip(*parts, strict=True))
        if position == CONFIRMS or len(set(column)) > 1
    ]
    labels = [
        info.get("label") or ", ".join(part[position] for position in varying)
        for info, part in zip(infos, parts, strict=True)
    ]
    named = [
        f"{label} ({directory.name})" if labels.count(label) > 1 else label
        for label, directory in zip(labels, directories, strict=True)
    ]
    return [
        f"{label}, run {named[: position + 1].count(label)}" if named.count(label) > 1 else label
        for position, label in enumerate(named)
    ]


def _nodes(info: RunInfo) -> str:
    count = len(info["target"])
    return f"{count} node{'s' * (count != 1)}"


def _parts(info: RunInfo) -> tuple[str, ...]:
    interval = info["ack_interval"]
    acks = {0: "automatic acks", 1: "single acks"}.get(interval, f"ack every {interval}")
    return (
        f"scenario {info['scenario']}",
        f"{info['product']} {info['version']}",
        _nodes(info),
        f"profile {info.get('profile') or 'its own'}",
        f"{info['queue_type']} queues",
        f"scale {info['scale']:g}",
        "confirms" if info["confirms"] else "no confirms",
        acks,
    )
