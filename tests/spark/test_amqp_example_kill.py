"""Goal: the worked example may be killed in the middle: nothing of its result is lost or there
twice.

Method: it is run as a program, ended by kill -9 while it works on its third batch, and run again,
in the session that other tests have.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from spark.amqp_messages import Broker
from support import broker
from support.broker import Target

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "orders.py"
RUN_S = 600
"""The time a run may take, on a machine that has much else to do."""
ORDERS = 600
KILLED_IN = 2
LAST_BATCH = "3"
"""Of those with orders."""


def wanted() -> dict[tuple[str, str], tuple[int, float]]:
    """Orders and revenue of the minutes that are over two minutes before the last order."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for n in range(ORDERS):
        if (n // 60 + 1) * 60 <= ORDERS - 1 - 120:
            found[f"12:{n // 60:02}", ("north", "east", "south")[n % 3]].append(n % 40 / 2)
    return {key: (len(amounts), sum(amounts)) for key, amounts in found.items()}


def by_key(rows: Iterable[tuple[str, dict[str, Any]]]) -> dict[tuple[str, str], tuple[int, float]]:
    """From minute and row; a minute and shop that is there twice is an error."""
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for minute, row in rows:
        key = minute, row["shop"]
        assert key not in found, f"{key} is there twice"
        found[key] = row["orders"], row["revenue"]
    return found


def run_until_killed(url: str, folder: Path, log: Path) -> None:
    """The program, ended with its JVM and all else while it works on batch KILLED_IN."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLE), url, str(folder)],
            stdout=output,
            stderr=output,
            env=broker.ENVIRONMENT,
            start_new_session=True,
        )
    deadline = time.monotonic() + RUN_S
    try:
        # Rows of this batch are in its files; they may be on their way to the exchange.
        batch = folder / "revenue" / f"batch={KILLED_IN}"
        while not (batch.exists() and list(batch.glob("*.parquet"))):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.005)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (folder / "checkpoint" / "commits" / LAST_BATCH).exists(), "it had ended already"


@pytest.mark.timeout(3 * RUN_S)
def test_killed_in_the_middle_and_run_again_it_has_every_order_once(
    target: Target, amqp: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    if not target.is_own:
        pytest.skip("RabbitMQ deduplicates with a plug-in only; runs without --broker-url")
    assert spark is not None, "the example takes the session that runs"
    with amqp.admin() as admin:
        for queue in ("orders", "revenue"):
            admin.delete_queue(queue)
    folder = tmp_path / "out"
    run_until_killed(amqp.url, folder, tmp_path / "log")
    runpy.run_path(str(EXAMPLE))["main"](amqp.url, str(folder))
    rows = pyarrow.parquet.read_table(folder / "revenue").to_pylist()
    assert by_key((f"{row['minute']:%H:%M}", row) for row in rows) == wanted()
    bodies = [json.loads(body) for _, body in amqp.take("revenue", amqp.ready("revenue"))]
    assert by_key((body["minute"][11:16], body) for body in bodies) == wanted()
    assert amqp.ready("orders", 0) == 0
    with amqp.admin() as admin:
        for queue in ("orders", "revenue"):
            admin.delete_queue(queue)
