"""Whole reports from run directories, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sluicemq.errors import Refused
from sluicemq.spark.pipeline.build import ReportPaths, build_comparison, build_report
from sluicemq.spark.synthetic import RunShape, StepShape, write_synthetic_run
from support.thorough import only_thorough, thorough
from support.undrawn import nothing_drawn

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

LIMITED = RunShape(
    steps=[
        StepShape(seconds=3, limit=10, percent=1, publish_rate=200),
        StepShape(seconds=3, limit=20, percent=2, publish_rate=400),
    ],
    target_rate=400,
)
FREE = RunShape(steps=[StepShape(seconds=3, publish_rate=400)], target_rate=400, confirms=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs in one directory."""
    directory = tmp_path_factory.mktemp("runs")
    write_synthetic_run(directory / "confirms", LIMITED)
    write_synthetic_run(directory / "free", FREE)
    return directory


@pytest.fixture(scope="module")
def both(runs: Path) -> ReportPaths:
    """Both, side by side."""
    with nothing_drawn():
        return build_report([runs / "free", runs / "confirms"], "local[2]", out=runs / "both")


def test_runs_are_shown_side_by_side(both: ReportPaths) -> None:
    page = both.report.read_text(encoding="utf-8")
    assert "The runs side by side" in page
    assert "Run: no confirms" in page
    assert "Run: confirms" in page
    assert "at most 20 unconfirmed messages" in page
    assert both.overview.read_bytes().startswith(b"\x89PNG")


def test_results_can_be_read_by_spark(spark: SparkSession, both: ReportPaths) -> None:
    seconds = spark.read.parquet(str(both.results / "per_second.parquet"))
    assert seconds.filter("run = 'confirms' and measured").count() == 4
    steps = json.loads((both.results / "per_step.json").read_text())
    assert [step["in_flight_limit"] for step in steps] == [None, 10, 20]


def test_the_pipelines_own_rate_is_left_with_the_results(both: ReportPaths) -> None:
    (row,) = json.loads((both.results / "pipeline.json").read_text())
    assert row["raw_rows"] == both.analysis.pipeline.raw_rows > 0
    assert row["rows_per_s"] == pytest.approx(row["raw_rows"] / row["stage_seconds"])
    assert row["memory"] == "2g"


def test_one_run_is_reported_in_its_own_directory(runs: Path) -> None:
    told: list[str] = []
    paths = build_report(runs / "confirms", "local[2]", progress=told.append)
    assert paths.report == runs / "confirms" / "report.html"
    page = paths.report.read_text(encoding="utf-8")
    assert "The runs side by side" not in page
    assert "<path" in page, "nothing is drawn"
    assert told[0].startswith("Starting Spark for ")
    assert told[-1] == "Writing the report"


@pytest.mark.usefixtures("undrawn")
def test_runs_are_compared(runs: Path) -> None:
    out = runs / "compared"
    paths = build_comparison([runs / "confirms", runs / "free"], "local[2]", out=out)
    page = paths.report.read_text(encoding="utf-8")
    assert paths.report == out / "compare.html"
    assert "<h1>no confirms against confirms</h1>" in page
    assert "They have no in-flight limit in common." in page
    assert json.loads((paths.results / "differences.json").read_text()) == []


def test_a_comparison_needs_two_runs(runs: Path) -> None:
    with pytest.raises(Refused, match="at least two"):
        build_comparison([runs / "free"], out=runs / "one")


def test_empty_tables_give_a_report(tmp_path: Path) -> None:
    """A broker that took nothing: the report says so instead of failing."""
    write_synthetic_run(tmp_path, LIMITED)
    for table in ("published", "delivered", "counters", "broker"):
        (file,) = (tmp_path / table).glob("*.parquet")
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    paths = build_report(tmp_path, "local[2]")
    (run,) = paths.analysis.runs
    assert {str(step.step_class) for step in run.steps} == {"collapsed"}
    assert run.knee is None
    assert paths.analysis.pipeline.raw_rows == 0
    assert "do not name an in-flight limit" in paths.report.read_text(encoding="utf-8")


@only_thorough
def test_a_run_without_broker_figures(runs: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    shutil.copytree(runs / "confirms", directory)
    shutil.rmtree(directory / "broker")
    paths = build_report(directory, "local[2]")
    (run,) = paths.analysis.runs
    assert run.steps[0].broker_cpu_us_per_message is None
    assert "CPU of the broker" not in paths.report.read_text(encoding="utf-8")


def spoiled(runs: Path, tmp_path: Path) -> Path:
    """A copy of a run, to be damaged."""
    directory = tmp_path / "run"
    shutil.copytree(runs / "confirms", directory)
    return directory


def test_a_missing_table_is_named(runs: Path, tmp_path: Path) -> None:
    directory = spoiled(runs, tmp_path)
    shutil.rmtree(directory / "counters")
    with pytest.raises(Refused, match=r"run/counters is missing"):
        build_report(directory, "local[2]")


def test_a_table_without_files_is_named(runs: Path, tmp_path: Path) -> None:
    directory = spoiled(runs, tmp_path)
    for file in (directory / "delivered").glob("*"):
        file.unlink()
    with pytest.raises(Refused, match=r"run/delivered holds no Parquet file"):
        build_report(directory, "local[2]")


def garble(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        opened.write(b"\xff" * 8)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("at", thorough([-8], [10, -8]))
def test_a_damaged_file_is_left_out_and_said_first(runs: Path, tmp_path: Path, at: int) -> None:
    """In a page, or in the footer."""
    directory = spoiled(runs, tmp_path)
    sound = directory / "delivered" / "part-0.parquet"
    table = pq.read_table(sound)
    pq.write_table(table.slice(0, 1000), sound)
    pq.write_table(table.slice(1000), directory / "delivered" / "part-1.parquet")
    garble(directory / "delivered" / "part-1.parquet", at)
    paths = build_report(directory, "local[2]")
    (run,) = paths.analysis.runs
    (damaged,) = run.damaged
    assert damaged.startswith("delivered/part-1.parquet: ")
    page = paths.report.read_text(encoding="utf-8")
    words = f"1 cannot be read, they have 1,000 of {table.num_rows:,} delivered messages"
    assert page.index(words) < page.index("<svg")


def test_a_table_of_which_nothing_can_be_read_is_named(runs: Path, tmp_path: Path) -> None:
    directory = spoiled(runs, tmp_path)
    garble(directory / "published" / "part-0.parquet", 10)
    with pytest.raises(Refused, match=r"no file of .*run/published can be read"):
        build_report(directory, "local[2]")


def test_a_missing_column_is_named(runs: Path, tmp_path: Path) -> None:
    directory = spoiled(runs, tmp_path)
    file = directory / "published" / "part-0.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["confirmed_ns"]), file)
    with pytest.raises(Refused, match=r"part-0\.parquet: column 'confirmed_ns' is missing"):
        build_report(directory, "local[2]")


def test_a_column_of_another_type_is_named(runs: Path, tmp_path: Path) -> None:
    directory = spoiled(runs, tmp_path)
    file = directory / "delivered" / "part-0.parquet"
    table = pq.read_table(file)
    position = table.column_names.index("queue")
    table = table.set_column(position, "queue", table["queue"].cast(pa.int64()))
    pq.write_table(table, file)
    with pytest.raises(Refused, match="column 'queue' is int64, not int32"):
        build_report(directory, "local[2]")
