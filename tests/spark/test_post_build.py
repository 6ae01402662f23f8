"""Goal: a whole post becomes one page. Method: made-up runs, of which one was interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.spark.pipeline.post_build import build_post
from sluicemq.spark.synthetic import RunShape, StepShape, write_synthetic_run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_the_runs_that_are_done_make_a_page_and_a_document(tmp_path: Path) -> None:
    step = StepShape(seconds=4, publish_rate=200)
    for name, kind in (("1-quorum", "quorum"), ("1-classic", "classic"), ("1-late", "mirrored")):
        shape = RunShape(steps=[step], target_rate=200, confirms=False, queue_type=kind)
        write_synthetic_run(tmp_path / "own" / name, shape)
    late = tmp_path / "own" / "1-late" / "run.json"
    late.write_text(json.dumps(json.loads(late.read_text()) | {"stopped": "interrupted"}))
    told: list[str] = []
    page, document = build_post(tmp_path, "local[2]", "1g", told.append)
    assert told[1:-1] == ["Analysing own/1-classic", "Analysing own/1-quorum"]
    assert (page, document) == (tmp_path / "post.html", tmp_path / "claims.md")
    assert "quorum, no confirms" in page.read_text(encoding="utf-8")
    assert "mirrored, no confirms" not in page.read_text(encoding="utf-8")
    assert "| 1.c | Quorum, no confirms" in document.read_text(encoding="utf-8")


def test_a_post_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="holds no run of the post that is done"):
        build_post(tmp_path, "local[2]", "1g")
