"""Goal: on a queue that deduplicates each row is there once, whatever shuffles stand before the
sink and whatever dies in the middle of a write. Equal rows are as many as they were.

Method: `shuffle_job.py`, some of its scenarios (all of them by `make torture-spark`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.cluster_scenarios import SHUFFLES
from spark.shuffles import all_scenarios, outcomes_in, wrong
from support.broker import Target

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3000)]


def test_nothing_is_lost_or_doubled_behind_a_shuffle(target: Target, cluster_jobs: Path) -> None:
    if not target.is_own:
        pytest.skip("RabbitMQ deduplicates with a plug-in only; runs without --broker-url")
    assert set(SHUFFLES) <= set(all_scenarios())
    outcomes = outcomes_in(cluster_jobs / "shuffles")
    assert len(outcomes) == len(SHUFFLES)
    assert wrong(outcomes) == []
