"""Goal: jobs run elsewhere, each strand in order, each job comes back to its actor exactly once,
and one that breaks breaks loudly. Method: a real loop, real threads, real files.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import pytest

from sluicemq.errors import DiskFailed
from sluicemq.host.disk import HostDisk
from sluicemq.host.files import HostFiles
from sluicemq.host.watchdog import frames_of_threads
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.disk import DiskJob, Files
from support.waiting import await_truth

WAIT_SECONDS = 240


class Inbox(Actor):
    """Keeps what comes back."""

    def __init__(self) -> None:
        super().__init__(Scheduler())

    def receive(self, message: object) -> None:
        raise AssertionError("nobody runs this scheduler")

    async def filled(self, count: int) -> list[object]:
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while len(self.inbox) < count:
            assert asyncio.get_running_loop().time() < deadline, "jobs got lost"
            await asyncio.sleep(0.001)
        return self.inbox


class Append(DiskJob):
    """Writes a number behind those that are there; remembers who ran it."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        self.thread = ""

    def run(self, files: Files) -> None:
        self.thread = threading.current_thread().name
        files.write(self.path, max(0, files.size(self.path)), bytes([self.number]))


class Gate(DiskJob):
    """Waits until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def run(self, files: Files) -> None:
        assert self.open.wait(WAIT_SECONDS)


class Broken(DiskJob):
    """Has a mistake of ours."""

    def run(self, files: Files) -> None:
        raise ValueError("a mistake")


@asynccontextmanager
async def disk(root: Path, threads: int = 2) -> AsyncIterator[tuple[HostDisk, list[BaseException]]]:
    crashes: list[BaseException] = []
    loop = asyncio.get_running_loop()
    made = HostDisk(loop, HostFiles(root, 8), threads, crashes.append)
    yield made, crashes
    await made.stop()


def test_a_strand_keeps_its_order_and_every_job_comes_back(tmp_path: Path) -> None:
    async def scene() -> None:
        async with disk(tmp_path) as (made, crashes):
            inboxes = [Inbox() for _ in range(5)]
            for number in range(100):
                for strand, inbox in enumerate(inboxes):
                    made.submit(Append(f"strand{strand}", number), inbox, strand)
            for strand, inbox in enumerate(inboxes):
                jobs = await inbox.filled(100)
                assert [job.number for job in jobs if isinstance(job, Append)] == [*range(100)]
                assert made.files.read(f"strand{strand}", 0, 200) == bytes(range(100))
                thread = "disk-sync" if strand == 0 else f"disk-{strand % 2}"
                assert {job.thread for job in jobs if isinstance(job, Append)} == {thread}
            assert crashes == []

    asyncio.run(scene())


def test_the_journals_strand_waits_for_nobody(tmp_path: Path) -> None:
    async def scene() -> None:
        async with disk(tmp_path, threads=1) as (made, _):
            gate, inbox = Gate(), Inbox()
            made.submit(gate, inbox, 1)
            made.submit(Append("a", 1), inbox, 0)
            (first,) = await inbox.filled(1)
            assert isinstance(first, Append)
            gate.open.set()
            assert (await inbox.filled(2))[1] is gate

    asyncio.run(scene())


def test_what_is_done_together_wakes_the_loop_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with disk(tmp_path) as (made, _):
            wakes = 0
            post_done = made.post_done

            def counting() -> None:
                nonlocal wakes
                wakes += 1
                post_done()

            made.post_done = counting  # type: ignore[method-assign]
            gate, inbox = Gate(), Inbox()
            made.submit(gate, inbox, 0)
            for number in range(50):
                made.submit(Append("a", number), inbox, 0)
            gate.open.set()
            await_truth(lambda: len(made.done) == 51)  # the loop's thread is busy meanwhile
            await inbox.filled(51)
            assert wakes == 1

    asyncio.run(scene())


def test_a_refusal_comes_back_with_the_job(tmp_path: Path) -> None:
    async def scene() -> None:
        async with disk(tmp_path) as (made, crashes):
            inbox = Inbox()
            made.submit(Append("absent/a", 1), inbox, 3)
            made.submit(Append("a", 1), inbox, 3)
            failed, good = await inbox.filled(2)
            assert isinstance(failed, Append)
            assert isinstance(good, Append)
            assert isinstance(failed.failure, DiskFailed)
            assert str(failed.failure) == "write absent/a: ENOENT"
            assert good.failure is None
            assert crashes == []

    asyncio.run(scene())


def test_a_mistake_is_told_and_nothing_runs_after_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with disk(tmp_path) as (made, crashes):
            inbox = Inbox()
            made.submit(Append("a", 1), inbox, 0)
            made.submit(Broken(), inbox, 0)
            for strand in range(3):
                made.submit(Append("b", 2), inbox, strand)
            while not crashes:
                await asyncio.sleep(0.001)
            assert isinstance(crashes[0], ValueError)
            made.submit(Append("c", 3), inbox, 1)
            made.submit(Append("c", 3), inbox, 0)
            await made.stop()
            assert made.files.size("c") == -1
            assert isinstance(inbox.inbox[0], Append)

    asyncio.run(scene())


def test_stop_finishes_what_was_submitted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with disk(tmp_path) as (made, _):
            inbox = Inbox()
            for number in range(100):
                made.submit(Append(f"strand{number % 4}", number), inbox, number % 4)
            await made.stop()
            assert len(inbox.inbox) == 100
            assert made.counters()["file_handles_open"] == 0
            assert not any(thread.is_alive() for thread in made.threads)
            made.submit(Append("late", 1), inbox, 0)
            assert made.files.size("late") == -1

    asyncio.run(scene())


def test_threads_are_named_daemons(tmp_path: Path) -> None:
    async def scene() -> None:
        async with disk(tmp_path, threads=3) as (made, _):
            names = [thread.name for thread in made.threads]
            assert names == ["disk-sync", "disk-0", "disk-1", "disk-2"]
            assert all(thread.daemon for thread in made.threads)

    asyncio.run(scene())


def test_threads_without_a_job_sleep(tmp_path: Path) -> None:
    """A thread that asks the system for anything and waits for it gives up its processor."""

    def is_asleep(thread: threading.Thread) -> bool:
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        return "State:\tS" in status

    def switches(disk: HostDisk) -> list[str]:
        places = [Path(f"/proc/self/task/{thread.native_id}/status") for thread in disk.threads]
        lines = [line for place in places for line in place.read_text().splitlines()]
        return [line for line in lines if line.startswith("voluntary_ctxt_switches")]

    def are_quiet(disk: HostDisk) -> bool:
        """What a thread does behind its last job may take until it is given a processor."""
        before = switches(disk)
        assert len(before) == 5
        time.sleep(0.5)
        return switches(disk) == before

    async def scene() -> None:
        async with disk(tmp_path, threads=4) as (made, _):
            inbox = Inbox()
            for strand in range(5):
                made.submit(Append("a", 1), inbox, strand)
            await inbox.filled(5)
            await_truth(lambda: all(is_asleep(thread) for thread in made.threads))
            await_truth(lambda: are_quiet(made))

    asyncio.run(scene())


@pytest.mark.parametrize("strand", [0, 1])
def test_what_was_written_is_not_kept_in_memory(tmp_path: Path, strand: int) -> None:
    async def scene() -> None:
        async with disk(tmp_path) as (made, _):
            inbox = Inbox()
            made.submit(Append("a", 1), inbox, strand)
            await inbox.filled(1)
            job = inbox.inbox.pop()
            await_truth(lambda: not _holders(made.threads, job))

    asyncio.run(scene())


def _holders(threads: list[threading.Thread], job: object) -> list[object]:
    """The frames of these threads that still have it in a variable. Nothing is asked whether it is
    equal to it: that may be an object of anybody's."""
    frames = frames_of_threads()
    found: list[object] = []
    for thread in threads:
        assert thread.ident is not None
        frame: FrameType | None = frames[thread.ident]
        while frame is not None:
            values = [*frame.f_locals.values()]
            values += [each for value in values if isinstance(value, tuple) for each in value]
            if any(value is job for value in values):
                found.append(frame)
            frame = frame.f_back
    return found
