"""amqp091-go, RabbitMQ's client for Go: its integration tests, from Debian's package."""

from __future__ import annotations

from running import go
from sources import Debian
from suite import Outcome, Suite, Workplace

PACKAGE = "github.com/rabbitmq/amqp091-go"


def run(workplace: Workplace) -> list[Outcome]:
    return go(workplace, PACKAGE, "-tags", "integration", ".", AMQP_URL=workplace.url)


SUITE = Suite(
    "amqp091_go",
    "1.5.0",
    Debian(
        "golang-github-rabbitmq-amqp091-go-dev",
        f"/usr/share/gocode/src/{PACKAGE}",
        "integration_test.go",
    ),
    run,
    what="Go; its unit and integration tests",
    races=(
        (
            "TestConcurrentClose",
            "a race in the client, which closes one connection from 32 goroutines at once: one that"
            " reads the end of the socket before it knows of another's close returns an error"
            " that the test does not expect",
        ),
    ),
)
