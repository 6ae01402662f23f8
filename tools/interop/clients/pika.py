"""pika's acceptance tests. Its packages leave them out, so they come from its repository."""

from __future__ import annotations

from running import pytest
from sources import Git
from suite import Outcome, Suite, Workplace

TESTS = "tests/acceptance"
VERSION = "1.4.4"


def run(workplace: Workplace) -> list[Outcome]:
    """The port of the broker stands in the tests. Some resolve a name on the internet."""
    for directory in (TESTS, "tests/base"):
        for file in (workplace.sources / directory).glob("*.py"):
            text = file.read_text()
            file.write_text(text.replace("5672", str(workplace.port)))
    return pytest(workplace, TESTS, "-k", "not WWWGoogleDotCom")


SUITE = Suite(
    "pika",
    VERSION,
    Git("pika", "https://github.com/pika/pika.git", VERSION),
    run,
    what="its acceptance tests",
    takes_long=True,
    known_over_quorum=(
        (
            "*.TestClose*FromBasicConsumeCallback::test",
            "what a client gives back comes next, and not behind all other messages, also where"
            " there is no delivery limit",
        ),
    ),
)
