"""stream ---which files there must be---> message store; it comes back when that is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.storage.entries import StreamFiles


class StoreStreamFiles:
    """What must be there of a stream's files from now on. When that is durable the message goes
    back to the stream, with the `job` it came for, if any; `urgent`: confirms wait for it."""

    __slots__ = ("files", "job", "queue", "urgent")

    def __init__(
        self, queue: Queue, files: StreamFiles, job: DiskJob | None, urgent: bool = False
    ) -> None:
        self.queue = queue
        self.files = files
        self.job = job
        self.urgent = urgent
