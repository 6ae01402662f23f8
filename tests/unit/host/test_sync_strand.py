"""Goal: with a ring the journal's strand keeps its order and its failures, and nothing counts as
written that was not. Method: a ring that does what the test says, real threads and files; chance
mixes jobs, results and moments.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import DiskFailed
from sluicemq.host.disk import HostDisk
from sluicemq.host.files import HostFiles
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.disk import SYNC_STRAND, DiskJob, DurableWrite, Files
from support.fakes import bystander
from support.rings import ToldRing
from support.thorough import examples

WAIT_SECONDS = 240


class Group(DiskJob):
    """A durable write and no more; counts how often the thread did it."""

    def __init__(self, offset: int, data: bytes) -> None:
        self.write = DurableWrite("f", offset, data)
        self.runs = 0

    def durable_write(self) -> DurableWrite | None:
        return self.write

    def run(self, files: Files) -> None:
        self.runs += 1
        files.write_durably(*self.write)


class More(Group):
    """A job with more to it."""

    def durable_write(self) -> DurableWrite | None:
        return None


class Scene:
    """A disk with a ring, over a file to which the ring may write."""

    def __init__(self, root: Path) -> None:
        self.said: list[str] = []
        self.files = HostFiles(root, 8, self.said.append)
        self.ring = ToldRing()
        self.crashes: list[BaseException] = []
        loop = asyncio.get_running_loop()
        self.disk = HostDisk(loop, self.files, 1, self.crashes.append, self.ring)
        self.actor: Actor = bystander()

    def submit(self, job: DiskJob) -> None:
        self.disk.submit(job, self.actor, SYNC_STRAND)

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, "it does not happen"
            await asyncio.sleep(0.001)

    async def back(self, count: int) -> list[object]:
        """The first jobs that came back, as soon as there are so many."""
        await self.until(lambda: len(self.actor.inbox) >= count)
        return self.actor.inbox

    async def warm_up(self) -> None:
        """Have pwritev2 write the file with the flag."""
        self.submit(Group(0, b"...."))
        await self.back(1)
        self.actor.inbox.clear()
        assert self.ring.begun == []


@asynccontextmanager
async def scene(root: Path) -> AsyncIterator[Scene]:
    made = Scene(root)
    await made.warm_up()
    yield made
    await made.disk.stop()
    assert made.crashes == []
    assert not made.files.handles.table


def test_the_ring_writes_what_is_only_a_durable_write(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path) as made:
            job = Group(4, b"group")
            before = made.disk.counters()
            made.submit(job)
            assert [(offset, data) for _, offset, data in made.ring.begun] == [(4, b"group")]
            await asyncio.sleep(0)
            assert made.actor.inbox == [], "it is not done yet"
            made.ring.finish()
            assert await made.back(1) == [job]
            assert (job.failure, job.runs) == (None, 0)
            assert made.files.read("f", 0, 99) == b"....group"
            after = made.disk.counters()
            grown = {name: after[name] - before[name] for name in before if after[name]}
            assert (grown["io_write_count"], grown["io_write_bytes"]) == (1, 5)
            assert grown["io_sync_count"] == 1

    asyncio.run(play())


def test_a_flag_that_pwritev2_has_not_taken_is_not_given_to_the_ring(tmp_path: Path) -> None:
    """io_uring would ignore it on a file system that does not know it."""

    async def play() -> None:
        async with scene(tmp_path) as made:
            made.files.is_dsync_known = False
            job = Group(4, b"group")
            made.submit(job)
            await made.back(1)
            assert (job.runs, made.ring.begun) == (1, [])

    asyncio.run(play())


@pytest.mark.parametrize("why", ["closed", "dirty", "failed", "syncing", "more", "refused"])
def test_all_else_is_the_threads(why: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path) as made:
            handle = made.files.handles.table["f"]
            if why == "closed":
                made.files.close()
            elif why == "dirty":
                made.files.write("f", 0, b"seal")
            elif why == "failed":
                made.files.handles.failed["f"] = "EIO"
            elif why == "syncing":
                handle.syncing.acquire()
            elif why == "refused":
                made.ring.refusal = OSError(errno.EAGAIN, "no room")
            job = (More if why == "more" else Group)(4, b"group")
            made.submit(job)
            await made.until(lambda: job.runs)
            if why == "syncing":
                handle.syncing.release()
            await made.back(1)
            assert (str(job.failure) == "sync f: EIO") == (why == "failed")
            assert made.ring.begun == []
            made.ring.refusal = None
            made.submit(Group(9, b"later"))
            await made.until(lambda: len(made.ring.begun) + len(made.actor.inbox) > 1)
            is_rings = bool(made.ring.begun)
            assert is_rings == (why not in ("failed", "refused")), "given up for good, or not"
            assert len(made.said) == (why == "refused")
            if is_rings:
                made.ring.finish()
                await made.back(2)
            made.files.handles.failed.clear()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (0, 0),
        (3, 0),
        (-errno.EINTR, 0),
        (-errno.EAGAIN, 0),
        (-errno.ECANCELED, 0),
        (-errno.EINVAL, 1),
        (-errno.EOPNOTSUPP, 1),
    ],
)
def test_what_the_ring_did_not_do_the_thread_does(result: int, said: int, tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path) as made:
            job, later = Group(4, b"group"), Group(9, b"later")
            made.submit(job)
            made.submit(later)
            made.ring.finish(result)
            assert await made.back(2) == [job, later]
            assert (job.failure, job.runs, later.runs) == (None, 1, 1)
            assert made.files.read("f", 0, 99) == b"....grouplater"
            assert len(made.said) == said
            made.submit(Group(14, b"!"))
            assert len(made.ring.begun) == 2 - said
            if not said:
                made.ring.finish()
            await made.back(3)
            assert made.files.read("f", 14, 1) == b"!"

    asyncio.run(play())


def test_a_write_that_failed_fails_for_ever(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path) as made:
            jobs = [Group(4, b"x"), Group(5, b"y")]
            for job in jobs:
                made.submit(job)
            made.ring.finish(-errno.EIO)
            await made.back(2)
            assert [str(job.failure) for job in jobs] == ["sync f: EIO"] * 2
            assert isinstance(jobs[0].failure, DiskFailed)
            assert len(made.ring.begun) == 1
            with pytest.raises(DiskFailed, match=r"^sync f: EIO$"):
                made.files.sync("f")
            made.files.delete("f")

    asyncio.run(play())


def test_a_write_without_space_may_be_tried_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path) as made:
            job = Group(4, b"x")
            made.submit(job)
            made.ring.finish(-errno.ENOSPC)
            await made.back(1)
            assert job.failure is not None
            assert job.failure.is_full
            job.failure = None
            made.submit(job)
            made.ring.finish()
            await made.back(2)
            assert job.failure is None
            assert made.files.read("f", 4, 9) == b"x"

    asyncio.run(play())


def test_stop_waits_for_the_write_under_way_and_for_all_behind_it(tmp_path: Path) -> None:
    async def play() -> None:
        made = Scene(tmp_path)
        await made.warm_up()
        jobs = [Group(4, b"a"), More(5, b"b"), Group(6, b"c")]
        for job in jobs:
            made.submit(job)
        stopping = asyncio.create_task(made.disk.stop())
        await asyncio.sleep(0.05)  # nothing happens
        assert not stopping.done()
        made.ring.finish()
        await stopping
        assert made.actor.inbox == jobs
        assert (tmp_path / "f").read_bytes() == b"....abc"

    asyncio.run(play())


STEPS = st.lists(
    st.one_of(
        st.sampled_from((Group, More)),
        st.sampled_from((None, None, 0, 1, -errno.EINTR, -errno.ENOSPC)),
        st.just("wait"),
    ),
    max_size=30,
)
"""A job of a kind, a result of the ring's, or a moment in which the thread may get on."""


@given(steps=STEPS)
@examples(30)
def test_whatever_happens_jobs_are_done_and_come_back_in_order(steps: list[object]) -> None:
    async def play(root: Path) -> None:
        async with scene(root) as made:
            jobs: list[Group] = []
            told = 0
            for step in steps:
                if isinstance(step, type):
                    jobs.append(step(len(jobs) + 4, bytes([len(jobs)])))
                    made.submit(jobs[-1])
                elif step == "wait":
                    await asyncio.sleep(0.001)
                elif len(made.ring.begun) > told:
                    told += 1
                    made.ring.finish(step)  # type: ignore[arg-type]
                    await asyncio.sleep(0)
            while len(made.actor.inbox) < len(jobs):
                if len(made.ring.begun) > told:
                    told += 1
                    made.ring.finish()
                await asyncio.sleep(0.001)
            assert made.actor.inbox == jobs
            data = made.files.read("f", 4, 99).ljust(len(jobs), b"\xff")
            for index, job in enumerate(jobs):
                assert job.failure is None or job.failure.is_full
                assert job.failure is not None or data[index] == index

    with TemporaryDirectory() as place:
        asyncio.run(play(Path(place)))
