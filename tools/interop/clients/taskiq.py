"""taskiq's tests of its broker on aio-pika. Its packages leave them out, so they come from its
repository.
"""

from __future__ import annotations

from running import pytest
from sources import Git
from suite import Outcome, Suite, Workplace

TESTS = "tests"
VERSION = "0.6.0"


def run(workplace: Workplace) -> list[Outcome]:
    """Its tests name the type of each queue. Those with a plug-in that Debian's RabbitMQ lacks are
    for SluiceMQ alone."""
    if workplace.over_quorum:
        for file in (workplace.sources / TESTS).glob("*.py"):
            file.write_text(file.read_text().replace("QueueType.CLASSIC", "QueueType.QUORUM"))
    return pytest(
        workplace, TESTS, plugins=("anyio",), environment={"TEST_AMQP_URL": workplace.url}
    )


URL = "https://github.com/taskiq-python/taskiq-aio-pika.git"
SUITE = Suite("taskiq", VERSION, Git("taskiq", URL, VERSION), run)
