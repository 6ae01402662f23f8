"""What is not a run directory is refused by name, before Spark is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.spark.pipeline.build import build_report
from sluicemq.spark.pipeline.ingest import load_info

from .records import make_info
from .test_tables import step_info


def write_info(directory: Path, **changes: object) -> None:
    """A run.json that is right but for these changes."""
    info = make_info(**{"steps": [step_info(0, 1, 0)], **changes})
    (directory / "run.json").write_text(json.dumps(info))


def test_a_complete_run_json_is_read(tmp_path: Path) -> None:
    write_info(tmp_path)
    assert load_info(tmp_path)["scenario"] == 1


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"nowhere/run\.json is missing"):
        build_report(tmp_path / "nowhere")


def test_broken_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(Refused, match=r"run\.json is not JSON"):
        load_info(tmp_path)


def test_something_else_in_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(Refused, match="the file is not a JSON object"):
        load_info(tmp_path)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"steps": []}, "'steps' is empty"),
        ({"steps": [{"step": 0}]}, r"'steps\[0\]\.in_flight_limit' is missing"),
        ({"verification": {}}, r"'verification\.published' is missing"),
        ({"verification": 3}, "verification is not a JSON object"),
    ],
)
def test_the_key_at_fault_is_named(tmp_path: Path, broken: dict[str, object], named: str) -> None:
    write_info(tmp_path, **broken)
    with pytest.raises(Refused, match=named):
        load_info(tmp_path)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    info = dict(make_info(steps=[step_info(0, 1, 0)]))
    del info["prefetch"]
    (tmp_path / "run.json").write_text(json.dumps(info))
    with pytest.raises(Refused, match=r"run\.json: 'prefetch' is missing"):
        load_info(tmp_path)


def test_reports_need_runs_and_a_place() -> None:
    with pytest.raises(Refused, match="at least one run"):
        build_report([])
    with pytest.raises(Refused, match="directory of its own"):
        build_report([Path("a"), Path("b")])
