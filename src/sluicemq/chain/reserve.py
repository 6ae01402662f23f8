"""The reserve: a file that is given up when the disk is full, so that what makes space can work.

A full disk refuses checkpoints and compaction too, which would free journal files and garbage. So
the first refused write deletes the reserve; it is laid aside again when the disk alarm is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.flow.alarm import DISK
from sluicemq.kernel.disk import DiskJob, Files

if TYPE_CHECKING:
    from sluicemq.chain.message_store import MessageStore

PATH: Final = "reserve"


class LayAside(DiskJob):
    """Makes the file, if twice as much is free."""

    def __init__(self, size: int) -> None:
        self.size = size

    def run(self, files: Files) -> None:
        if files.size(PATH) != self.size and files.free_bytes() > 2 * self.size:
            files.delete(PATH)
            files.allocate(PATH, self.size)


class GiveUp(DiskJob):
    """Deletes it."""

    def run(self, files: Files) -> None:
        files.delete(PATH)


class Reserve:
    """Of one message store; `size` in bytes, 0: there is none."""

    def __init__(self, store: MessageStore, size: int) -> None:
        self.store = store
        self.size = size
        self.is_there = False
        self.working = False

    def look(self) -> None:
        """Lay it aside when it is missing and the disk is well."""
        calm = DISK not in self.store.broker.alarms.reasons and not self.store.sealed
        if self.size and calm and not self.is_there and not self.working:
            self.working = True
            self.store.submit(LayAside(self.size))

    def give_up(self) -> None:
        """There is no space."""
        if self.is_there and not self.working:
            self.working = True
            self.store.submit(GiveUp())

    def done(self, job: LayAside | GiveUp) -> None:
        """A job has come back. One that failed did no harm: it is asked for again."""
        self.working = False
        self.is_there = isinstance(job, LayAside) and job.failure is None
