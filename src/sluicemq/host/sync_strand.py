"""The strand of the journal: a thread, and beside it a ring, by which the system writes by itself.

For each job a thread needs Python's lock twice, and gets it only when a busy event loop gives it
up. A job that is no more than a durable write needs no Python: the loop gives it to the ring
(uring.py) by one short call, and sees the result between two turns. All other jobs are the
thread's. Order is kept: while the ring has a write, later jobs wait here; while the thread has a
job, it gets the later ones, too.

A write that the ring has not done, although the disk has not failed, is done by the thread from the
beginning: it writes the same to the same place.

io_uring ignores a flag that a file system does not know, where pwritev2 refuses it. So the ring
gets no write before pwritev2 has had one with the same flag.
"""

from __future__ import annotations

from collections import deque
from errno import EAGAIN, ECANCELED, EINTR, errorcode
from queue import SimpleQueue
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from sluicemq.host.file_handles import UNSUPPORTED, Handle
from sluicemq.host.files import DSYNC, HostFiles
from sluicemq.host.io_counters import SEEK, SYNC, SYNC_NS, WRITE, WRITE_BYTES
from sluicemq.kernel.disk import DiskJob

if TYPE_CHECKING:
    from sluicemq.host.uring import WriteRing
    from sluicemq.kernel.actor import Actor

Item = tuple[DiskJob, "Actor"]
"""A job, and the actor that it is for."""

NOT_DONE: Final = (EAGAIN, ECANCELED, EINTR)
"""The errors of a write that something else than the disk has ended."""


class Jobs:
    """The jobs that a thread still has to do; None ends it."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Item | None] = SimpleQueue()
        self.given = 0
        self.finished = 0
        """How many jobs the thread has handed on; only the thread counts."""

    @property
    def is_idle(self) -> bool:
        """Tell whether the thread has nothing to do, and has handed on all that it did."""
        return self.given == self.finished

    def put(self, item: Item | None) -> None:
        """Give the thread one more job."""
        self.given += 1
        self.queue.put(item)


class UnderWay:
    """A write that the ring has; the system reads `data` meanwhile."""

    __slots__ = ("began_ns", "data", "handle", "item", "offset")

    def __init__(self, item: Item, handle: Handle, offset: int, data: bytes, began_ns: int) -> None:
        self.item = item
        self.handle = handle
        self.offset = offset
        self.data = data
        self.began_ns = began_ns


class SyncStrand:
    """The strand of the journal, whose thread does `jobs`. With no ring, or when the system refuses
    writes by it, the thread does everything."""

    def __init__(self, files: HostFiles, jobs: Jobs, ring: WriteRing | None) -> None:
        self.files = files
        self.jobs = jobs
        self.ring = ring
        self.under_way: UnderWay | None = None
        self.waiting: deque[Item] = deque()
        """Jobs behind the write that is under way."""

    def submit(self, item: Item) -> None:
        """Have a job done after those submitted before."""
        if self.under_way is not None:
            self.waiting.append(item)
        elif self.ring is None or not self.jobs.is_idle or not self._begin(self.ring, item):
            self.jobs.put(item)

    def finished(self) -> Item | None:
        """Return a job that the ring has done, or that has failed; None when there is none. The
        caller has posted what the thread did before."""
        if self.ring is None or self.under_way is None:
            return None
        written = self.ring.result()
        if written is None:
            return None
        write, self.under_way = self.under_way, None
        item: Item | None = write.item
        if written == len(write.data):
            self._count(write)
            self.files.handles.end_write(write.handle)
        elif written >= 0 or -written in NOT_DONE or -written in UNSUPPORTED:
            self.files.handles.end_write(write.handle)
            if -written in UNSUPPORTED:
                self._give_up(errorcode[-written])
            self.jobs.put(write.item)
            item = None
        else:
            write.item[0].failure = self.files.handles.end_write(write.handle, -written)
        while self.waiting and self.under_way is None:
            self.submit(self.waiting.popleft())
        return item

    def _begin(self, ring: WriteRing, item: Item) -> bool:
        """Begin a job on the ring. Returns False when it is one for the thread."""
        write = item[0].durable_write()
        if write is None or not self.files.is_dsync_known:
            return False
        handle = self.files.handles.begin_write(write.path)
        if handle is None:
            return False
        began_ns = perf_counter_ns()
        try:
            ring.write(handle.descriptor, write.offset, write.data, DSYNC)
        except OSError as error:
            self.files.handles.end_write(handle)
            self._give_up(str(error))
            return False
        self.under_way = UnderWay(item, handle, write.offset, write.data, began_ns)
        return True

    def _count(self, write: UnderWay) -> None:
        """Count a write that is done. Its time ends when the loop knows of it."""
        here = self.files.counters.here
        size = len(write.data)
        here[SEEK] += write.offset != write.handle.position
        here[WRITE] += 1
        here[WRITE_BYTES] += size
        here[SYNC] += 1
        here[SYNC_NS] += perf_counter_ns() - write.began_ns
        write.handle.position = write.offset + size

    def _give_up(self, why: str) -> None:
        """Leave everything to the thread from now on."""
        self.ring = None
        self.files.handles.log(f"io_uring does not work here ({why}): a thread writes the journal")
