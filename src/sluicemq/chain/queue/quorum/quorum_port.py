"""The shell of a quorum queue, as its deliveries see it."""

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
    """A quorum queue as its deliveries see it. Its reads run in `read_strand` of the disk;
    `dead_letter_worker` holds what the broker's own publisher is passing on."""

    fifo: Fifo
    settings: QueueSettings
    read_strand: int
    dead_letter_worker: ChannelEnd

    def submit_settle(self, command: SettleDelivered) -> None:
        """Propose settlements soon: nobody waits for them."""
        raise NotImplementedError

    def dead_letter(self, letter: DeadLetter) -> None:
        """Pass on dead letters whose bodies are in RAM. Those of run 0 have left the queue."""
        raise NotImplementedError
