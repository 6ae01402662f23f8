"""What the parts of the message store see of it: group commit, checkpoints,
seals of the journal, the ballast file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.flow_actor import FlowActor

if TYPE_CHECKING:
    from sluicemq.chain.services import Services
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.storage.journal import Journal


class StorePort(FlowActor):
    """The message store. `storage_failed` says why nothing is written any more; empty: it is."""

    services: Services
    journal: Journal
    storage_failed: str

    @property
    def sync_runs(self) -> bool:
        """A group is on its way to the disk."""
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """Nothing is on its way to the journal, nor waits for it."""
        raise NotImplementedError

    def commit_soon(self) -> None:
        """What waits for the journal is written though nobody waits for that."""
        raise NotImplementedError

    def group_written(self) -> None:
        """A group is durable, and those who waited for it have been told."""
        raise NotImplementedError

    def submit(self, job: DiskJob) -> None:
        """To the strand of the disk where jobs of this kind belong; it comes back to the store."""
        raise NotImplementedError

    def try_later(self, job: DiskJob) -> None:
        """There is no space for it now."""
        raise NotImplementedError
