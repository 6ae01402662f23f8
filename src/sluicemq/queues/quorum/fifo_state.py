"""The state of a quorum queue without its behaviour, which is in `fifo.py`."""

from __future__ import annotations

from collections.abc import Iterator

from sluicemq.kernel.machine import Replicated
from sluicemq.queues.quorum.askers import Askers
from sluicemq.queues.quorum.commands import FifoCommand
from sluicemq.queues.quorum.dead_letter_queue import DeadLetterQueue
from sluicemq.queues.quorum.effects import FifoEffect
from sluicemq.queues.quorum.enqueuers import Enqueuers
from sluicemq.queues.quorum.message_runs import MessageRun
from sluicemq.queues.quorum.ready_messages import ReadyMessages
from sluicemq.queues.quorum.service_queue import ServiceQueue
from sluicemq.queues.settings import QueueSettings


class FifoState(Replicated[FifoCommand, FifoEffect]):
    """The parts of the state of one quorum queue; all of them are in its snapshots."""

    def __init__(self, settings: QueueSettings) -> None:
        self.index: int = 0
        self.now_ms: int = 0
        self.settings = settings
        self.has_limit = settings.has_limit
        """The number or the size of the ready messages is limited."""
        self.messages = ReadyMessages()
        self.consumers = ServiceQueue()
        self.enqueuers = Enqueuers()
        self.askers = Askers()
        self.dead_letters = DeadLetterQueue()
        self.rejects = False
        """It is full, and rejects publishes until it is a good deal less full."""
        self.used_ms = 0
        """When it was last in use; it is in use while it has consumers."""
        self.is_deleted = False

    def configure(self, settings: QueueSettings) -> None:
        """Replace the settings; they hold from now on, the TTL for new messages only. Whether there
        is a single active consumer can only change before there is any consumer."""
        self.settings = settings
        self.has_limit = settings.has_limit
        self.dead_letters.configure(settings, self.messages)
        if not self.consumers.members:
            self.consumers.single_active = settings.single_active_consumer

    @property
    def snapshot_rows(self) -> int:
        """Return the number of rows of a snapshot, except a few."""
        messages, enqueuers = self.messages, self.enqueuers
        return (
            len(messages.fresh)
            + len(messages.taken)
            + len(messages.returns)
            + len(enqueuers.members)
            + len(enqueuers.ended)
            + len(self.consumers.members)
        )

    @property
    def body_bytes(self) -> int:
        """Return the bytes of the bodies in the queue."""
        return self.messages.bytes + self.messages.out_bytes

    def runs_out(self) -> Iterator[MessageRun]:
        """Give all runs that consumers hold, and all dead letters."""
        for consumer in self.consumers.members.values():
            yield from consumer.checked_out.runs
        yield from self.dead_letters.pending
        yield from self.dead_letters.checked_out.runs
