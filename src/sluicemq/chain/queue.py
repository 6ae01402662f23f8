"""channel ---batch---> QUEUE ---write---> message store; deliveries go back to channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.flow_actor import FlowActor
from sluicemq.chain.message_store import StoreWrite
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.prefetch import Limiter, Resume
from sluicemq.queues.classic import ClassicQueue
from sluicemq.queues.commands import COMMANDS, Cancel, Delete, Down, Publish, Serve
from sluicemq.queues.effects import Deleted, Deliver, Effect, Write
from sluicemq.replication.alone import Alone

if TYPE_CHECKING:
    from sluicemq.chain.broker import Broker
    from sluicemq.flow.credit import Inflow
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.replication.replicator import Replicator


class Enqueue:
    """A publish with the queue's half of the link it came over."""

    __slots__ = ("inflow", "publish")

    def __init__(self, publish: Publish, inflow: Inflow) -> None:
        self.publish = publish
        self.inflow = inflow


class QueueGone:
    """To every channel that holds credit of a queue: it was deleted."""

    __slots__ = ("queue",)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue


class Queue(FlowActor):
    """The shell around a queue machine: credit, the store, and making effects real."""

    kind = "queue"

    def __init__(self, broker: Broker, definition: QueueDefinition) -> None:
        super().__init__(broker.scheduler, broker.world.clock)
        self.broker = broker
        self.definition = definition
        self.name = definition.name
        self.title = f"queue '{definition.name}' in vhost '{broker.vhost}'"
        self.machine = ClassicQueue(self.title, definition.durable, self)
        self.replicator: Replicator = Alone(self.machine)
        self.effects: list[Effect] = []
        self.invitations: list[Limiter] = []
        self.to_store, self.store_inflow = broker.link_to_store(self)
        self.deliveries = GateKeeper(broker.world.clock)
        self.upstream: dict[Actor, Inflow] = {}
        self.accounted = 0
        self.published = 0
        self.delivered = 0

    def receive(self, message: object) -> None:
        """Publishes over a credited link; commands from channels and store."""
        if isinstance(message, Enqueue):
            publish = message.publish
            batch = publish.batch
            count = len(batch.contents)
            self.published += count
            if self.machine.deleted:
                publish.sender.post(QueueGone(self))
            else:
                self.upstream[publish.sender] = message.inflow
            message.inflow.settle(count, batch.size)
            self.replicator.submit(publish, self.effects)
        elif isinstance(message, COMMANDS):
            self.replicator.submit(message, self.effects)
            if isinstance(message, Down | Cancel):
                self.consumer_left(message)
        elif isinstance(message, Resume):
            self.invitations.append(message.limiter)
        else:
            super().receive(message)

    def turn_ended(self) -> None:
        """Deal out what can be dealt, make the effects real, account the memory."""
        self.replicator.submit(Serve(), self.effects)
        for limiter in self.invitations:
            limiter.had_turn(self)
        self.invitations.clear()
        effects = self.effects
        if effects:
            self.effects = []
            for effect in effects:
                self.make_real(effect)
        footprint = self.machine.depth.footprint
        if footprint != self.accounted:
            self.broker.memory_used(footprint - self.accounted)
            self.accounted = footprint

    def make_real(self, effect: Effect) -> None:
        """Post it where it belongs."""
        if isinstance(effect, Write):
            self.to_store.spend(len(effect.batch.contents))
            self.broker.store.post(
                StoreWrite(self, effect.batch, effect.receipt, self.store_inflow)
            )
            return
        if isinstance(effect, Deliver):
            self.delivered += len(effect.contents)
        elif isinstance(effect, Deleted):
            self.go()
        if effect.channel is not None:
            effect.channel.post(effect)

    def consumer_left(self, message: Down | Cancel) -> None:
        """A channel or a consumer is gone; an auto-delete queue goes with its last consumer."""
        if isinstance(message, Down):
            self.upstream.pop(message.channel, None)
        if self.definition.auto_delete and self.machine.is_unused() and not self.machine.deleted:
            self.replicator.submit(Delete(None, False, False), self.effects)

    def go(self) -> None:
        """Deleted: leave the broker's tables and free those who hold credit here."""
        self.broker.forget_queue(self)
        for channel in self.upstream:
            channel.post(QueueGone(self))
        self.upstream = {}
