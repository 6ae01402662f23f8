"""The end of a queue on this node that goes on elsewhere: of a master that is one no more, or of a
queue without mirrors whose messages have moved to one with them.

What is left of it answers as after a fault (crash_recovery.py): what its channels have published
and have had no answer to is rejected, consumers are cancelled, and who asks for something is
refused; but channels are told that the queue goes on, so that they ask again, and attach their
consumers again. What it has on the disk goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.crash_recovery import ClassicCrash
from sluicemq.chain.queue.fault_history import CRASHED
from sluicemq.chain.queue.queue import FilesGone
from sluicemq.chain.store.messages import Flushed, StoreQueueDeleted
from sluicemq.errors import Refused
from sluicemq.kernel.cleanup_steps import take
from sluicemq.queues.effects import Deleted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.queue.classic import ClassicShell
    from sluicemq.chain.queue.mirrored.master import MasterShell
    from sluicemq.chain.queue.namespace_port import NamespacePort


class QueueEnd(ClassicCrash):
    """Stands in for a queue that goes on elsewhere."""

    is_elsewhere = True

    def __init__(self, vhost: NamespacePort, queue: ClassicShell) -> None:
        super().__init__(vhost, queue, Refused(f"{queue.title} goes on elsewhere"))
        self.state = CRASHED
        self.is_safe = True

    @property
    def text(self) -> str:
        return f"{self.queue.title} has no master on this node any more"

    def begin(self) -> None:
        """Stop the queue, and tell everybody."""
        queue = self.queue
        lost = [] if queue.replicator.is_closed else queue.replicator.close()
        queue.crash = self
        queue.underway = None
        queue.stand_in = self
        asked = [
            queue.faulted_message,
            *(each for each in lost if each is not queue.faulted_message),
        ]
        take(queue, self.steps(asked, [*self.unmade(), *self.held()]))
        queue.gone = True
        self.files_go()

    def held(self) -> Iterable[object]:
        """Return effects that were decided, and have waited for something before they are real."""
        return ()

    def files_go(self) -> None:
        """Have what it has on the disk forgotten, and its files deleted when that is durable."""
        self.store.durable_queues.pop(self.queue.id, None)
        self.store.checkpoints.release(self.queue)
        self.store.post(Flushed(self.queue))
        self.store.post(StoreQueueDeleted(self.queue, Deleted(None, 0)))

    def failed(self) -> None:
        """Do nothing more: there is nothing to be read back."""


class MasterEnd(QueueEnd):
    """Stands in for the queue of a master that is one no more."""

    def __init__(self, vhost: NamespacePort, queue: MasterShell) -> None:
        super().__init__(vhost, queue)
        self.mirrored = queue.mirrored

    def held(self) -> Iterable[object]:
        return [effect for _, effects in self.mirrored.held for effect in effects]

    def files_go(self) -> None:
        directory = self.queue.machine.index.directory
        self.services.world.disk.submit(FilesGone([], directory), self.queue, self.queue.strand)
