"""Goal: jobs for the disk keep their promises (kernel/disk.py, Disk) on threads, in the simulation
and in the fake.

Method: the same jobs to each; a driver lets it work until they are back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from sluicemq.errors import DiskFailed
from sluicemq.host.disk import HostDisk
from sluicemq.host.files import HostFiles
from sluicemq.host.memory_disk import MemoryDisk, MemoryFiles
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.disk import SYNC_STRAND, Disk, DiskJob, Files
from sluicemq.sim.disk import SimDisk, SimFiles
from sluicemq.sim.timeline import Timeline
from support.fakes import FakeDisk, bystander, drain

STRANDS = 4
"""More than the host has threads here."""


class Append(DiskJob):
    """Writes a number behind those that are there."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number

    def run(self, files: Files) -> None:
        files.write(self.path, max(0, files.size(self.path)), bytes([self.number]))


class Works:
    """A disk, and how to let it work for a moment."""

    def __init__(self, disk: Disk, step: Callable[[], None]) -> None:
        self.disk = disk
        self.step = step

    def await_jobs(self, actor: Actor, count: int) -> list[DiskJob]:
        for _ in range(100_000):
            if len(actor.inbox) >= count:
                jobs = drain(actor)
                assert all(isinstance(job, DiskJob) for job in jobs)
                return jobs  # type: ignore[return-value]
            self.step()
        raise AssertionError("jobs got lost")


@pytest.fixture(params=["host", "memory", "sim", "fake"])
def works(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Works]:
    if request.param == "sim":
        timeline = Timeline()
        yield Works(SimDisk(timeline, Random(1), SimFiles()), timeline.step)
        return
    if request.param == "fake":
        fake = FakeDisk()
        yield Works(fake, fake.finish)
        return
    loop = asyncio.new_event_loop()
    crashes: list[BaseException] = []
    disk: HostDisk | MemoryDisk
    if request.param == "memory":
        disk = MemoryDisk(loop, MemoryFiles(), crashes.append)
    else:
        disk = HostDisk(loop, HostFiles(tmp_path, 8), 2, crashes.append)
    yield Works(disk, lambda: loop.run_until_complete(asyncio.sleep(0.001)))
    loop.run_until_complete(disk.stop())
    loop.close()
    assert crashes == []


def test_the_jobs_of_a_strand_are_done_and_come_back_in_order(works: Works) -> None:
    actors = [bystander() for _ in range(STRANDS)]
    for number in range(50):
        for strand, actor in enumerate(actors):
            works.disk.submit(Append(f"strand{strand}", number), actor, strand)
    for strand, actor in enumerate(actors):
        jobs = works.await_jobs(actor, 50)
        assert [job.number for job in jobs if isinstance(job, Append)] == [*range(50)]
        assert works.disk.files.read(f"strand{strand}", 0, 100) == bytes(range(50))


def test_a_job_is_posted_to_who_submitted_it_and_once(works: Works) -> None:
    mine, others = bystander(), bystander()
    job, other = Append("f", 1), Append("f", 2)
    works.disk.submit(job, mine, SYNC_STRAND)
    assert mine.inbox == [], "not before this turn is over"
    works.disk.submit(other, others, SYNC_STRAND)
    assert works.await_jobs(others, 1) == [other]
    assert works.await_jobs(mine, 1) == [job]
    assert job.failure is None


def test_a_refusal_comes_with_its_job_and_the_strand_goes_on(works: Works) -> None:
    actor = bystander()
    works.disk.submit(Append("absent/f", 1), actor, 3)
    works.disk.submit(Append("f", 2), actor, 3)
    failed, good = works.await_jobs(actor, 2)
    assert isinstance(failed.failure, DiskFailed)
    assert (failed.failure.path, failed.failure.code) == ("absent/f", "ENOENT")
    assert good.failure is None
    assert works.disk.files.read("f", 0, 9) == b"\2"


def test_a_job_may_be_submitted_for_what_another_has_done(works: Works) -> None:
    actor = bystander()
    works.disk.submit(Append("f", 1), actor, 1)
    works.await_jobs(actor, 1)
    works.disk.submit(Append("f", 2), actor, 2)
    works.await_jobs(actor, 1)
    assert works.disk.files.read("f", 0, 9) == b"\1\2"


def test_counters_are_whole_numbers_that_do_not_fall(works: Works) -> None:
    actor = bystander()
    before = works.disk.counters()
    works.disk.submit(Append("f", 1), actor, SYNC_STRAND)
    works.await_jobs(actor, 1)
    after = works.disk.counters()
    assert before.keys() == after.keys()
    assert all(after[name] >= count >= 0 for name, count in before.items())
    assert after.get("io_write_count", 1) >= 1
