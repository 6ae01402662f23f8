"""The Spark session of a test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sluicemq.spark.session import spark_session
from spark.amqp_messages import Broker


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Started by the first test that wants it, stopped after the last."""
    with spark_session("local[2]", "2g") as session:
        yield session


@pytest.fixture
def amqp(broker_url: str) -> Iterator[Broker]:
    """The broker under test; the queues a test declares are deleted after it."""
    broker = Broker(broker_url)
    yield broker
    broker.clear()
