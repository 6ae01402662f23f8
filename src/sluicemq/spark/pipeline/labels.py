"""What runs are called beside one another: the shortest words that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sluicemq.lab.measurements import RunInfo

CONFIRMS: Final = 4
"""The part of a label that is always shown: whether confirms are on."""


def label_runs(infos: Sequence[RunInfo]) -> list[str]:
    """A label a run, all different."""
    parts = [_parts(info) for info in infos]
    varying = [
        position
        for position, column in enumerate(zip(*parts, strict=True))
        if position == CONFIRMS or len(set(column)) > 1
    ]
    labels = [", ".join(part[position] for position in varying) for part in parts]
    return [
        f"{label} (run {labels[: position + 1].count(label)})" if labels.count(label) > 1 else label
        for position, label in enumerate(labels)
    ]


def _parts(info: RunInfo) -> tuple[str, ...]:
    interval = info["ack_interval"]
    acks = {0: "automatic acks", 1: "single acks"}.get(interval, f"ack every {interval}")
    return (
        f"scenario {info['scenario']}",
        f"{info['product']} {info['version']}",
        f"{info['queue_type']} queues",
        f"scale {info['scale']:g}",
        "confirms" if info["confirms"] else "no confirms",
        acks,
    )
