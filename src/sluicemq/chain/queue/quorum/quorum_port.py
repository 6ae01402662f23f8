"""What the deliveries of a quorum queue see of its shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.queue.quorum.local_state import LocalState
from sluicemq.chain.queue.quorum.replicator import FifoReplicator

if TYPE_CHECKING:
    from sluicemq.chain.queue.quorum.channel_ends import ChannelEnd
    from sluicemq.queues.effects import DeadLetter
    from sluicemq.queues.quorum.commands import SettleDelivered
    from sluicemq.queues.quorum.fifo import Fifo
    from sluicemq.queues.settings import QueueSettings


class QuorumPort(Queue[LocalState, FifoReplicator]):
    """This is a quorum queue, as its deliveries see it. Its reads run in `read_strand` of the disk;
    `dead_letter_worker` has what is out at the broker's own publisher."""

    fifo: Fifo
    settings: QueueSettings
    read_strand: int
    dead_letter_worker: ChannelEnd

    def submit_settle(self, command: SettleDelivered) -> None:
        """Have it agreed on what was settled, soon: nobody waits for that."""
        raise NotImplementedError

    def dead_letter(self, letter: DeadLetter) -> None:
        """Pass on dead letters whose bodies are there. Those of run 0 have left the queue."""
        raise NotImplementedError
