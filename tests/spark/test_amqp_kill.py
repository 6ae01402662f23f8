"""Goal: nothing is lost when drivers, planners, workers and the broker die. Method: `killing.py`,
with each victim on our broker, and without drivers on RabbitMQ, which sees of all of them lost
connections (`make torture-spark` kills more, and all of them on RabbitMQ with BROKER=rabbitmq).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark.killing import OF_DRIVERS, Run

pytestmark = pytest.mark.spark

BOTH = "worker", "planner"


@pytest.mark.timeout(1800)
def test_nothing_is_lost_when_what_is_ours_is_killed(tmp_path: Path) -> None:
    victims = ("broker", *BOTH, *BOTH, *OF_DRIVERS)
    print(Run(tmp_path, len(victims), seed=1, broker="sluicemq", rounds=[victims]).run())


@pytest.mark.rabbitmq
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not shutil.which("rabbitmq-server"), reason="apt-get install rabbitmq-server")
def test_nothing_is_lost_on_rabbitmq(tmp_path: Path) -> None:
    victims = ("broker", *BOTH)
    print(Run(tmp_path, len(victims), seed=1, broker="rabbitmq", rounds=[victims]).run())
