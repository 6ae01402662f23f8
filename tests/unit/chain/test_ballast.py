"""Goal: the ballast file is there while the disk is well, goes when it is full, and comes back when
there is space, however often and in whatever order things happen.

Method: the ballast of a store that is a list of jobs; the jobs are done on files in a dict.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from sluicemq.chain.store.ballast import Ballast, CreateBallast, DeleteBallast
from sluicemq.errors import DiskFailed
from sluicemq.flow.alarm import DISK
from sluicemq.kernel.disk import DiskJob
from sluicemq.limits import BALLAST_PAUSE_NS
from sluicemq.storage.recovery import BALLAST
from support.fakes import FakeWorld
from support.files import DictFiles

SIZE = 1000


class Alarms:
    def __init__(self) -> None:
        self.reasons: set[str] = set()


class Services:
    """What of the services the ballast asks and tells."""

    def __init__(self) -> None:
        self.world = FakeWorld()
        self.alarms = Alarms()
        self.full: list[DiskJob] = []

    def no_space_for(self, job: DiskJob) -> None:
        assert job not in self.full
        self.full.append(job)

    def has_space(self, job: DiskJob) -> None:
        self.full.remove(job)


class Store:
    """Keeps jobs until the test does them."""

    def __init__(self) -> None:
        self.services = Services()
        self.storage_failed = ""
        self.jobs: list[Any] = []
        self.later: list[DiskJob] = []
        self.files = DictFiles()

    def submit(self, job: DiskJob) -> None:
        self.jobs.append(job)

    def try_later(self, job: DiskJob) -> None:
        self.later.append(job)

    def pass_time(self) -> None:
        self.services.world.clock.time_ns += BALLAST_PAUSE_NS

    def work(self, ballast: Ballast) -> None:
        """Do the jobs there are."""
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            try:
                job.run(self.files)
            except DiskFailed as failure:
                job.failure = failure
            ballast.done(job)

    def retry(self) -> None:
        """Space may have come back: what waits for it is submitted anew."""
        jobs, self.later = self.later, []
        self.jobs += jobs


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def ballast(store: Store) -> Ballast:
    made = Ballast(cast(Any, store), SIZE)
    made.create_if_missing()
    store.work(made)
    assert made.is_there
    return made


def size(store: Store) -> int:
    return store.files.size(BALLAST)


def test_it_is_made_once_and_as_large_as_it_is_to_be(store: Store, ballast: Ballast) -> None:
    assert size(store) == SIZE
    store.pass_time()
    ballast.create_if_missing()
    assert store.jobs == []


def test_one_of_another_size_is_made_anew(store: Store) -> None:
    store.files.put(BALLAST, bytes(2 * SIZE))
    job = CreateBallast(SIZE)
    job.run(store.files)
    assert (job.is_there, size(store)) == (True, SIZE)


def test_it_is_not_made_where_it_would_take_half_of_what_is_left(store: Store) -> None:
    job = CreateBallast(SIZE)
    store.files.free = 2 * SIZE
    job.run(store.files)
    assert (job.is_there, size(store)) == (False, -1)
    store.files.free += 1
    job.run(store.files)
    assert (job.is_there, size(store)) == (True, SIZE)


def test_it_is_not_tried_all_the_time(store: Store) -> None:
    store.files.free = 0
    made = Ballast(cast(Any, store), SIZE)
    made.create_if_missing()
    made.create_if_missing()
    assert len(store.jobs) == 1
    store.work(made)
    made.create_if_missing()
    assert store.jobs == []
    store.pass_time()
    made.create_if_missing()
    assert len(store.jobs) == 1


def test_none_is_made_under_an_alarm_on_a_failed_disk_or_without_a_size(store: Store) -> None:
    made = Ballast(cast(Any, store), SIZE)
    store.services.alarms.reasons.add(DISK)
    made.create_if_missing()
    store.services.alarms.reasons.clear()
    store.storage_failed = "EIO"
    made.create_if_missing()
    store.storage_failed = ""
    Ballast(cast(Any, store), 0).create_if_missing()
    assert store.jobs == []
    made.create_if_missing()
    assert len(store.jobs) == 1


def test_a_full_disk_has_it_deleted_and_counts_as_full_until_it_is_back(
    store: Store, ballast: Ballast
) -> None:
    ballast.delete()
    ballast.delete()
    assert [type(job) for job in store.jobs] == [DeleteBallast]
    assert len(store.services.full) == 1
    store.files.free = 0
    store.work(ballast)
    assert (size(store), ballast.is_there) == (-1, False)
    store.retry()
    store.work(ballast)
    assert (size(store), len(store.services.full), len(store.later)) == (-1, 1, 1)
    store.files.free = 1 << 30
    store.retry()
    store.work(ballast)
    assert (size(store), ballast.is_there, store.services.full) == (SIZE, True, [])
    ballast.delete()
    assert [type(job) for job in store.jobs] == [DeleteBallast]


def test_a_deletion_that_is_asked_for_while_it_is_made_waits_its_turn(store: Store) -> None:
    made = Ballast(cast(Any, store), SIZE)
    made.create_if_missing()
    made.delete()
    assert len(store.jobs) == 1, "one job at a time"
    store.files.free = 0
    store.work(made)
    assert len(store.services.full) == 1
    store.files.free = 1 << 30
    store.retry()
    store.work(made)
    assert (made.is_there, store.services.full) == (True, [])


def test_a_job_that_failed_did_no_harm(store: Store, ballast: Ballast) -> None:
    store.files.fail_after(0)
    ballast.delete()
    store.work(ballast)
    assert not ballast.is_there
    store.files.fail = None
    store.retry()
    store.work(ballast)
    assert ballast.is_there


def test_without_a_size_nothing_is_deleted(store: Store) -> None:
    Ballast(cast(Any, store), 0).delete()
    assert (store.jobs, store.services.full) == ([], [])
