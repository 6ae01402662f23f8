"""A virtual host: the queues of one name space, beside the exchanges and bindings that are declared
in it. It follows what is declared (metadata/agreement.py): it makes its queues, and forgets them at
their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.classic import empty_index
from sluicemq.chain.queue.namespace_port import NamespacePort, Queues
from sluicemq.chain.queue.shell_types import SHELLS
from sluicemq.chain.queue.vhost_port import BINDING_WORK, BINDINGS_MAX
from sluicemq.chain.republish.delayer import HoldingQueue
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.metadata.changes import (
    SOURCE,
    DeclareExchange,
    DeleteQueue,
    RenumberQueue,
    UnbindSome,
)
from sluicemq.model.definitions import EXCHANGE, QUEUE, Destination
from sluicemq.queues.commands import Delete
from sluicemq.routing.delayed import DELAYED, HOLDING_PREFIX, holding_queue, is_holding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.queue.fault_history import FaultHistory
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.queue.vhost_port import NamedQueue
    from sluicemq.chain.services import Services
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.model.definitions import ExchangeDefinition, QueueDefinition
    from sluicemq.storage.queue_replica import QueueReplica
    from sluicemq.storage.recovery import Recovery


class VhostEmpty:
    """Tells the one who deletes a virtual host that all its queues are gone."""

    __slots__ = ("vhost",)

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost


class VirtualHost(NamespacePort):
    """A virtual host of the broker. Its topology is that of the declared state, which nothing in
    here changes."""

    def __init__(self, services: Services, store: MessageStore, name: str) -> None:
        self.services = services
        self.store = store
        self.name = name
        self.topology = services.definitions.hosts[name].topology
        self.policies = self.topology.policies
        self.queues = Queues()
        self.exclusive = {}
        self.crashes: dict[str, FaultHistory] = {}
        self.connections = 0
        """The number of connections that are open in it."""
        self.listener: Actor | None = None
        """The actor that deletes the virtual host, and is told when its queues are gone; None:
        nobody does."""

    @property
    def is_open(self) -> bool:
        return self.services.definitions.is_open(self.name)

    def republisher(self, source: Actor, name: str) -> Republisher:
        return Republisher(self, source, name)

    # -- its end

    def wait_until_empty(self, listener: Actor) -> None:
        """Post VhostEmpty to `listener` when the last queue is gone, or at once when there is
        none."""
        self.listener = listener
        self.tell_listener()

    def tell_listener(self) -> None:
        """Post VhostEmpty to the listener, if there is one and no queue is left."""
        if self.listener is not None and not self.queues and not self.queues.holding:
            self.listener.post(VhostEmpty(self))

    def closed(self) -> None:
        """Delete all queues, because the virtual host is about to be deleted."""
        for holding in self.queues.holding.values():
            holding.post(Delete(None, False, False))
        for queue in self.queues.values():
            queue.post(Delete(None, False, False))

    # -- queues come

    def recover_queue(self, queue_id: int, definition: QueueDefinition, recovery: Recovery) -> None:
        """Make a durable queue that a start has found, with the messages it had."""
        if is_holding(definition.name):
            self.recover_holding(queue_id, definition, recovery.queues[queue_id])
        else:
            self.add(SHELLS[definition.type].recover(self, definition, queue_id, recovery))

    def queue_added(self, declared: DeclaredQueue) -> None:
        """Make a queue that was declared; it has no messages yet."""
        definition = declared.definition
        if is_holding(definition.name):
            index = empty_index(self.services, declared.id, definition.durable)
            exchange = definition.name.removeprefix(HOLDING_PREFIX)
            self.add_holding(HoldingQueue(self, definition, declared.id, index, exchange))
        else:
            self.add(SHELLS[definition.type].declare(self, definition, declared.id))

    def add(self, queue: Queue) -> None:
        """Enter a queue into all tables, so that clients find it from now on."""
        self.queues[queue.name] = queue
        self.enlist(queue)

    def enlist(self, queue: Queue) -> None:
        """Enter a queue into the tables besides the one of names: of exclusive queues, of durable
        ones, and of what the next checkpoint has to write."""
        definition = queue.definition
        if definition.owner is not None:
            self.exclusive.setdefault(definition.owner, {})[queue.name] = queue
        if definition.durable:
            self.store.durable_queues[queue.id] = queue
            self.store.checkpoints.touch(queue)

    # -- queues go

    def unbind_some(self, queue: NamedQueue) -> bool:
        if self.queues.get(queue.name) is not queue:
            return False
        return self.unbind_from(Destination(QUEUE, queue.name))

    def unbind_from(self, target: Destination) -> bool:
        """Take away at most BINDINGS_MAX bindings to what is about to be deleted. Returns True when
        there are more."""
        change = UnbindSome(self.name, target.kind, target.name, BINDINGS_MAX)
        self.services.agreement.propose(change)
        return target in self.topology.inbound

    def unbind_exchange(self, name: str) -> Iterator[int]:
        """Take away all bindings from and to an exchange that is about to be deleted, some at each
        step. Yields the units of work of each step."""
        while (exchange := self.topology.exchanges.get(name)) and not exchange.is_empty:
            self.services.agreement.propose(UnbindSome(self.name, SOURCE, name, BINDINGS_MAX))
            yield BINDINGS_MAX * BINDING_WORK
        while self.unbind_from(Destination(EXCHANGE, name)):
            yield BINDINGS_MAX * BINDING_WORK

    def forget_queue(self, queue: NamedQueue) -> None:
        known = self.queues.holding if isinstance(queue, HoldingQueue) else self.queues
        if known.get(queue.name) is queue or isinstance(queue, HoldingQueue):
            self.services.agreement.propose(DeleteQueue(self.name, queue.name, queue.id))

    def queue_removed(self, declared: DeclaredQueue) -> None:
        """Take a queue that is not declared any more out of all tables."""
        name = declared.definition.name
        self.store.durable_queues.pop(declared.id, None)
        known = self.queues.holding if is_holding(name) else self.queues
        queue = known.get(name)
        if queue is None or queue.id != declared.id:
            return  # it was one of an earlier exchange of that name
        del known[name]
        owner = declared.definition.owner
        if owner is not None:
            owned = self.exclusive.get(owner, {})
            owned.pop(name, None)
            if not owned:
                self.exclusive.pop(owner, None)
        self.tell_listener()

    def exchange_removed(self, exchange: ExchangeDefinition) -> None:
        """Delete the queue that held delayed messages for an exchange that was deleted, if there is
        one."""
        queue = self.queues.holding.get(holding_queue(exchange.name))
        if queue is not None:
            queue.post(Delete(None, False, False))

    # -- queues that have had a fault

    def crashed(self, queue: NamedQueue, error: Exception) -> None:
        SHELLS[queue.definition.type].crash(self, queue, error).begin()

    def replace(self, queue: Queue, fresh: Queue) -> None:
        known = self.queues.holding if isinstance(queue, HoldingQueue) else self.queues
        if fresh.id != queue.id:
            change = RenumberQueue(self.name, queue.name, queue.id, fresh.id)
            self.services.agreement.propose(change)
        known[queue.name] = fresh
        queue.successor = fresh
        self.enlist(fresh)
        self.topology.has_changed()

    # -- exchanges that delay messages

    def recover_holding(
        self, queue_id: int, definition: QueueDefinition, found: QueueReplica
    ) -> None:
        """Make a queue of delayed messages that a start has found. It is deleted when its exchange
        is not declared any more, as when the broker died between the two."""
        exchange = definition.name.removeprefix(HOLDING_PREFIX)
        queue = HoldingQueue(self, definition, queue_id, found.index, exchange)
        queue.machine.recover(found.marks(), found.expiring)
        self.add_holding(queue)
        if exchange not in self.topology.exchanges:
            queue.post(Delete(None, False, False))

    def add_holding(self, queue: HoldingQueue) -> None:
        """Enter a queue of delayed messages into all tables, so that routing finds it from now
        on."""
        self.queues.holding[queue.name] = queue
        self.enlist(queue)

    def ensure_delay_queues(self) -> None:
        """Declare each exchange that delays messages anew, after a recovery, so that one whose
        queue had not become durable gets one now."""
        for exchange in self.topology.list_exchanges():
            if exchange.type == DELAYED:
                self.services.agreement.propose(DeclareExchange(exchange))
