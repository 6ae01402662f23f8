"""Goal: nothing is lost when driver, workers, broker die. Method: a short run of `killing.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.killing import Run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_nothing_is_lost_when_broker_worker_and_driver_are_killed(tmp_path: Path) -> None:
    print(Run(tmp_path, kills=3, seed=1, mode="files", broker="sluicemq").run())
