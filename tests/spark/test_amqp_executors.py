"""Goal: with consumers on executors nothing is lost, and nothing comes twice unless it says so.
Method: `executors.py` on two executors, undisturbed; `make torture-spark` kills those who
gather, their executors, planners, drivers and the broker meanwhile, on clusters of two and three.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.executors import Run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


def test_nothing_is_lost_when_executors_gather(spark_master: str, tmp_path: Path) -> None:
    print(Run(tmp_path, executors=2, kills=0, seed=1, master=spark_master).run())
