"""Goal: an idle journal is sealed once, a busy one is not, and one timer serves them all.

Method: the seals of a store that is no more than what they look at.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from sluicemq.chain.store.journal_seals import JournalSeals
from sluicemq.limits import SEAL_AFTER_MS
from support.fakes import FakeWorld


class Journal:
    def __init__(self) -> None:
        self.sequence = 0
        self.job: object | None = object()

    def seal(self) -> object | None:
        return self.job


class Services:
    def __init__(self) -> None:
        self.world = FakeWorld()


class Store:
    """A store whose inbox is read by its seals at once."""

    def __init__(self) -> None:
        self.services = Services()
        self.journal = Journal()
        self.sync_runs = False
        self.storage_failed = ""
        self.submitted: list[object] = []
        self.seals = JournalSeals(cast(Any, self))

    def submit(self, job: object) -> None:
        self.submitted.append(job)

    def post(self, message: Any) -> None:
        self.seals.look(message)

    def write(self) -> None:
        """A group is durable."""
        self.journal.sequence += 1
        self.seals.watch()

    def wait(self, passed_ms: int = SEAL_AFTER_MS) -> None:
        self.services.world.clock.advance(passed_ms)

    @property
    def timers(self) -> int:
        return len(self.services.world.clock.timers)


@pytest.fixture
def store() -> Store:
    return Store()


def test_a_journal_that_fell_idle_is_sealed_once(store: Store) -> None:
    store.write()
    store.wait(SEAL_AFTER_MS - 1)
    assert store.submitted == []
    store.wait(1)
    assert store.submitted == [store.journal.job]
    store.wait(100 * SEAL_AFTER_MS)
    assert (len(store.submitted), store.timers) == (1, 0)


def test_a_busy_journal_has_one_timer_and_no_seal(store: Store) -> None:
    for _ in range(50):
        store.write()
        store.write()
        assert store.timers == 1
        store.wait(SEAL_AFTER_MS // 2)
    assert store.submitted == []
    store.wait(2 * SEAL_AFTER_MS)
    assert len(store.submitted) == 1


def test_a_sync_under_way_is_no_idleness(store: Store) -> None:
    store.write()
    store.sync_runs = True
    store.wait(5 * SEAL_AFTER_MS)
    assert store.submitted == []
    store.sync_runs = False
    store.wait()
    assert len(store.submitted) == 1


def test_a_journal_that_is_sealed_or_cannot_be_written_gets_none(store: Store) -> None:
    store.journal.job = None
    store.write()
    store.wait()
    store.journal.job = object()
    store.storage_failed = "EIO"
    store.write()
    store.wait()
    assert store.submitted == []


def test_what_comes_after_a_seal_is_watched_again(store: Store) -> None:
    for count in (1, 2, 3):
        store.write()
        store.wait()
        assert len(store.submitted) == count
