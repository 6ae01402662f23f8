"""The end of a master's queue on this node: another member is master, or will be.

What is left of it answers as after a fault (crash_recovery.py): what its channels have published
and have had no answer to is rejected, consumers are cancelled, and who asks for something is
refused. What it had paged out goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.crash_recovery import ClassicCrash
from sluicemq.chain.queue.fault_history import CRASHED
from sluicemq.chain.queue.queue import FilesGone
from sluicemq.errors import Refused
from sluicemq.kernel.cleanup_steps import take

if TYPE_CHECKING:
    from sluicemq.chain.queue.mirrored.master import MasterShell
    from sluicemq.chain.queue.namespace_port import NamespacePort


class MasterEnd(ClassicCrash):
    """Stands in for the queue of a master that is one no more."""

    def __init__(self, vhost: NamespacePort, queue: MasterShell) -> None:
        super().__init__(vhost, queue, Refused(f"{queue.title} has its master elsewhere"))
        self.mirrored = queue.mirrored
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
        effects = self.unmade()
        for _, held in self.mirrored.held:
            effects += held
        take(queue, self.steps(asked, effects))
        queue.gone = True
        directory = queue.machine.index.directory
        self.services.world.disk.submit(FilesGone([], directory), queue, queue.strand)

    def failed(self) -> None:
        """Do nothing more: there is nothing to be read back."""
