"""What the parts of the message store see of it: group commit, checkpoints,
seals of the journal, the ballast file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.flow_actor import FlowActor
from sluicemq.kernel.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.chain.services import Services
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.storage.journal import Journal


@mypyc_attr(allow_interpreted_subclasses=True)
class StorePort(FlowActor):
    """The message store, as its parts see it. `storage_failed` says why nothing is written any
    more; it is empty as long as all is well."""

    services: Services
    journal: Journal
    storage_failed: str

    @property
    def sync_runs(self) -> bool:
        """True while a group is on its way to the disk."""
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """True when nothing is on its way to the journal, nor waits for it."""
        raise NotImplementedError

    def commit_soon(self) -> None:
        """Have what waits for the journal written soon, though nobody waits for that."""
        raise NotImplementedError

    def group_written(self) -> None:
        """Called when a group is durable, and those who waited for it have been told."""
        raise NotImplementedError

    def submit(self, job: DiskJob) -> None:
        """Give a job to the strand of the disk where jobs of its kind belong; it comes back to the
        store."""
        raise NotImplementedError

    def try_later(self, job: DiskJob) -> None:
        """Submit a job again after RETRY_FULL_MS, for there is no space for it now."""
        raise NotImplementedError
