"""Goal: with consumers on executors nothing is lost, and nothing comes twice unless it says so,
when these, their executors, planners, drivers or the broker die. Method: `executors.py`, a few
kills on a cluster of three (`make torture-spark` for more, and for a cluster of two).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.executors import VICTIMS, Run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_nothing_is_lost_when_those_who_gather_are_killed(tmp_path: Path) -> None:
    print(Run(tmp_path, executors=3, kills=len(set(VICTIMS)), seed=1).run())
