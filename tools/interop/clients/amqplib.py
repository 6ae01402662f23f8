"""amqplib's tests, of node. 2.2.0 is the newest release whose package contains them."""

from __future__ import annotations

from running import node
from sources import NpmPackage
from suite import Outcome, Suite, Workplace

VERSION = "2.2.0"
TEST_MS = 60_000
"""Of one test, and of a file of them: machines are slow at times."""


def run(workplace: Workplace) -> list[Outcome]:
    """Without a URL it connects to the default port: that is made the broker's."""
    connect = workplace.sources / "lib" / "connect.js"
    connect.write_text(connect.read_text().replace("5672", str(workplace.port)))
    files = [f"test/{file.name}" for file in (workplace.sources / "test").glob("*.test.js")]
    options = (f"--test-timeout={TEST_MS}", "--test-concurrency=1")
    return node(workplace, *options, *sorted(files), URL=f"amqp://127.0.0.1:{workplace.port}")


SUITE = Suite(
    "amqplib",
    VERSION,
    NpmPackage("amqplib", VERSION, "test", ("claire@0.4.1",)),
    run,
    what="node; its own tests",
)
