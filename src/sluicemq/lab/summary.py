"""Summarizes a run without Spark: a row for each step, from its Parquet files.

Rates and latencies are of the measured part of each step, after its warm-up. The pipeline
(`sluicemq lab report`) tells far more; `sluicemq lab run` prints these when a run is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicemq.lab.measurements import TABLES, RunInfo, StepInfo
from sluicemq.lab.plan import NS

QUANTILES: Final = (0.5, 0.95, 0.99)

Quantiles = tuple[float, ...] | None
"""The latencies at QUANTILES, in ns; None: no message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """The figures of one step. Rates are in messages per second."""

    step: StepInfo
    target_rate: float
    published_rate: float
    delivered_rate: float
    confirm_ns: Quantiles
    """The latency from written to confirmed."""
    service_ns: Quantiles
    """The latency from written to delivered."""
    response_ns: Quantiles
    """The latency from intended to delivered."""


def summarize(directory: Path, info: RunInfo) -> list[StepSummary]:
    """Return the figures of each step, from a run's Parquet files."""
    published = _read(directory, "published", ("intended_ns", "written_ns", "confirmed_ns"))
    delivered = _read(directory, "delivered", ("intended_ns", "written_ns", "delivered_ns"))
    return [_summarize_step(step, info, published, delivered) for step in info["steps"]]


def _summarize_step(
    step: StepInfo, info: RunInfo, published: pa.Table, delivered: pa.Table
) -> StepSummary:
    seconds = (step["end_ns"] - step["warm_ns"]) / NS
    weight = info["sample_every"]
    of_step = _within(delivered, "intended_ns", step)
    confirmed = _within(published, "intended_ns", step).filter(pc.field("confirmed_ns").is_valid())

    def rate(table: pa.Table, column: str) -> float:
        return _within(table, column, step).num_rows * weight / seconds if seconds else 0.0

    return StepSummary(
        step=step,
        target_rate=info["rate_per_publisher"] * info["publishers"],
        published_rate=rate(published, "written_ns"),
        delivered_rate=rate(delivered, "delivered_ns"),
        confirm_ns=_latency(confirmed, "written_ns", "confirmed_ns"),
        service_ns=_latency(of_step, "written_ns", "delivered_ns"),
        response_ns=_latency(of_step, "intended_ns", "delivered_ns"),
    )


def _read(directory: Path, table: str, columns: tuple[str, ...]) -> pa.Table:
    schema = pa.schema([TABLES[table].field(name) for name in columns])
    parts = sorted((directory / table).glob("*.parquet"))
    return pa.concat_tables(
        [schema.empty_table(), *(pq.read_table(part, columns=list(columns)) for part in parts)]
    )


def _within(table: pa.Table, column: str, step: StepInfo) -> pa.Table:
    return table.filter((pc.field(column) >= step["warm_ns"]) & (pc.field(column) < step["end_ns"]))


def _latency(table: pa.Table, start: str, end: str) -> Quantiles:
    if not table.num_rows:
        return None
    return tuple(pc.quantile(pc.subtract(table[end], table[start]), QUANTILES).to_pylist())
