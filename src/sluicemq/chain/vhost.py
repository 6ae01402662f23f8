"""A virtual host: the exchanges, bindings and queues of one name space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.declarations import exchanges_gone
from sluicemq.chain.message_store import StoreDefinition
from sluicemq.chain.queue import ClassicShell, Queue
from sluicemq.chain.stream_queue import StreamShell
from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.model.definitions import STREAM
from sluicemq.model.vhosts import MAX_QUEUES, limit_of
from sluicemq.routing.topology import Topology
from sluicemq.storage.queue_index import QueueIndex
from sluicemq.storage.recovery import queue_directory

if TYPE_CHECKING:
    from sluicemq.chain.broker import Broker
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.storage.recovery import RecoveredQueue

WITHOUT_EFFECT: Final = frozenset(
    (
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-message-ttl",
        "x-overflow",
    )
)
"""Queue arguments that are checked as RabbitMQ checks them, but do nothing yet: said in the log."""


class VhostEmpty:
    """To who deletes a virtual host: all its queues are gone."""

    __slots__ = ("vhost",)

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost


class VirtualHost:
    """One of the broker's. `exclusive` has the exclusive queues by their connection's name."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.topology = Topology(name)
        self.policies = self.topology.policies
        self.queues: dict[str, Queue] = {}
        self.exclusive: dict[str, dict[str, Queue]] = {}
        self.connections = 0
        """Open in it."""
        self.listener: Actor | None = None
        """It is being deleted, and that actor hears when its queues are gone."""

    @property
    def farewell(self) -> str:
        """What its connections hear when it is being deleted."""
        return f"vhost '{self.name}' is down"

    def check_alive(self) -> None:
        """320 when it is being deleted: what is declared now would be left behind."""
        if self.listener is not None:
            raise ConnectionViolation(320, self.farewell)

    def begin_end(self, listener: Actor) -> None:
        """From now on nothing is declared here."""
        self.listener = listener
        if not self.queues:
            listener.post(VhostEmpty(self))

    def check_room(self, queue: str) -> None:
        """406 when there are as many queues as there may be."""
        self.check_alive()
        limits = self.broker.definitions.vhosts[self.name].limits
        most = limit_of(limits, MAX_QUEUES)
        if most is not None and len(self.queues) >= most:
            where = f"queue limit in vhost '{self.name}' ({most})"
            raise ChannelViolation(406, f"cannot declare queue '{queue}': {where} is reached")

    def recover_queue(
        self, queue_id: int, definition: QueueDefinition, found: RecoveredQueue
    ) -> None:
        """A durable queue that was there before."""
        if definition.type == STREAM:
            stream = StreamShell(self, definition, queue_id)
            stream.recover()
            self.add(stream)
            return
        queue = ClassicShell(self, definition, queue_id, found.index)
        queue.machine.recover(found.marks())
        self.add(queue)

    def declare_queue(self, definition: QueueDefinition) -> Queue:
        """Create a queue that does not exist yet."""
        broker = self.broker
        queue_id = broker.queue_id()
        queue: Queue
        if definition.type == STREAM:
            queue = StreamShell(self, definition, queue_id)
        else:
            directory = queue_directory(queue_id, definition.durable)
            index = QueueIndex(queue_id, directory, broker.entry_count, broker.file_id)
            queue = ClassicShell(self, definition, queue_id, index)
        self.add(queue)
        idle = [key for key in definition.arguments if key in WITHOUT_EFFECT]
        if idle:
            text = f"{queue.title}: no effect in this version: {', '.join(idle)}"
            broker.world.log.write("warning", text)
        if definition.owner is not None:
            self.exclusive.setdefault(definition.owner, {})[definition.name] = queue
        return queue

    def add(self, queue: Queue) -> None:
        """It can be found from now on."""
        self.topology.add_queue(queue.name)
        self.queues[queue.name] = queue
        if queue.definition.durable:
            self.broker.durable_queues[queue.id] = queue
            if isinstance(queue, ClassicShell):
                self.broker.store.checkpoints.touch(queue)

    def forget_queue(self, queue: Queue) -> None:
        """The queue has been deleted; its bindings go with it."""
        name = queue.name
        if self.queues.get(name) is not queue:
            return
        broker = self.broker
        del self.queues[name]
        broker.durable_queues.pop(queue.id, None)
        broker.definitions.delete_queue(queue.id)
        for change in exchanges_gone(self, self.topology.remove_queue(name)):
            broker.store.post(StoreDefinition(change, None))
        owner = queue.definition.owner
        if owner is not None:
            owned = self.exclusive.get(owner, {})
            owned.pop(name, None)
            if not owned:
                self.exclusive.pop(owner, None)
        if self.listener is not None and not self.queues:
            self.listener.post(VhostEmpty(self))
