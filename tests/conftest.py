"""Options and fixtures of all tests."""

from __future__ import annotations

import pytest

from support import java
from support.thorough import set_up_hypothesis

set_up_hypothesis()
java.set_options()

pytest_plugins = [
    "support.fixtures",
    "support.garbage",
    "support.scheduling",
    "support.spark_starts",
    "support.undrawn",
]


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
