"""The data for the page's script: the tables of the results, and the charts over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.charts import NODE_CHARTS, Chart
from sluicemq.spark.pipeline.drawing import run_style
from sluicemq.spark.pipeline.results import Analysis, RunResult
from sluicemq.spark.pipeline.store import result_tables


def page_data(results: Analysis, charts: Iterable[Chart]) -> dict[str, Any]:
    """Return the runs, the charts and the tables, by name, in the form that report.js reads."""
    tables = {
        name: {"columns": list(columns), "rows": [[row[x] for x in columns] for row in rows]}
        for name, (columns, rows) in result_tables(results).items()
    }
    return {
        "runs": [_run(position, run) for position, run in enumerate(results.runs)],
        "charts": {
            chart.name: {
                "unit": chart.unit,
                "by_node": chart in NODE_CHARTS,
                "lines": [asdict(line) for line in chart.lines],
            }
            for chart in charts
        },
        "tables": tables,
    }


def _run(position: int, run: RunResult) -> dict[str, Any]:
    return {
        "label": run.label,
        "role": run_style(position).role,
        "nodes": [
            {"name": name, "role": run_style(number).role}
            for number, name in enumerate(dict.fromkeys(row.node for row in run.nodes))
        ],
        "steps": [
            {
                "start": step.start_s,
                "end": step.end_s,
                "name": formats.limit_name(step.in_flight_limit, step.in_flight_percent),
            }
            for step in run.steps
        ],
    }
