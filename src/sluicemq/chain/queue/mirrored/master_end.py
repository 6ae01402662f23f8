"""The end of a queue on this node that goes on elsewhere: of a deposed master, or of a queue
without mirrors whose messages have moved to a mirrored one.

Its stand-in answers as after a fault (crash_recovery.py): it rejects unanswered publishes, cancels
consumers and refuses requests; but it tells channels that the queue goes on, so that they repeat
requests and attach their consumers again. Its files are deleted.
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
        """Stop the queue, and tell all channels."""
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
        """Return decided effects that are not real yet because they wait for something."""
        return ()

    def files_go(self) -> None:
        """Forget the queue's data, and delete its files when that is durable."""
        self.store.durable_queues.pop(self.queue.id, None)
        self.store.checkpoints.release(self.queue)
        self.store.post(Flushed(self.queue))
        self.store.post(StoreQueueDeleted(self.queue, Deleted(None, 0)))

    def failed(self) -> None:
        """Do nothing more: there is nothing to recover."""


class MasterEnd(QueueEnd):
    """Stands in for the queue of a deposed master."""

    def __init__(self, vhost: NamespacePort, queue: MasterShell) -> None:
        super().__init__(vhost, queue)
        self.mirrored = queue.mirrored

    def held(self) -> Iterable[object]:
        return [effect for _, effects in self.mirrored.held for effect in effects]

    def files_go(self) -> None:
        directory = self.queue.machine.index.directory
        self.services.world.disk.submit(FilesGone([], directory), self.queue, self.queue.strand)
