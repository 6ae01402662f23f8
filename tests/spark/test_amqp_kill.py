"""Goal: nothing is lost when drivers, planners, workers and the broker die. Method: `killing.py`,
with one of each (`make torture-spark` kills many, with BROKER=rabbitmq on RabbitMQ).

Of a driver its JVM dies, with `make thorough`: `test_amqp_example_kill.py` ends JVM and Python at
once, and `make torture-spark` the Python alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.killing import Run
from support.thorough import thorough

pytestmark = pytest.mark.spark

KILLED = "broker", "worker", "planner"
VICTIMS = thorough(KILLED, (*KILLED, "jvm"))


@pytest.mark.timeout(1800)
def test_nothing_is_lost_when_what_is_ours_is_killed(tmp_path: Path) -> None:
    print(Run(tmp_path, len(VICTIMS), seed=1, broker="sluicemq", rounds=[VICTIMS]).run())
