"""Goal: nothing is lost when drivers, planners, workers and the broker die. Method: `killing.py`,
each of its victims on our broker, a round of them on RabbitMQ (`make torture-spark` kills more, on
RabbitMQ with BROKER=rabbitmq).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark.killing import OF_DRIVERS, Run

pytestmark = pytest.mark.spark

ROUNDS = [("broker", "worker", "planner", victim) for victim in OF_DRIVERS]


@pytest.mark.timeout(1800)
def test_nothing_is_lost_when_what_is_ours_is_killed(tmp_path: Path) -> None:
    print(Run(tmp_path, 12, seed=1, broker="sluicemq", rounds=ROUNDS).run())


@pytest.mark.rabbitmq
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not shutil.which("rabbitmq-server"), reason="apt-get install rabbitmq-server")
def test_nothing_is_lost_on_rabbitmq(tmp_path: Path) -> None:
    print(Run(tmp_path, 4, seed=1, broker="rabbitmq", rounds=ROUNDS).run())
