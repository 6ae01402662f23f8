"""The World's disk on this machine: the files, and the threads that work on them.

The journal's strand has a thread to itself, for confirms wait for it, and where there is an
io_uring, the system does most of this thread's work (sync_strand.py). The other strands share a
pool. A thread takes its jobs in order, so a strand, which stays with its thread, keeps its order
too. Finished jobs go back to the event loop, and from there to the inbox of the actor that
submitted them. A thread without a job waits for one without a timeout: an idle broker asks the
system for nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sluicemq.errors import DiskFailed
from sluicemq.host.files import HostFiles
from sluicemq.host.sync_strand import Item, Jobs, SyncStrand
from sluicemq.kernel import disk
from sluicemq.kernel.disk import SYNC_STRAND, DiskJob

if TYPE_CHECKING:
    from sluicemq.host.uring import WriteRing
    from sluicemq.kernel.actor import Actor

STOP_LOOK_SECONDS: Final = 0.001
"""Seconds between two looks of a stopping disk at a write that is under way."""


class HostDisk(disk.Disk):
    """Runs jobs on threads: they come from the event loop's thread by `submit`, and go back to it.
    `crashed` is called there with an exception of a job that is no DiskFailed, which is a
    programming error. No job runs after that one, because later jobs may depend on it. `ring` is
    for the journal's strand, and is closed by `stop`; None: its thread does everything."""

    files: HostFiles

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        files: HostFiles,
        io_threads: int,
        crashed: Callable[[BaseException], None],
        ring: WriteRing | None = None,
    ) -> None:
        self.loop = loop
        self.files = files
        self.crashed = crashed
        self.done: deque[Item] = deque()
        self.woken = False
        """True when the loop has been woken to look at `done`."""
        self.succeeded = 0
        """The number of jobs that came back without a failure."""
        self.is_broken = False
        self.is_stopped = False
        self.sync_jobs = Jobs()
        self.sync_strand = SyncStrand(files, self.sync_jobs, ring)
        self.ring = ring
        if ring is not None:
            loop.add_reader(ring.descriptor, self.post_done)
        self.pool = [Jobs() for _ in range(io_threads)]
        self.threads = [self._thread("disk-sync", self.sync_jobs)]
        self.threads += [self._thread(f"disk-{n}", jobs) for n, jobs in enumerate(self.pool)]

    @property
    def place(self) -> str:
        """The place of the files, for the log."""
        return str(self.files.root)

    def submit(self, job: DiskJob, actor: Actor, strand: int) -> None:
        """Queue a job on its strand. After `stop` no job runs, as if the broker had been killed
        then."""
        if self.is_stopped or self.is_broken:
            return
        if strand == SYNC_STRAND:
            self.sync_strand.submit((job, actor))
        else:
            self.pool[strand % len(self.pool)].put((job, actor))

    def counters(self) -> dict[str, int]:
        """Return the totals of file I/O, how many file handles are open now, and how many may
        be."""
        handles = self.files.handles
        return self.files.counters.totals() | {
            "file_handles_open": len(handles.table),
            "file_handles_max": handles.limit,
        }

    def post_done(self) -> None:
        """Post finished jobs to their actors. The event loop calls this when it was woken, and a
        busy one between turns. `woken` is cleared first: a thread that still sees it set has
        appended before."""
        self.woken = False
        done = self.done
        while done:
            self._post(done.popleft())
        item = self.sync_strand.finished()
        if item is not None:
            self._post(item)

    def _post(self, item: Item) -> None:
        job, actor = item
        self.succeeded += job.failure is None
        actor.post(job)

    async def stop(self) -> None:
        """Finish the submitted jobs, post them, end the threads and close the files."""
        self.is_stopped = True
        while self.sync_strand.under_way is not None:
            await asyncio.sleep(STOP_LOOK_SECONDS)
            self.post_done()
        for jobs in (self.sync_jobs, *self.pool):
            jobs.put(None)
        for thread in self.threads:
            await asyncio.to_thread(thread.join)
        self.post_done()
        if self.ring is not None:
            self.loop.remove_reader(self.ring.descriptor)
            self.ring.close()
        self.files.close()

    def _thread(self, name: str, jobs: Jobs) -> threading.Thread:
        """Start a daemon thread: it must not keep a process that has failed from ending."""
        thread = threading.Thread(target=self._work, args=(jobs,), name=name, daemon=True)
        thread.start()
        return thread

    def _work(self, jobs: Jobs) -> None:
        """Run the jobs of one queue in order until None comes or a job has crashed; this is what a
        thread does."""
        while (item := jobs.queue.get()) is not None and not self.is_broken:
            job = item[0]
            try:
                job.run(self.files)
            except DiskFailed as failure:
                job.failure = failure
            except BaseException as error:
                self.is_broken = True
                self._wake(self.crashed, error)
                return
            self.done.append(item)
            jobs.finished += 1
            del item, job  # written data need not stay in memory until the next job
            if not self.woken:  # the first of several finished jobs wakes the loop
                self.woken = True
                self._wake(self.post_done)

    def _wake(self, callback: Callable[..., None], *arguments: object) -> None:
        """Have the loop call `callback`; do nothing when the loop is closed, because the process is
        about to end."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback, *arguments)
