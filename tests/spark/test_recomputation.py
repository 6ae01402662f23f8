"""Goal: every figure of a report is what a second tool makes of the same raw rows.

Method: a made-up run with a backlog, with `make thorough` one against the broker, too; one report;
DuckDB beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sluicemq.lab.conductor import run_scenario
from sluicemq.spark.pipeline.build import build_report
from sluicemq.spark.synthetic import RunShape, StepShape, write_synthetic_run
from support.lab_runs import Notes, small_plan
from support.thorough import thorough
from support.undrawn import nothing_drawn

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

RUNS = thorough(("made up",), ("real", "made up"))
SHAPE = RunShape(
    steps=[
        StepShape(seconds=5, limit=5, percent=5, publish_rate=1000, latency_ms=8),
        StepShape(
            seconds=5, limit=50, percent=50, publish_rate=1000, latency_ms=300, confirm_ms=90
        ),
        StepShape(seconds=5, limit=90, percent=90, publish_rate=1000, capacity=[800]),
    ],
    target_rate=1000,
    publishers=10,
    queues=5,
    consumers=5,
    lost=7,
)
TABLES = (
    *("per_second", "per_step", "per_run"),
    *("distribution", "latency_heat", "per_queue", "queue_distribution"),
)
WITHIN = 0.01
OF_SMALL_VARIATION = 0.01
"""How far a coefficient of variation of latencies may be off, which are themselves within 1 %."""

WORDS = {"run", "directory", "no_knee_reason", "step_class", "scale", "class_reason"}
UNTOLD = {"returned", "left_in_queues", "unaccounted", "out_of_order", "drained"}
"""What the rows do not say, but only the clients and the broker."""

Table = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(broker_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs and the results of the report on them."""
    folder = tmp_path_factory.mktemp("runs")
    if "real" in RUNS:
        plan = small_plan(broker_url, folder / "real", step_seconds=3, workers=2, label="real")
        assert run_scenario(plan, Notes()).problems == {}
    write_synthetic_run(folder / "made up", SHAPE)
    info = json.loads((folder / "made up" / "run.json").read_text())
    (folder / "made up" / "run.json").write_text(json.dumps(info | {"label": "made up"}))
    with nothing_drawn():
        build_report([folder / name for name in RUNS], "local[2]", out=folder)
    return folder


@dataclass(frozen=True)
class Both:
    """The figures of one run: those of the report and the same once more, by table."""

    report: dict[str, Table]
    again: dict[str, Table]


@pytest.fixture(scope="module", params=RUNS)
def both(request: pytest.FixtureRequest, folder: Path) -> Both:
    program = [sys.executable, "-m", "spark.recomputation", str(folder / request.param)]
    path = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run(
        program, capture_output=True, text=True, check=False, env=os.environ | path
    )
    assert done.returncode == 0, done.stderr
    tables = {}
    for name in (*TABLES, "knee", "checks"):
        rows = json.loads((folder / "results" / f"{name}.json").read_text())
        tables[name] = [row for row in rows if row["run"] == request.param]
    return Both(tables, json.loads(done.stdout))


def assert_same(row: dict[str, Any], exact: dict[str, Any]) -> None:
    """Each figure of the report's row, within 1 %; whole numbers exactly."""
    figures = {name: value for name, value in row.items() if name not in WORDS | UNTOLD}
    missing = {name for name, value in figures.items() if value not in (None, 0)} - exact.keys()
    assert not missing
    for name, value in figures.items():
        again = exact.get(name)
        if isinstance(again, int | str) or (isinstance(value, int) and again is not None):
            assert value == again, name
        elif again is None:
            assert value in (None, 0), name
        else:
            small = OF_SMALL_VARIATION if name == "latency_cv" else 1e-9
            assert value == pytest.approx(float(again), rel=WITHIN, abs=small), name


@pytest.mark.parametrize("table", TABLES)
def test_every_figure(both: Both, table: str) -> None:
    for row, exact in zip(both.report[table], both.again[table], strict=True):
        assert_same(row, exact)


def test_the_knee(both: Both) -> None:
    """Its figures are those of the steps it names."""
    steps = {row["in_flight_limit"]: row for row in both.again["per_step"]}

    def carried(limit: int) -> float:
        return float(min(steps[limit]["published_per_s"], steps[limit]["delivered_per_s"]))

    for row in both.report["knee"]:
        chosen, largest = row["in_flight_limit"], max(steps)
        assert row["sustained_per_s"] == pytest.approx(carried(chosen), rel=WITHIN)
        assert row["peak_per_s"] == pytest.approx(carried(row["peak_limit"]), rel=WITHIN)
        assert row["largest_limit"] == largest
        for column, limit in (("p99_ms", chosen), ("largest_p99_ms", largest)):
            exact = steps[limit]["end_to_end_response_p99_ms"]
            assert row[column] == pytest.approx(exact, rel=WITHIN)


def test_the_counts_of_the_checks(both: Both) -> None:
    (exact,) = both.again["per_run"]
    for row in both.report["checks"]:
        assert row["agrees"]
        assert row["exact"] == row["from_rows"] == exact[row["name"]]
