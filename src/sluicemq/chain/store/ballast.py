"""The ballast file: it is deleted when the disk is full, so that the work that frees space can go
on.

A full disk refuses checkpoints and compaction too, which would free journal files and garbage. So
the first refused write deletes the ballast; it is created again when the disk alarm is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.flow.alarm import DISK
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.limits import BALLAST_PAUSE_NS
from sluicemq.storage.recovery import BALLAST

if TYPE_CHECKING:
    from sluicemq.chain.store.store_port import StorePort


class CreateBallast(DiskJob):
    """Creates the file with `size` bytes, if more than twice as much is free; `is_there` becomes
    True then, or when it exists already."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_there = False

    def run(self, files: Files) -> None:
        if files.size(BALLAST) != self.size:
            if files.free_bytes() <= 2 * self.size:
                return
            files.delete(BALLAST)
            files.allocate(BALLAST, self.size)
        self.is_there = True


class DeleteBallast(DiskJob):
    """Deletes the file, if there is one."""

    def run(self, files: Files) -> None:
        files.delete(BALLAST)


class Ballast:
    """The ballast file of one message store; `size` is in bytes, and 0 means that there is none.

    While it is deleted the disk counts as full: its space is for checkpoints, compaction and
    acknowledgements, not for new messages. It is created again when there is space.
    """

    def __init__(self, store: StorePort, size: int) -> None:
        self.store = store
        self.size = size
        self.is_there = False
        self.wanted: CreateBallast | None = None
        """The job that is to create the file again after it was deleted; None: it was not
        deleted."""
        self.working = False
        """True while a job is under way."""
        self.not_before_ns = 0
        """The time from which on `create_if_missing` may try again."""

    def create_if_missing(self) -> None:
        """Have the file created when it is missing and the disk is well; tried at most once in
        BALLAST_PAUSE_NS."""
        if self.is_there or self.working or not self.size or self.store.storage_failed:
            return
        services = self.store.services
        if DISK in services.alarms.reasons:
            return
        now_ns = services.world.clock.now_ns()
        if now_ns >= self.not_before_ns:
            self.not_before_ns = now_ns + BALLAST_PAUSE_NS
            self.working = True
            self.store.submit(CreateBallast(self.size))

    def delete(self) -> None:
        """Have the file deleted to make some space, because a write was refused for want of it."""
        if self.size and self.wanted is None:
            self.wanted = CreateBallast(self.size)
            self.store.services.no_space_for(self.wanted)
            if not self.working:
                self.working = True
                self.store.submit(DeleteBallast())

    def done(self, job: CreateBallast | DeleteBallast) -> None:
        """Handle a job that has come back. A failed one did no harm: it is tried again after a
        while."""
        self.working = False
        self.is_there = isinstance(job, CreateBallast) and job.is_there
        if self.wanted is not None:
            if self.is_there:
                self.store.services.has_space(self.wanted)
                self.wanted = None
            else:
                self.working = True
                self.store.try_later(self.wanted)
