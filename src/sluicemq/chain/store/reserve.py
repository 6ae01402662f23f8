"""The reserve: a file that is given up when the disk is full, so that what makes space can work.

A full disk refuses checkpoints and compaction too, which would free journal files and garbage. So
the first refused write deletes the reserve; it is laid aside again when the disk alarm is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.flow.alarm import DISK
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.limits import RESERVE_PAUSE_NS
from sluicemq.storage.recovery import RESERVE

if TYPE_CHECKING:
    from sluicemq.chain.store.port import StorePort


class LayAside(DiskJob):
    """Makes the file, if twice as much is free."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_there = False

    def run(self, files: Files) -> None:
        if files.size(RESERVE) != self.size:
            if files.free_bytes() <= 2 * self.size:
                return
            files.delete(RESERVE)
            files.allocate(RESERVE, self.size)
        self.is_there = True


class GiveUp(DiskJob):
    """Deletes it."""

    def run(self, files: Files) -> None:
        files.delete(RESERVE)


class Reserve:
    """Of one message store; `size` in bytes, 0: there is none.

    While it is given up the disk counts as full: what it has made room for is checkpoints,
    compaction and acknowledgements, not new messages. It is laid aside again when there is space.
    """

    def __init__(self, store: StorePort, size: int) -> None:
        self.store = store
        self.size = size
        self.is_there = False
        self.wanted: LayAside | None = None
        """It was given up; this is to make it again."""
        self.working = False
        self.not_before_ns = 0

    def look(self) -> None:
        """Lay it aside when it is missing and the disk is well."""
        if self.is_there or self.working or not self.size or self.store.sealed:
            return
        services = self.store.services
        if DISK in services.alarms.reasons:
            return
        now_ns = services.world.clock.now_ns()
        if now_ns >= self.not_before_ns:
            self.not_before_ns = now_ns + RESERVE_PAUSE_NS
            self.working = True
            self.store.submit(LayAside(self.size))

    def give_up(self) -> None:
        """There is no space."""
        if self.size and self.wanted is None:
            self.wanted = LayAside(self.size)
            self.store.services.no_space_for(self.wanted)
            if not self.working:
                self.working = True
                self.store.submit(GiveUp())

    def done(self, job: LayAside | GiveUp) -> None:
        """A job has come back. One that failed did no harm: it is tried again after a while."""
        self.working = False
        self.is_there = isinstance(job, LayAside) and job.is_there
        if self.wanted is not None:
            if self.is_there:
                self.store.services.has_space(self.wanted)
                self.wanted = None
            else:
                self.working = True
                self.store.try_later(self.wanted)
