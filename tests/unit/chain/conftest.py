"""Some of these tests are run once more over queues that have their commands agreed on later, so
that code is found which counts on a queue that does at once what it is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.local_queue import LocalQueue
from sluicemq.routing.message import Message
from sluicemq.routing.topology import Topology
from support.late import Late

LATE_TOO: Final = {
    "test_crash_leftovers",
    "test_crash_recovery",
    "test_deduplication",
    "test_poison_messages",
    "test_queue",
    "test_queue_timers",
    "test_refused_messages",
    "test_stream_faults",
    "test_stream_queue",
    "test_transactions",
}

assert all((Path(__file__).parent / f"{name}.py").exists() for name in LATE_TOO)

AT_ONCE: Final = {
    "test_auto_delete_queue_goes_with_its_last_consumer_and_takes_no_other": "later it takes one",
}
"""What is so only at once, and what it is otherwise."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The exchanges of all questions to the topology that it has answered."""
    exchanges: list[str] = []
    by_message, by_key = Topology.route_message, Topology.queues_by_key

    def asked_by_message(self: Topology, exchange: str, message: Message) -> tuple[str, ...]:
        exchanges.append(exchange)
        return by_message(self, exchange, message)

    def asked_by_key(self: Topology, exchange: str, key: str) -> tuple[str, ...] | None:
        found = by_key(self, exchange, key)
        if found is not None:
            exchanges.append(exchange)
        return found

    monkeypatch.setattr(Topology, "route_message", asked_by_message)
    monkeypatch.setattr(Topology, "queues_by_key", asked_by_key)
    return exchanges


def late(queue: LocalQueue) -> Late[Any, Any]:
    """In place of what a queue makes."""
    return Late(queue.machine, queue.effects, queue, queue)


@pytest.fixture(autouse=True)
def agreement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """When commands of queues are agreed on: "at once" or "later"."""
    when: str = getattr(request, "param", "at once")
    if when == "later":
        for kind in (LocalQueue, ClassicShell):
            monkeypatch.setattr(kind, "replicate", late)
    return when


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in LATE_TOO:
        whens = ["at once"] if metafunc.definition.name in AT_ONCE else ["at once", "later"]
        metafunc.parametrize("agreement", whens, indirect=True)
