"""Fixtures of the tests against a real broker.

`--broker-url URL` (or the variable SLUICEMQ_TEST_AMQP_URL) runs the same tests against a broker
that is there already, RabbitMQ for example: what they demand is what RabbitMQ does.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

import broker
from broker import Target


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker-url",
        default=os.environ.get("SLUICEMQ_TEST_AMQP_URL"),
        help="run the tests of real clients against this broker instead of starting our own",
    )


@pytest.fixture(scope="session")
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """The broker under test, one for all tests."""
    url = request.config.getoption("--broker-url")
    if url:
        yield broker.at(url)
    else:
        with broker.serving(tmp_path_factory.mktemp("broker")) as own:
            yield own


@pytest.fixture(scope="session")
def broker_url(target: Target) -> str:
    return target.url


@pytest.fixture
def name() -> str:
    """A name no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
