"""Goal: nothing is lost when drivers, planners, workers and the broker die. Method: `killing.py`,
20 kills on our broker, a round of them on RabbitMQ (`make torture-spark BROKER=rabbitmq` for more).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark.killing import ROUNDS, Run

pytestmark = pytest.mark.spark


@pytest.mark.timeout(600)
def test_nothing_is_lost_when_what_is_ours_is_killed(tmp_path: Path) -> None:
    print(Run(tmp_path, kills=20, seed=1, broker="sluicemq").run())


@pytest.mark.rabbitmq
@pytest.mark.timeout(300)
@pytest.mark.skipif(not shutil.which("rabbitmq-server"), reason="apt-get install rabbitmq-server")
def test_nothing_is_lost_on_rabbitmq(tmp_path: Path) -> None:
    print(Run(tmp_path, kills=len(ROUNDS[0]), seed=1, broker="rabbitmq").run())
