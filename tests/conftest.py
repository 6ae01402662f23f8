"""Options and fixtures of all tests."""

from __future__ import annotations

import pytest

pytest_plugins = ["fixtures_broker"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what happens now into the transcripts of tests/scripts; read the diff after it",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Are transcripts to be written anew instead of being compared?"""
    return bool(request.config.getoption("--rewrite"))
