"""Goal: with consumers on executors nothing is lost, and nothing comes twice unless it says so.
Method: `gathering_job.py` on a cluster, undisturbed; `make torture-spark` kills those who gather,
their executors, planners, drivers and the broker meanwhile, on clusters of two and three.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from spark.executors import wrong_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3000)]


def test_nothing_is_lost_when_executors_gather(cluster_jobs: Path) -> None:
    outcome = json.loads((cluster_jobs / "gathering" / "outcome.json").read_text())
    published = Counter({int(number): times for number, times in outcome["published"].items()})
    assert wrong_in(outcome["rows"], published) == {}
    assert outcome["left"] == 0
    assert min(outcome["batches"]) > 0
