"""The end of a quorum queue on a node whose member has left the group: the queue goes on elsewhere.

Its stand-in answers as after a fault (crash.py): it rejects unanswered publishes, cancels consumers
and refuses requests. It forgets the member's log; when that is durable the node may have another
member of the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.fault_history import CRASHED
from sluicemq.chain.queue.quorum.crash import QuorumCrash
from sluicemq.chain.store.raft_answers import RaftAppended
from sluicemq.errors import Refused
from sluicemq.kernel.cleanup_steps import take

if TYPE_CHECKING:
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.quorum.shell import QuorumShell


class Departure(QuorumCrash):
    """Stands in for a queue that has left this node; it tells the virtual host when the log is
    forgotten."""

    def __init__(self, vhost: NamespacePort, queue: QuorumShell) -> None:
        super().__init__(vhost, queue, Refused(f"{queue.title} has left this node"))
        self.state = CRASHED
        self.is_safe = True
        self.number = queue.replicator.raft.member.next_number
        """The append that records that the log is forgotten."""

    @property
    def text(self) -> str:
        return f"{self.queue.title} has no member on this node any more"

    def begin(self) -> None:
        """Stop the queue, tell all channels, and have its log forgotten."""
        queue = self.queue
        had_fault = queue.crash is not None
        if not queue.replicator.is_closed:
            queue.replicator.close()
        queue.crash = self
        queue.underway = None
        queue.stand_in = self
        if not had_fault:
            take(queue, self.steps([], self.unmade()))
        queue.gone = True
        queue.forget_log(is_deleted=False)
        self.release()
        self.services.world.log.write("info", f"{queue.title} has no member on this node any more")

    def receive(self, message: object) -> None:
        if isinstance(message, RaftAppended) and message.number >= self.number:
            self.vhost.forgotten(self.queue.id, self.queue.name)
        super().receive(message)
