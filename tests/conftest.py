"""Options and fixtures of all tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from support import java

# How long an example takes says how busy the machine is. A run has the same examples each time, so
# that what fails can be run again; `--hypothesis-profile explore` looks for new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("sluicemq", settings.get_profile("explore"), derandomize=True)
settings.load_profile("sluicemq")

java.set_options()

pytest_plugins = ["support.fixtures", "support.scheduling", "support.spark_starts"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what happens now into the transcripts of tests/scripts, or which seeds notice"
        " planted bugs into tests/sim/first_seeds.json; read the diff after it",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Are transcripts to be written anew instead of being compared?"""
    return bool(request.config.getoption("--rewrite"))
