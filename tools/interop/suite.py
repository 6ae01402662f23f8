"""What a suite of a real client is, and what came of running it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Missing(Exception):
    """The suite cannot be run here; says why."""


@dataclass(frozen=True)
class Workplace:
    """Where one suite runs against one broker."""

    broker: str
    port: int
    sources: Path  # a copy of its own: it may be changed
    python: Path  # of the environment with the clients and their test tools
    results: Path  # a directory for what it prints and writes
    over_quorum: bool = False  # its queues are to be quorum queues
    deadline: float = float("inf")  # when it is to be cut short, by time.monotonic

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"


@dataclass(frozen=True)
class Outcome:
    """Of one test. `text` is the first line of a failure, or why it was skipped."""

    name: str
    status: str
    text: str = ""


class Source(Protocol):
    """Where the tests come from."""

    def fetch(self, cache: Path) -> Path:
        """The directory with the sources, fetched when they are not in the cache; or Missing."""


@dataclass(frozen=True)
class Suite:
    """The tests of one client.

    `known` explains tests that fail against SluiceMQ and pass against RabbitMQ: patterns as of
    `fnmatch`, and the reason. One that explains nothing any more is reported: remove it.
    `known_over_quorum` does so when all queues are quorum queues. `races` explains tests that fail
    now and then, against either broker.
    """

    client: str
    version: str
    source: Source
    run: Callable[[Workplace], list[Outcome]]
    known: tuple[tuple[str, str], ...] = ()
    known_over_quorum: tuple[tuple[str, str], ...] = ()
    races: tuple[tuple[str, str], ...] = ()
    what: str = "its own tests"  # in a few words, for readers of docs/clients.md
    takes_long: bool = False  # begins before the others

    def over_quorum(self) -> Suite:
        """The suite as it is run over quorum queues."""
        return replace(self, client=f"{self.client} (quorum)", known=self.known_over_quorum)

    def reason(self, test: str) -> str | None:
        """Why this test is known to fail; None when it is not."""
        for pattern, reason in self.known + self.races:
            if fnmatchcase(test, pattern):
                return reason
        return None


@dataclass
class Verdict:
    """A suite on both brokers, by the name of the broker. `missing`: why it did not run."""

    suite: Suite
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    missing: str = ""
    cut_short: frozenset[str] = frozenset()
    """The brokers on which it was not through when its time was over."""

    def count(self, broker: str, status: str) -> int:
        return sum(outcome.status == status for outcome in self.outcomes.get(broker, []))

    def differences(self, own: str, oracle: str) -> list[Outcome]:
        """Ours that did not pass where the oracle's did. Without an oracle: that failed."""
        ours = {outcome.name: outcome for outcome in self.outcomes.get(own, [])}
        if oracle not in self.outcomes:
            return [outcome for outcome in ours.values() if outcome.status == FAILED]
        theirs = [outcome for outcome in self.outcomes[oracle] if outcome.status == PASSED]
        if self.cut_short:  # what ran on one of them alone says nothing
            theirs = [outcome for outcome in theirs if outcome.name in ours]
        pairs = [
            ours.get(their.name, Outcome(their.name, FAILED, "did not run")) for their in theirs
        ]
        return [outcome for outcome in pairs if outcome.status != PASSED]

    def outdated(self, own: str, oracle: str) -> list[str]:
        """Patterns of known differences that explain none, but for races."""
        names = [outcome.name for outcome in self.differences(own, oracle)]
        return [
            pattern
            for pattern, _ in self.suite.known
            if self.outcomes and not any(fnmatchcase(name, pattern) for name in names)
        ]
