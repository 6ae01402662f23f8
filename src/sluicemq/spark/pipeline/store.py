"""Writes the results as Parquet and as JSON, one file a table, every row naming its run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from sluicemq.lab.measurements import Verification
from sluicemq.spark.pipeline.differences import Difference, differences
from sluicemq.spark.pipeline.results import (
    Analysis,
    ClaimResult,
    CrossCheck,
    DistributionPoint,
    HeatCell,
    Knee,
    Latencies,
    NodeSecond,
    PipelineStatistics,
    QueuePoint,
    QueueShare,
    Second,
    Step,
)

ARROW_TYPES: Final = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
"""The types of columns in Arrow; any other type becomes text."""

QUEUE_DISTRIBUTION: Final = "queue_distribution"
"""The table with a point of the distribution of each queue in each row: by far the longest."""

Columns = dict[str, pa.DataType]
Rows = list[dict[str, Any]]


def write_results(analysis: Analysis, directory: Path) -> None:
    """Write the tables of `result_tables` into the directory, each as Parquet and as JSON."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, (columns, rows) in result_tables(analysis).items():
        text = json.dumps(rows, indent=1, allow_nan=False)
        (directory / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
        pq.write_table(table, directory / f"{name}.parquet")


def result_tables(analysis: Analysis) -> dict[str, tuple[Columns, Rows]]:
    """Return all results as flat rows, by table, with the columns of each: a column may be null in
    every row."""
    runs = analysis.runs
    by_run: Columns = {"run": pa.string()}
    run_columns = by_run | {"directory": pa.string(), "no_knee_reason": pa.string()}
    run_rows = [
        {"run": run.label, "directory": str(run.directory), "no_knee_reason": run.no_knee_reason}
        | flatten(run.latencies)
        | dict(run.info["verification"])
        for run in runs
    ]
    return {
        "per_second": (by_run | columns_of(Second), _rows((x.label, x.seconds) for x in runs)),
        "per_node": (by_run | columns_of(NodeSecond), _rows((x.label, x.nodes) for x in runs)),
        "per_step": (by_run | columns_of(Step), _rows((x.label, x.steps) for x in runs)),
        "per_run": (run_columns | columns_of(Latencies) | columns_of(Verification), run_rows),
        "knee": (
            by_run | columns_of(Knee),
            _rows((x.label, [x.knee]) for x in runs if x.knee is not None),
        ),
        "distribution": (
            by_run | columns_of(DistributionPoint),
            _rows((x.label, x.distribution) for x in runs),
        ),
        "latency_heat": (by_run | columns_of(HeatCell), _rows((x.label, x.heat) for x in runs)),
        "per_queue": (by_run | columns_of(QueueShare), _rows((x.label, x.queues) for x in runs)),
        QUEUE_DISTRIBUTION: (
            by_run | columns_of(QueuePoint),
            _rows((x.label, x.queue_distribution) for x in runs),
        ),
        "differences": (columns_of(Difference), [asdict(one) for one in differences(runs)]),
        "claims": (columns_of(ClaimResult), [asdict(claim) for claim in analysis.claims]),
        "checks": (by_run | columns_of(CrossCheck), _rows((x.label, x.checks) for x in runs)),
        "pipeline": (columns_of(PipelineStatistics), [asdict(analysis.pipeline)]),
    }


def flatten(record: Any) -> dict[str, Any]:
    """Return a record as one flat row; fields of a nested record are prefixed with its name."""
    row: dict[str, Any] = {}
    for item in fields(record):
        value = getattr(record, item.name)
        if is_dataclass(value):
            prefix = _prefix(type(value), item.name)
            row.update({prefix + key: part for key, part in flatten(value).items()})
        else:
            row[item.name] = value
    return row


def columns_of(record: Any) -> Columns:
    """Return the columns that `flatten` gives for records of this class (or of this TypedDict),
    with their Arrow types."""
    columns: Columns = {}
    for name, hint in get_type_hints(record).items():
        if is_dataclass(hint):
            nested = columns_of(hint)
            columns.update({_prefix(hint, name) + key: kind for key, kind in nested.items()})
        else:
            columns[name] = ARROW_TYPES.get(_plain(hint), pa.string())
    return columns


def _prefix(nested: Any, name: str) -> str:
    """Return the prefix for a nested record; latencies have names of their own."""
    return "" if nested is Latencies else f"{name}_"


def _plain(hint: Any) -> Any:
    """Return the type without None: `int` for `int | None`."""
    if isinstance(hint, UnionType):
        return next(one for one in get_args(hint) if one is not type(None))
    return hint


def _rows(parts: Iterable[tuple[str, Iterable[Any]]]) -> Rows:
    return [{"run": label} | flatten(record) for label, records in parts for record in records]
