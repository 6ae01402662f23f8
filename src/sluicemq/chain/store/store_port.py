"""What the parts of the message store see of it: group commit, checkpoints,
seals of the journal, the ballast file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.flow_actor import FlowActor
from sluicemq.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.chain.services import Services
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.storage.journal import Journal


@mypyc_attr(allow_interpreted_subclasses=True)
class StorePort(FlowActor):
    """The message store, as its parts see it. `storage_failed` tells why nothing is written any
    more; it is empty as long as all is well."""

    services: Services
    journal: Journal
    storage_failed: str

    @property
    def sync_runs(self) -> bool:
        """Tell whether a group is on its way to the disk."""
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is on its way to the journal, or waits for it."""
        raise NotImplementedError

    def commit_soon(self) -> None:
        """Have the waiting appends written soon, though nobody waits for that."""
        raise NotImplementedError

    def group_written(self) -> None:
        """Called when a group is durable, and its appends have been told."""
        raise NotImplementedError

    def submit(self, job: DiskJob) -> None:
        """Submit a job to the strand of the disk for jobs of its kind; it comes back to
        the store.
        """
        raise NotImplementedError

    def try_later(self, job: DiskJob) -> None:
        """Submit a job again after RETRY_FULL_MS, because there is no space for it now."""
        raise NotImplementedError
