"""Goal: on a queue that deduplicates each row is there once, whatever shuffles stand before the
sink and whatever dies in the middle of a write. Equal rows are as many as they were.

Method: `shuffles.py`, some of its scenarios (all of them by `make torture-spark`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.shuffles import all_scenarios, run, wrong
from support.broker import Target

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3000)]

SCENARIOS = (
    "join-python-batch-fixed",
    "aggregation-fails-batch-adaptive",
    "by-key-stalls-batch-adaptive",
    "repartition-executor-stream-fixed",
)


def test_nothing_is_lost_or_doubled_behind_a_shuffle(
    target: Target, spark_master: str, tmp_path: Path
) -> None:
    if not target.is_own:
        pytest.skip("RabbitMQ deduplicates with a plug-in only; runs without --broker-url")
    assert set(SCENARIOS) <= set(all_scenarios())
    outcomes = run(spark_master, target.url, tmp_path, "content", SCENARIOS)
    assert len(outcomes) == len(SCENARIOS)
    assert wrong(outcomes) == []
