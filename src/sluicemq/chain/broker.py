"""What all actors of one node share: the World, the settings, the tables, the links' numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sluicemq.chain.message_store import MessageStore
from sluicemq.chain.queue import Queue
from sluicemq.flow.alarm import AlarmBoard
from sluicemq.flow.credit import Inflow, LinkSpec, Outflow
from sluicemq.flow.link import link
from sluicemq.flow.profiles import flow_budget, flow_profile
from sluicemq.limits import (
    ACCOUNT_STEP_BYTES,
    DELIVERY_WINDOW,
    DELIVERY_WINDOW_NOTIFY,
    HELD_METHODS_MAX,
    WRITER_BACKLOG_BYTES,
)
from sluicemq.routing.topology import Topology

if TYPE_CHECKING:
    from sluicemq.chain.channel import Channel
    from sluicemq.chain.reader import Reader
    from sluicemq.config import Config
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import World
    from sluicemq.model.definitions import QueueDefinition


WITHOUT_EFFECT: Final = frozenset(
    (
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-message-ttl",
        "x-overflow",
        "x-queue-mode",
        "x-single-active-consumer",
    )
)
"""Queue arguments that are checked as RabbitMQ checks them, but do nothing yet: said in the log."""


class Counters:
    """Totals since the start, for status and metrics; never decreasing."""

    __slots__ = (
        "acknowledged",
        "channels_opened",
        "confirmed",
        "connections_opened",
        "delivered",
        "dropped",
        "published",
        "returned",
    )

    def __init__(self) -> None:
        self.connections_opened = 0
        self.channels_opened = 0
        self.published = 0
        self.confirmed = 0
        self.returned = 0
        self.dropped = 0
        self.delivered = 0
        self.acknowledged = 0


class Broker:
    """One virtual host on one node."""

    def __init__(self, world: World, config: Config, scheduler: Scheduler) -> None:
        self.world = world
        self.config = config
        self.scheduler = scheduler
        self.vhost = config.auth.default_vhost
        self.topology = Topology(self.vhost)
        self.profile = flow_profile(config.flow)
        self.budget = flow_budget(config.flow)
        self.delivery_window = LinkSpec(DELIVERY_WINDOW, DELIVERY_WINDOW_NOTIFY)
        self.held_methods_max = HELD_METHODS_MAX
        self.writer_backlog_bytes = WRITER_BACKLOG_BYTES
        self.alarms = AlarmBoard()
        self.store = MessageStore(scheduler, world)
        self.queues: dict[str, Queue] = {}
        self.exclusive: dict[str, dict[str, Queue]] = {}
        self.connections: dict[int, Reader] = {}
        self.counters = Counters()
        self.accounted_bytes = 0
        self.unseen_bytes = 0
        self.monitor: Callable[[], None] = ignore

    def link_to_channel(self, reader: Reader, channel: Channel) -> tuple[Outflow, Inflow]:
        """reader -> channel."""
        spec = self.profile.credit_flow_default_credit
        name = f"channel {channel.number}"
        return link(reader.keeper, reader, channel.keeper, channel, spec, name, self.budget)

    def link_to_queue(self, channel: Channel, queue: Queue) -> tuple[Outflow, Inflow]:
        """channel -> queue."""
        spec = self.profile.credit_flow_default_credit
        name = f"queue {queue.name}"
        return link(channel.keeper, channel, queue.keeper, queue, spec, name, self.budget)

    def link_to_store(self, queue: Queue) -> tuple[Outflow, Inflow]:
        """queue -> message store."""
        spec = self.profile.msg_store_credit_disc_bound
        return link(queue.keeper, queue, self.store.keeper, self.store, spec, "message store")

    def link_deliveries(self, queue: Queue, channel: Channel) -> tuple[Outflow, Inflow]:
        """queue -> channel, for deliveries: no gate of the queue's own keeper."""
        spec = self.delivery_window
        name = f"deliveries to {channel.name}"
        return link(queue.deliveries, queue, channel.deliveries, channel, spec, name)

    def declare_queue(self, definition: QueueDefinition) -> Queue:
        """Create a queue that does not exist yet."""
        queue = Queue(self, definition)
        self.topology.add_queue(definition.name)
        self.queues[definition.name] = queue
        idle = [key for key in definition.arguments if key in WITHOUT_EFFECT]
        if idle:
            text = f"{queue.title}: no effect in this version: {', '.join(idle)}"
            self.world.log.write("warning", text)
        if definition.owner is not None:
            self.exclusive.setdefault(definition.owner, {})[definition.name] = queue
        return queue

    def forget_queue(self, queue: Queue) -> None:
        """The queue has been deleted; its bindings go with it."""
        name = queue.name
        if self.queues.get(name) is not queue:
            return
        del self.queues[name]
        self.topology.remove_queue(name)
        owner = queue.definition.owner
        if owner is not None:
            owned = self.exclusive.get(owner, {})
            owned.pop(name, None)
            if not owned:
                self.exclusive.pop(owner, None)

    def memory_used(self, change_bytes: int) -> None:
        """A queue's messages take more or less RAM now. The alarm does not wait for its next
        regular look when much has changed."""
        self.accounted_bytes += change_bytes
        self.unseen_bytes += change_bytes
        if abs(self.unseen_bytes) > ACCOUNT_STEP_BYTES:
            self.unseen_bytes = 0
            self.monitor()


def ignore() -> None:
    """The monitor of a broker that has none."""
