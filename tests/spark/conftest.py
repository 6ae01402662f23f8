"""The Spark session and the standalone cluster of a test run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluicemq.spark.session import spark_session
from spark.amqp_messages import Broker
from spark.cluster import standalone_cluster
from spark.cluster_scenarios import ATTEMPTS, SHUFFLES
from support.broker import Target
from support.thorough import thorough

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Started by the first test that wants it, stopped after the last."""
    with spark_session("local[2]", "2g") as session:
        yield session


@pytest.fixture(scope="session")
def spark_master() -> Iterator[str]:
    """The URL of a cluster with workers of one core, for programs that bring a driver of their own;
    one after the other."""
    with standalone_cluster(thorough(2, 3), apart=True) as url:
        yield url


@pytest.fixture(scope="session")
def cluster_jobs(
    target: Target, spark_master: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with the outcomes of `cluster_jobs.py`; RabbitMQ has no scenarios of SHUFFLES."""
    folder = tmp_path_factory.mktemp("cluster-jobs")
    command = [sys.executable, "-m", "spark.cluster_jobs", spark_master, target.url, str(folder)]
    shuffles = SHUFFLES if target.is_own else ()
    done = subprocess.run(
        [*command, ",".join(ATTEMPTS), ",".join(shuffles)],
        capture_output=True,
        text=True,
        check=False,
        timeout=2700,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture
def amqp(broker_url: str) -> Iterator[Broker]:
    """The broker under test; the queues a test declares are deleted after it."""
    broker = Broker(broker_url)
    yield broker
    broker.clear()
