"""The data for the page's script: the tables of the results, the charts over time, and the
distributions of single queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.charts import NODE_CHARTS, Chart
from sluicemq.spark.pipeline.drawing import RUN_STYLES, run_style
from sluicemq.spark.pipeline.percentiles import QUEUE_POINTS_PER_DECADE
from sluicemq.spark.pipeline.results import Analysis, RunResult
from sluicemq.spark.pipeline.store import QUEUE_DISTRIBUTION, result_tables


def page_data(results: Analysis, charts: Iterable[Chart]) -> dict[str, Any]:
    """Return the runs, the charts and the tables, by name, in the form that the page's script
    reads."""
    tables = {
        name: {"columns": list(columns), "rows": [[row[x] for x in columns] for row in rows]}
        for name, (columns, rows) in result_tables(results).items()
        if name != QUEUE_DISTRIBUTION
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
        "styles": [{"role": style.role, "dashes": style.dashes} for style in RUN_STYLES],
        "queue_points_per_decade": QUEUE_POINTS_PER_DECADE,
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
        "queues": _queues(run),
    }


def _queues(run: RunResult) -> list[dict[str, Any]]:
    """Return a curve for each queue and step: the latencies of its points in ms, without their
    shares, which follow from the points' places. It is empty where the queue had no messages."""
    curves: defaultdict[int, dict[int, list[float]]] = defaultdict(dict)
    for point in run.queue_distribution:
        latency_ms = float(f"{point.latency_ms:.3g}")
        curves[point.queue].setdefault(point.step, []).append(latency_ms)
    return [
        {"queue": queue, "curves": [of_steps.get(step.step, []) for step in run.steps]}
        for queue, of_steps in sorted(curves.items())
    ]
