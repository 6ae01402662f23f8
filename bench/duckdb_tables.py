"""The latency tables of a report by DuckDB, from the same raw rows: exact percentiles, one query.

Used by `bench/pipeline.py`: what Spark finds in its histograms is held against this, and so is the
time it takes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb

from sluicemq.lab.measurements import read_run_info
from sluicemq.spark.pipeline.latency_histograms import RELATIVE_ERROR

KINDS = ("confirm_service", "confirm_response", "end_to_end_service", "end_to_end_response")
QUANTILES = (0.5, 0.75, 0.95, 0.99)
NAMES = ("p50", "p75", "p95", "p99")

Tables = dict[tuple[str, int | None], dict[str, Any]]
"""Rows by level (second, step, run) and its number."""

QUERY = """
WITH steps(number, warm_ns) AS (VALUES {steps}),
rows AS (
  SELECT step, written_ns // 1000000000 AS second, intended_ns >= warm_ns AS warm,
         weight, 'confirm' AS what,
         confirmed_ns - written_ns AS service, confirmed_ns - intended_ns AS response
  FROM read_parquet('{run}/published/*.parquet') JOIN steps ON step = number
  UNION ALL
  SELECT step, delivered_ns // 1000000000, intended_ns >= warm_ns,
         weight, 'end_to_end',
         delivered_ns - written_ns, delivered_ns - intended_ns
  FROM read_parquet('{run}/delivered/*.parquet') JOIN steps ON step = number
)
SELECT what, second, step, warm, sum(weight) FILTER (service IS NOT NULL) AS messages,
       quantile_disc(service, {quantiles}) AS service, quantile_disc(response, {quantiles})
         AS response, max(service) AS service_max, max(response) AS response_max
FROM rows
GROUP BY GROUPING SETS ((what, second), (what, step, warm), (what, warm))
"""


def tables(run: Path, threads: int) -> Tables:
    """Rows by (level, key), their columns named as in the report's results."""
    info = read_run_info(run)
    steps = ", ".join(f"({step['step']}, {step['warm_ns']})" for step in info["steps"])
    with duckdb.connect(config={"threads": threads}) as database:
        query = QUERY.format(steps=steps, run=run, quantiles=list(QUANTILES))
        rows = database.execute(query).fetchall()
    found: Tables = {}
    for what, second, step, warm, messages, service, response, *largest in rows:
        if second is None and not warm:
            continue
        level = "second" if second is not None else "run" if step is None else "step"
        row = found.setdefault((level, second if second is not None else step), {})
        for kind, values, most in zip(
            (f"{what}_service", f"{what}_response"), (service, response), largest, strict=True
        ):
            row[f"{kind}_messages"] = messages
            row[f"{kind}_max_ms"] = most / 1e6
            for name, value in zip(NAMES, values, strict=True):
                row[f"{kind}_{name}_ms"] = value / 1e6
    return found


def differences(run: Path, found: Tables) -> tuple[int, float]:
    """How many figures of the report were compared, and the largest relative difference of a
    percentile. Counts and maxima must be equal."""
    compared, worst = 0, 0.0
    for table, level in (("per_second", "second"), ("per_step", "step"), ("per_run", "run")):
        for row in json.loads((run / "results" / f"{table}.json").read_text()):
            exact = found.get((level, row.get(level)))
            for column, value in (exact or {}).items():
                compared += 1
                ours = row[column]
                if column.endswith(("_messages", "_max_ms")):
                    if abs(ours - value) > 1e-9:
                        raise SystemExit(f"{table} {level} {row.get(level)}: {column} differs")
                elif value:
                    worst = max(worst, abs(ours - value) / value)
    if worst > RELATIVE_ERROR + 1e-6:
        raise SystemExit(f"percentiles differ by {worst:.3%}, {RELATIVE_ERROR:.3%} is stated")
    return compared, worst
