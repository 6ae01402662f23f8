"""What all actors of one node share: the World, the settings, the tables, the links' numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sluicemq.access.access import Access
from sluicemq.broker.policy_rounds import Policing, load_policies
from sluicemq.broker.vhost import VirtualHost
from sluicemq.chain.connection.admission import Admission
from sluicemq.chain.connection.deadlines import Deadlines
from sluicemq.chain.pacer import Pacer
from sluicemq.chain.store.message_store import MessageStore
from sluicemq.flow.alarm import AlarmBoard
from sluicemq.flow.credit import Inflow, LinkSpec, Outflow
from sluicemq.flow.link import link, link_deliveries
from sluicemq.flow.profiles import flow_budget, flow_profile
from sluicemq.limits import (
    ACCOUNT_STEP_BYTES,
    CONNECTION_WINDOW,
    CONNECTION_WINDOW_TIGHT,
    CONTENT_OVERHEAD_BYTES,
    DELIVERY_WINDOW,
    DELIVERY_WINDOW_NOTIFY,
    HELD_METHODS_MAX,
    STREAM_CACHE_BYTES,
    TIGHT_RATIO,
    WRITER_BACKLOG_BYTES,
)
from sluicemq.model.definitions import STREAM
from sluicemq.queues.stream_cache import ChunkCache
from sluicemq.storage.journal import Journal
from sluicemq.storage.stream_recovery import forget_streams

if TYPE_CHECKING:
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.connection.reader import Reader
    from sluicemq.chain.flow_actor import FlowActor
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.republish.delayer import Delayer
    from sluicemq.config import Config
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.kernel.world import World
    from sluicemq.storage.message_files import MessageFiles
    from sluicemq.storage.recovery import Recovery
    from sluicemq.storage.stream_recovery import StreamRecovery


class Counters:
    """Totals since the start, for status and metrics; never decreasing."""

    __slots__ = (
        "acknowledged",
        "channels_opened",
        "confirmed",
        "connections_opened",
        "delivered",
        "dropped",
        "faults",
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
        self.faults = 0
        """Exceptions that nobody expected, and that were contained."""


class Broker:
    """What the virtual hosts of one node share, and which there are."""

    def __init__(
        self,
        world: World,
        config: Config,
        scheduler: Scheduler,
        recovery: Recovery,
        persistent: MessageFiles,
        transient: MessageFiles,
    ) -> None:
        self.world = world
        self.config = config
        self.scheduler = scheduler
        self.profile = flow_profile(config.flow)
        self.budget = flow_budget(config.flow)
        self.pacer = None if self.budget is None else Pacer(scheduler, world.clock)
        """None with RabbitMQ's profiles: they take in what comes."""
        self.delivery_window = LinkSpec(DELIVERY_WINDOW, DELIVERY_WINDOW_NOTIFY)
        self.connection_window_max = CONNECTION_WINDOW
        self.held_methods_max = HELD_METHODS_MAX
        self.writer_backlog_bytes = WRITER_BACKLOG_BYTES
        self.alarms = AlarmBoard()
        self.admission = Admission(0, 0)
        self.admission.bound(config.net, world.net.sockets_max)
        self.deadlines = Deadlines(scheduler, world.clock)
        self.definitions = recovery.definitions
        self.entry_count = recovery.entry_count
        self.next_queue_id = recovery.next_queue_id
        self.next_message_id = recovery.next_message_id
        self.large_from_bytes = config.storage.queue_index_embed_msgs_below + CONTENT_OVERHEAD_BYTES
        limit = config.storage.journal_file_size_limit
        journal = Journal(recovery.journal_number, limit, self.file_id, recovery.manifest)
        self.store = MessageStore(self, journal, persistent, transient)
        self.vhosts: dict[str, VirtualHost] = {}
        self.policing = Policing(self)
        self.access = Access(self.definitions, self.vhosts, config.auth, world.log)
        self.durable_queues: dict[int, Queue] = {}
        self.connections: dict[int, Reader] = {}
        self.counters = Counters()
        self.accounted_bytes = 0
        self.unseen_bytes = 0
        self.memory_pressure = 0.0
        """Accounted bytes, as a part of the limit."""
        self.monitor: Callable[[], None] = ignore
        self.disk_full: Callable[[bool], None] = ignore
        """Hears that there is no space for what has to be written, or that there is again."""
        self.disk_written: Callable[[], None] = ignore
        self.no_space: dict[DiskJob, None] = {}
        """Jobs that wait for space."""
        self.streams_found: dict[int, StreamRecovery] = {}
        """While it starts."""
        self.stream_cache = ChunkCache(STREAM_CACHE_BYTES, self.memory_used)
        self.recover(recovery)

    def link_to_channel(self, reader: Reader, channel: Channel) -> tuple[Outflow, Inflow]:
        """reader -> channel."""
        spec = self.profile.credit_flow_default_credit
        name = f"channel {channel.number}"
        return link(reader.keeper, reader, channel.keeper, spec, name, self.budget)

    def link_to_queue(self, sender: FlowActor, queue: Queue) -> tuple[Outflow, Inflow]:
        """channel or republisher -> queue."""
        spec = self.profile.credit_flow_default_credit
        name = f"queue {queue.name}"
        return link(sender.keeper, sender, queue.keeper, spec, name, self.budget)

    def link_to_store(self, queue: Queue) -> tuple[Outflow, Inflow]:
        """queue -> message store."""
        spec = self.profile.msg_store_credit_disc_bound
        return link(queue.keeper, queue, self.store.keeper, spec, "message store")

    def link_deliveries(self, queue: Queue, channel: Delayer) -> tuple[Outflow, Inflow]:
        """queue -> delayer, for deliveries: no gate of the queue's own keeper."""
        spec = self.delivery_window
        name = f"deliveries to {channel.name}"
        return link(queue.deliveries, queue, channel.deliveries, spec, name)

    def link_consumer(self, queue: Queue, channel: Channel) -> tuple[Outflow, Inflow]:
        """queue -> channel, likewise; within the window of the channel's connection."""
        spec = self.delivery_window
        name = f"deliveries to {channel.name}"
        keepers = queue.deliveries, queue, channel.deliveries
        return link_deliveries(*keepers, spec, name, channel.reader.window)

    def connection_window(self) -> int:
        """What may be on its way to one socket, in units of delivery cost: less while memory is
        short, for those who do not read must not be what keeps an alarm up."""
        if self.memory_pressure >= TIGHT_RATIO:
            return max(1, self.connection_window_max // CONNECTION_WINDOW_TIGHT)
        return self.connection_window_max

    def file_id(self) -> bytes:
        """16 random bytes: no two files have the same."""
        return self.world.dice.token(16)

    def queue_id(self) -> int:
        """One that no queue has had."""
        queue_id = self.next_queue_id
        self.next_queue_id += 1
        return queue_id

    def all_queues(self) -> Iterator[Queue]:
        """Those of all virtual hosts."""
        for vhost in self.vhosts.values():
            yield from vhost.queues.values()

    def all_with_messages(self) -> list[Queue]:
        """And those that no client sees."""
        found: list[Queue] = []
        for vhost in self.vhosts.values():
            found += vhost.queues.values()
            found += vhost.queues.holding.values()
        return found

    @property
    def queue_count(self) -> int:
        """In all virtual hosts."""
        return sum(len(vhost.queues) for vhost in self.vhosts.values())

    def message_ids(self, count: int) -> int:
        """The first of so many ids in the message store."""
        first = self.next_message_id
        self.next_message_id = first + count
        return first

    def recover(self, recovery: Recovery) -> None:
        """Make what was there."""
        definitions = self.definitions
        for name in definitions.vhosts:
            self.vhosts[name] = VirtualHost(self, name)
        load_policies(self)
        for exchange in definitions.exchanges.values():
            self.vhosts[exchange.vhost].topology.declare_exchange(exchange, passive=False)
        streams = {key for key, queue in definitions.queues.items() if queue.type == STREAM}
        forget_streams(self.world.disk.files, streams, keep=bool(recovery.losses))
        self.streams_found = recovery.streams
        for queue_id, definition in definitions.queues.items():
            found = recovery.queues[queue_id]
            self.vhosts[definition.vhost].recover_queue(queue_id, definition, found)
        for binding in definitions.bindings.values():
            self.vhosts[binding.vhost].topology.bind(binding)
        self.streams_found = {}
        for vhost in self.vhosts.values():
            vhost.complete()
        checkpoints = self.store.checkpoints
        checkpoints.number = recovery.checkpoint_number
        checkpoints.node_id = recovery.node_id
        checkpoints.saved_cut = recovery.journal_number

    def no_space_for(self, job: DiskJob) -> None:
        """The disk is too full for this job, which will be tried again."""
        self.no_space[job] = None
        self.disk_full(True)

    def has_space(self, job: DiskJob) -> None:
        """This job is done: something has been written."""
        self.disk_written()
        if job in self.no_space:
            del self.no_space[job]
            if not self.no_space:
                self.disk_full(False)

    def memory_used(self, change_bytes: int) -> None:
        """A queue's messages take more or less RAM now. The alarm does not wait for its next
        regular look when much has changed."""
        self.accounted_bytes += change_bytes
        self.unseen_bytes += change_bytes
        if abs(self.unseen_bytes) > ACCOUNT_STEP_BYTES:
            self.unseen_bytes = 0
            self.monitor()


def ignore(*_: object) -> None:
    """The monitor of a broker that has none."""
