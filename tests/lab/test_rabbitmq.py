"""Goal: the lab measures RabbitMQ as it measures us. Method: every scenario, small, against the
RabbitMQ that SLUICEMQ_TEST_AMQP_URL or --broker-url names; skipped when that names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.client.blocking import connect
from sluicemq.lab.conductor import run_scenario
from support.lab_runs import Notes, rows, small_plan

pytestmark = pytest.mark.rabbitmq


@pytest.fixture(scope="module")
def rabbitmq_url(request: pytest.FixtureRequest) -> str:
    url = request.config.getoption("--broker-url")
    if not url:
        pytest.skip("no RabbitMQ: set SLUICEMQ_TEST_AMQP_URL to one")
    with connect(url) as client:
        if client.product != "RabbitMQ":
            pytest.skip(f"SLUICEMQ_TEST_AMQP_URL is {client.product}, not RabbitMQ")
    assert isinstance(url, str)
    return url


@pytest.mark.parametrize("scenario", ["1", "2", "3", "4", "5"])
def test_every_scenario_runs_with_confirms(
    rabbitmq_url: str, tmp_path: Path, scenario: str
) -> None:
    plan = small_plan(rabbitmq_url, tmp_path, scenario, scale=0.02, limits="10%,100%")
    result = run_scenario(plan, Notes())
    assert result.problems == {}
    assert result.verification["drained"]
    assert result.info["product"] == "RabbitMQ"


def test_quorum_queues_deliver_and_confirm(rabbitmq_url: str, tmp_path: Path) -> None:
    plan = small_plan(rabbitmq_url, tmp_path, queue_type="quorum", limits="10%")
    result = run_scenario(plan, Notes())
    assert result.problems == {}
    assert result.verification["drained"]
    assert len(rows(tmp_path, "delivered")) == result.verification["delivered"]
