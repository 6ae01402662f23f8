"""A virtual host: the exchanges, bindings and queues of one name space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.broker.declarations import Declarations
from sluicemq.chain.queue.classic import empty_index
from sluicemq.chain.queue.namespace import Queues
from sluicemq.chain.queue.types import SHELLS
from sluicemq.chain.republish.delayer import HoldingQueue
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.chain.store.messages import StoreDefinition
from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.model.definitions import QUEUE, Destination, QueueDefinition
from sluicemq.model.vhosts import MAX_QUEUES, limit_of
from sluicemq.queues.commands import Delete
from sluicemq.routing.delayed import DELAYED, HOLDING_PREFIX, holding_queue, is_holding
from sluicemq.routing.topology import Topology

if TYPE_CHECKING:
    from sluicemq.chain.queue.faults import Faults
    from sluicemq.chain.queue.home import NamedQueue
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.services import Services
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.definitions import ExchangeDefinition
    from sluicemq.storage.queue_replica import QueueReplica
    from sluicemq.storage.recovery import Recovery


class VhostEmpty:
    """To who deletes a virtual host: all its queues are gone."""

    __slots__ = ("vhost",)

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost


class VirtualHost(Declarations):
    """One of the broker's: it makes its queues, and forgets them at their end."""

    def __init__(self, services: Services, store: MessageStore, name: str) -> None:
        self.services = services
        self.store = store
        self.name = name
        self.topology = Topology(name)
        self.policies = self.topology.policies
        self.queues = Queues()
        self.exclusive = {}
        self.crashes: dict[str, Faults] = {}
        self.connections = 0
        """Open in it."""
        self.listener: Actor | None = None
        """It is being deleted, and that actor hears when its queues are gone."""

    @property
    def is_open(self) -> bool:
        return self.listener is None

    @property
    def farewell(self) -> str:
        """What its connections hear when it is being deleted."""
        return f"vhost '{self.name}' is deleted"

    def check_alive(self) -> None:
        if not self.is_open:
            raise ConnectionViolation(320, self.farewell)

    def begin_end(self, listener: Actor) -> None:
        """From now on nothing is declared here."""
        self.listener = listener
        for holding in self.queues.holding.values():
            holding.post(Delete(None, False, False))
        self.tell_listener()

    def tell_listener(self) -> None:
        """When the last queue is gone."""
        if self.listener is not None and not self.queues and not self.queues.holding:
            self.listener.post(VhostEmpty(self))

    def check_room(self, queue: str) -> None:
        self.check_alive()
        limits = self.services.definitions.vhosts[self.name].limits
        most = limit_of(limits, MAX_QUEUES)
        if most is not None and len(self.queues) >= most:
            where = f"queue limit in vhost '{self.name}' ({most})"
            raise ChannelViolation(406, f"cannot declare queue '{queue}': {where} is reached")

    def republisher(self, source: Actor, name: str) -> Republisher:
        return Republisher(self, source, name)

    def recover_queue(self, queue_id: int, definition: QueueDefinition, recovery: Recovery) -> None:
        """A durable queue that was there before."""
        if is_holding(definition.name):
            self.recover_holding(queue_id, definition, recovery.queues[queue_id])
        else:
            self.add(SHELLS[definition.type].recover(self, definition, queue_id, recovery))

    def declare_queue(self, definition: QueueDefinition) -> Queue:
        queue_id = self.services.queue_id()
        queue = SHELLS[definition.type].declare(self, definition, queue_id)
        self.add(queue)
        if definition.owner is not None:
            self.exclusive.setdefault(definition.owner, {})[definition.name] = queue
        return queue

    def add(self, queue: Queue) -> None:
        """It can be found from now on."""
        self.topology.add_queue(queue.name)
        self.queues[queue.name] = queue
        if queue.definition.durable:
            self.store.durable_queues[queue.id] = queue
            self.store.checkpoints.touch(queue)

    def unbind_some(self, queue: NamedQueue) -> bool:
        if self.queues.get(queue.name) is not queue:
            return False
        return self.unbind_from(Destination(QUEUE, queue.name))

    def forget_queue(self, queue: NamedQueue) -> None:
        name = queue.name
        if isinstance(queue, HoldingQueue):
            self.forget_holding(queue)
            return
        if self.queues.get(name) is not queue:
            return
        del self.queues[name]
        self.store.durable_queues.pop(queue.id, None)
        self.services.definitions.delete_queue(queue.id)
        for change in self.exchanges_gone(self.topology.remove_queue(name)):
            self.store.post(StoreDefinition(change, None))
        owner = queue.definition.owner
        if owner is not None:
            owned = self.exclusive.get(owner, {})
            owned.pop(name, None)
            if not owned:
                self.exclusive.pop(owner, None)
        self.tell_listener()

    # -- queues that have had a fault

    def crashed(self, queue: NamedQueue, error: Exception) -> None:
        SHELLS[queue.definition.type].crash(self, queue, error).begin()

    def replace(self, queue: Queue, fresh: Queue) -> None:
        known = self.queues.holding if isinstance(queue, HoldingQueue) else self.queues
        known[queue.name] = fresh
        queue.successor = fresh
        definition = queue.definition
        if definition.owner is not None:
            self.exclusive.setdefault(definition.owner, {})[queue.name] = fresh
        if definition.durable:
            self.store.durable_queues[fresh.id] = fresh
            self.store.checkpoints.touch(fresh)
        self.topology.has_changed()

    # -- exchanges that delay messages

    def hold_for(self, exchange: ExchangeDefinition) -> HoldingQueue:
        services = self.services
        definition = QueueDefinition(
            holding_queue(exchange.name), exchange.durable, vhost=self.name
        )
        queue_id = services.queue_id()
        index = empty_index(services, queue_id, definition.durable)
        queue = HoldingQueue(self, definition, queue_id, index, exchange.name)
        self.add_holding(queue)
        return queue

    def recover_holding(
        self, queue_id: int, definition: QueueDefinition, found: QueueReplica
    ) -> None:
        """One that was there before; it goes when its exchange went just before the broker did."""
        exchange = definition.name.removeprefix(HOLDING_PREFIX)
        queue = HoldingQueue(self, definition, queue_id, found.index, exchange)
        queue.machine.recover(found.marks(), found.expiring)
        self.add_holding(queue)
        if exchange not in self.topology.exchanges:
            queue.post(Delete(None, False, False))

    def add_holding(self, queue: HoldingQueue) -> None:
        """Routing finds it from now on."""
        self.queues.holding[queue.name] = queue
        if queue.definition.durable:
            self.store.durable_queues[queue.id] = queue
            self.store.checkpoints.touch(queue)

    def stop_holding(self, exchange: str) -> None:
        queue = self.queues.holding.get(holding_queue(exchange))
        if queue is not None:
            queue.post(Delete(None, False, False))

    def forget_holding(self, queue: HoldingQueue) -> None:
        """It has been deleted."""
        self.store.durable_queues.pop(queue.id, None)
        self.services.definitions.delete_queue(queue.id)
        if self.queues.holding.get(queue.name) is queue:  # not one of a later exchange
            del self.queues.holding[queue.name]
            self.tell_listener()

    def complete(self) -> None:
        """After a recovery: an exchange whose queue had not become durable gets one now."""
        for exchange in self.topology.list_exchanges():
            name = holding_queue(exchange.name)
            if exchange.type == DELAYED and name not in self.queues.holding:
                queue = self.hold_for(exchange)
                change = self.services.definitions.add_queue(queue.id, queue.definition)
                self.store.post(StoreDefinition(change, None))
