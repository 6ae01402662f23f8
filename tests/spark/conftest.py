"""The Spark session and the standalone cluster of a test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sluicemq.spark.session import spark_session
from spark.amqp_messages import Broker
from spark.cluster import standalone_cluster


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Started by the first test that wants it, stopped after the last."""
    with spark_session("local[2]", "2g") as session:
        yield session


@pytest.fixture(scope="session")
def spark_master() -> Iterator[str]:
    """The URL of a cluster with three workers of one core, for programs that bring a driver of
    their own; one after the other."""
    with standalone_cluster(3, apart=True) as url:
        yield url


@pytest.fixture
def amqp(broker_url: str) -> Iterator[Broker]:
    """The broker under test; the queues a test declares are deleted after it."""
    broker = Broker(broker_url)
    yield broker
    broker.clear()
