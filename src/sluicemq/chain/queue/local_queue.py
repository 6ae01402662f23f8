"""Queues whose commands this node decides by itself: classic queues and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.queue import Queue
from sluicemq.compiling import mypyc_attr
from sluicemq.model.batch import part_of
from sluicemq.queues.commands import Command, Publish
from sluicemq.queues.effects import Effect, Rejected
from sluicemq.queues.machine_types import L_co
from sluicemq.replication.alone import Alone
from sluicemq.replication.replicator import Replicator
from sluicemq.replication.state_owner import StateOwner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluicemq.chain.queue.refused_messages import RefusedMessages
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.model.definitions import QueueDefinition


@mypyc_attr(allow_interpreted_subclasses=True)
class LocalQueue(Queue[L_co, Replicator[Command, Effect]], StateOwner[Command]):
    """The shell around a machine that gets channels' commands unchanged."""

    def __init__(self, vhost: VhostPort, definition: QueueDefinition, queue_id: int) -> None:
        super().__init__(vhost, definition, queue_id)
        self.trying: dict[Publish, Sequence[bytes]] = {}
        """Publishes that are not applied yet, with their suspects by `refused_messages`."""

    def replicate(self) -> Replicator[Command, Effect]:
        """Create the replicator that agrees on commands and applies them to the machine."""
        return Alone(self.machine, self.effects, self)

    def take_in(self, publish: Publish, tried: Sequence[bytes] = ()) -> None:
        """Submit a batch that has come. `tried` are the messages in it that `refused_messages`
        suspects."""
        command = self.prepared(publish)
        if tried:
            self.trying[command] = tried
        self.replicator.submit(command)

    def prepared(self, publish: Publish) -> Publish:
        """Return a publish as it is to be stored, with the times that the queue needs."""
        return publish

    def take_in_part(self, publish: Publish, refused_messages: RefusedMessages) -> None:
        """Take in as much of a batch as is allowed at a time, and refuse the rest. At a fault
        nothing has been answered yet."""
        batch, link, first_seq = publish.batch, publish.link, publish.first_seq
        count = len(batch.contents)
        taken, tried = refused_messages.admitted(batch)
        if taken:
            part = publish
            if taken < count:
                part = Publish(part_of(batch, 0, taken), link, first_seq, publish.confirm)
            self.take_in(part, tried)
        if taken < count and publish.confirm:
            link.sender.post(Rejected(link, first_seq, taken, count - taken, mixed=True))

    def applied(self, command: Command) -> None:
        """Clear the suspects of a publish, which had no fault."""
        if self.trying and isinstance(command, Publish) and self.refused_messages is not None:
            self.refused_messages.clear(self.trying.pop(command, ()))
