"""Fixtures of the tests against a real broker.

`--broker-url URL` (or the variable SLUICEMQ_TEST_AMQP_URL) runs the same tests against a broker
that is there already, RabbitMQ for example: what they demand is what RabbitMQ does. Tests that
change users or virtual hosts need `--broker-ctl COMMAND` besides, its rabbitmqctl.
"""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Iterator

import pytest

from support import broker
from support.broker import Target


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker-url",
        default=os.environ.get("SLUICEMQ_TEST_AMQP_URL"),
        help="run the tests of real clients against this broker instead of starting our own",
    )
    parser.addoption(
        "--broker-ctl",
        default=os.environ.get("SLUICEMQ_TEST_CTL"),
        help="the rabbitmqctl of the broker at --broker-url, with its options",
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
def ctl(request: pytest.FixtureRequest, target: Target) -> broker.Ctl:
    """Runs control commands on the broker under test: `ctl("add_user", name, password)`."""
    command = request.config.getoption("--broker-ctl")
    if not target.is_own and not command:
        pytest.skip("needs --broker-ctl")
    return broker.Ctl(target, shlex.split(command) if command else ())


@pytest.fixture(scope="session")
def broker_url(target: Target) -> str:
    return target.url


@pytest.fixture
def name() -> str:
    """A name no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
