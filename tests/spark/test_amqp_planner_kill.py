"""Goal: a source that acknowledges as soon as a batch is committed loses nothing when it is killed,
in whatever step; what comes twice is flagged.

Method: `kill_planner.py` is killed with -9 at random moments and started again, many times; in the
end each number is in a batch that was committed. (`test_amqp_kill.py` does it to all of Spark.)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from spark.amqp_messages import Broker, numbered
from spark.kill_planner import ROWS, TRIGGER_S
from support.thorough import thorough

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
KILLS = 5
NUMBERS = 12 * ROWS
WAIT_S = 240.0


def start(url: str, queue: str, folder: Path, way: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "spark.kill_planner", url, queue, str(folder), way]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)


def committed(folder: Path) -> list[list[tuple[int, bool]]]:
    """The rows of the batches that are committed."""
    numbers = [f.name for f in (folder / "commits").glob("[0-9]*")]
    rows = [folder / "rows" / number for number in numbers]
    return [json.loads(each.read_text()) for each in rows if each.exists()]


@pytest.mark.parametrize("way", thorough(["listener"], ["listener", "checkpoint"]))
def test_nothing_is_lost_by_early_acknowledgements(
    amqp: Broker, name: str, tmp_path: Path, way: str
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(NUMBERS))
    dice = Random(7)
    for _ in range(KILLS):
        victim = start(amqp.url, name, tmp_path, way)
        assert victim.stdout is not None
        victim.stdout.readline()
        # From the first commit's acknowledgement to the next batch's: some step of some batch.
        time.sleep(dice.uniform(0.0, TRIGGER_S + 0.3))
        victim.kill()
        victim.wait()
        victim.stdout.close()
    last = start(amqp.url, name, tmp_path, way)
    try:
        deadline = time.monotonic() + WAIT_S
        while {n for rows in committed(tmp_path) for n, _ in rows} != set(range(NUMBERS)):
            assert last.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        last.kill()
        last.wait()
        assert last.stdout is not None
        last.stdout.close()
    fresh = Counter(n for rows in committed(tmp_path) for n, redelivered in rows if not redelivered)
    assert max(fresh.values()) == 1
