"""What every actor of one node may use: the World, the settings, links, counters, ids, memory.

Nothing in it knows a kind of actor, so that all of them may know it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp.room import RoomStock
from sluicemq.chain.pacer import Pacer
from sluicemq.compiling import mypyc_attr
from sluicemq.flow.alarm import AlarmBoard
from sluicemq.flow.credit import LinkSpec
from sluicemq.flow.link import link, link_deliveries
from sluicemq.flow.profiles import flow_budget, flow_profile, raft_profile
from sluicemq.kernel.address import ActorAddress, node_of
from sluicemq.limits import (
    ACCOUNT_STEP_BYTES,
    CONNECTION_WINDOW,
    CONNECTION_WINDOW_TIGHT,
    CONTENT_OVERHEAD_BYTES,
    DELIVERY_WINDOW,
    DELIVERY_WINDOW_NOTIFY,
    QUEUED_METHODS_MAX,
    STREAM_CACHE_BYTES,
    TIGHT_RATIO,
    WRITER_BACKLOG_BYTES,
)
from sluicemq.metadata.changes import LOCAL_QUEUE_IDS, Life
from sluicemq.metadata.restoring import restored
from sluicemq.model.histogram import DURATIONS_S, Histogram
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.stream.cache import ChunkCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.chain.flow_actor import FlowActor
    from sluicemq.config import Config
    from sluicemq.flow.credit import Inflow, Outflow
    from sluicemq.flow.delivery_window import ConnectionWindow
    from sluicemq.flow.gate import GateKeeper
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.kernel.world import World
    from sluicemq.metadata.agreement import Agreement
    from sluicemq.replication.ask_post import AskPost
    from sluicemq.replication.member_status import AsksMembers
    from sluicemq.replication.raft_post import RaftPost
    from sluicemq.storage.recovery import Recovery


LOCAL_QUEUE_ID_BITS: Final = 32
OWN_NODE: Final = 1
"""The number of a node that is alone."""


class Counters:
    """Totals since the start, for status and metrics; never decreasing."""

    __slots__ = (
        "acknowledged",
        "channels_closed",
        "channels_opened",
        "confirmed",
        "connections_closed",
        "connections_opened",
        "delivered",
        "dropped",
        "faults",
        "nacked",
        "published",
        "queues_created",
        "queues_declared",
        "queues_deleted",
        "returned",
    )

    def __init__(self) -> None:
        self.connections_opened = 0
        self.connections_closed = 0
        self.channels_opened = 0
        self.channels_closed = 0
        self.queues_declared = 0
        """Declarations of queues that clients were granted, whether the queue was there or not."""
        self.queues_created = 0
        self.queues_deleted = 0
        self.published = 0
        self.confirmed = 0
        """Messages whose publishers were told that they are safe. Each counts once, however many
        queues it went to; so does one that went to none. A commit is no confirm."""
        self.nacked = 0
        """Messages whose publishers were told that they are not safe: a queue was full or has
        failed."""
        self.returned = 0
        self.dropped = 0
        self.delivered = 0
        self.acknowledged = 0
        self.faults = 0
        """Exceptions that nobody expected, and that were contained."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Services:
    """What every actor of one node shares. `recovery` tells which numbers were given before; `life`
    is the present life of a node of a cluster, None for a node alone; `classic_queue` makes the
    state of each classic queue."""

    agreement: Agreement

    def __init__(
        self,
        world: World,
        config: Config,
        scheduler: Scheduler,
        recovery: Recovery,
        life: Life | None = None,
        raft_post: RaftPost | None = None,
        ask_post: AskPost | None = None,
        classic_queue: type[ClassicQueue] = ClassicQueue,
    ) -> None:
        self.world = world
        self.classic_queue = classic_queue
        self.config = config
        self.scheduler = scheduler
        self.profile = flow_profile(config.flow)
        self.raft_profile = raft_profile(config.flow, config.raft)
        self.budget = flow_budget(config.flow)
        self.pacer = None if self.budget is None else Pacer(scheduler, world.clock)
        """Holds publishers back while queues lag behind; None with RabbitMQ's profiles, which take
        in what comes."""
        self.delivery_window = LinkSpec(DELIVERY_WINDOW, DELIVERY_WINDOW_NOTIFY)
        self.connection_window_max = CONNECTION_WINDOW
        self.queued_methods_max = QUEUED_METHODS_MAX
        self.writer_backlog_bytes = WRITER_BACKLOG_BYTES
        self.memory_counter: Callable[[int], None] = self.memory_used
        self.window_bound: Callable[[], int] = self.connection_window
        """Methods that each connection keeps: to ask for a method gives another object each
        time."""
        self.rooms = RoomStock()
        """Memory for large contents that clients publish."""
        self.alarms = AlarmBoard()
        self.definitions = recovery.declared or restored(
            recovery.definitions, recovery.next_queue_id
        )
        """Everything that is declared. Changes are proposed to `agreement`."""
        self.is_alone = life is None
        self.life = life or Life(OWN_NODE, recovery.journal_number)
        """The life of this node: alone, each start begins a journal file with a higher number."""
        self.local_ids_given = 0
        self.raft_post = raft_post
        """Where members of groups on other nodes are reached; None: the node is alone."""
        self.ask_post = ask_post
        """Where the leaders of groups are asked, likewise."""
        self.status_post: AsksMembers | None = None
        """Where members of groups on other nodes are asked how they are, likewise."""
        self.addresses_given = 0
        self.entry_count = recovery.entry_count
        self.next_message_id = recovery.next_message_id
        self.large_from_bytes = config.storage.queue_index_embed_msgs_below + CONTENT_OVERHEAD_BYTES
        self.counters = Counters()
        self.confirm_latency = Histogram(DURATIONS_S)
        """How long publishers waited for confirms, in seconds: of each channel one message at a
        time is watched."""
        self.accounted_bytes = 0
        self.unseen_bytes = 0
        self.memory_pressure = 0.0
        """The accounted bytes, as a part of the memory limit."""
        self.monitor: Callable[[], None] = ignore
        self.disk_full: Callable[[bool], None] = ignore
        """Is told that there is no space for what has to be written, and when there is space
        again."""
        self.disk_written: Callable[[], None] = ignore
        self.no_space: dict[DiskJob, None] = {}
        """The jobs that wait for space on the disk."""
        self.stream_cache = ChunkCache(STREAM_CACHE_BYTES, self.memory_used)

    def credit_link(
        self, sender: FlowActor, receiver: FlowActor, name: str
    ) -> tuple[Outflow, Inflow]:
        """Make a link for batches: from a reader to a channel, from a channel or republisher to a
        queue. `name` says what the sender waits for."""
        spec = self.profile.credit_flow_default_credit
        return link(sender.keeper, sender, receiver.keeper, spec, name, self.budget)

    def store_link(self, queue: FlowActor, store: FlowActor) -> tuple[Outflow, Inflow]:
        """Make a link from a queue to the message store."""
        spec = self.profile.msg_store_credit_disc_bound
        return link(queue.keeper, queue, store.keeper, spec, "message store")

    def delivery_link(
        self,
        queue: FlowActor,
        keepers: tuple[GateKeeper, GateKeeper],
        receiver: str,
        shared: ConnectionWindow | None = None,
    ) -> tuple[Outflow, Inflow]:
        """Make a link from a queue to the receiver of its deliveries, within the connection's
        window `shared`, if there is one. `keepers` are the two ends' own for deliveries: their
        gates hold up no publisher."""
        sender, receiving = keepers
        name = f"deliveries to {receiver}"
        if shared is None:
            return link(sender, queue, receiving, self.delivery_window, name)
        return link_deliveries(sender, queue, receiving, self.delivery_window, name, shared)

    def connection_window(self) -> int:
        """Return how much may be on its way to one socket, in units of delivery cost: less while
        memory is short, because clients that do not read must not keep an alarm up."""
        if self.memory_pressure >= TIGHT_RATIO:
            return max(1, self.connection_window_max // CONNECTION_WINDOW_TIGHT)
        return self.connection_window_max

    def has_part(self, home: int, members: tuple[int, ...]) -> bool:
        """Tell whether a queue with this home and these members has messages on this node."""
        if members:
            return self.life.node in map(node_of, members)
        return home in (0, self.life.node)

    def file_id(self) -> bytes:
        """Return 16 random bytes that identify a file."""
        return self.world.dice.token(16)

    def queue_id(self) -> int:
        """Return a number that no queue has had, for one that is not durable and begins empty. In a
        cluster this is not a number that all nodes agree on: only this life of this node gives it.
        """
        if self.is_alone:
            return self.definitions.queue_id()
        self.local_ids_given += 1
        return LOCAL_QUEUE_IDS | self.life.node << LOCAL_QUEUE_ID_BITS | self.local_ids_given

    def new_address(self) -> ActorAddress:
        """Return an address that no actor has had."""
        self.addresses_given += 1
        return ActorAddress(self.life.node, self.life.incarnation, self.addresses_given)

    def message_ids(self, count: int) -> int:
        """Return the first of `count` new ids in the message store."""
        first = self.next_message_id
        self.next_message_id = first + count
        return first

    def no_space_for(self, job: DiskJob) -> None:
        """Note that the disk is too full for this job, which will be tried again."""
        self.no_space[job] = None
        self.disk_full(True)

    def has_space(self, job: DiskJob) -> None:
        """Note that this job is done, so that there is space again."""
        self.disk_written()
        if job in self.no_space:
            del self.no_space[job]
            if not self.no_space:
                self.disk_full(False)

    def memory_used(self, change_bytes: int) -> None:
        """Account for `change_bytes` more RAM of a queue's messages (less when negative). The alarm
        does not wait for its next regular check when much has changed."""
        account(self, change_bytes)


def account(services: Services, change_bytes: int) -> None:
    """Account for memory as `memory_used` does. A compiled caller finds a function at once, but a
    method, which a subclass that is not compiled might override, by its name."""
    services.accounted_bytes += change_bytes
    services.unseen_bytes += change_bytes
    if not -ACCOUNT_STEP_BYTES <= services.unseen_bytes <= ACCOUNT_STEP_BYTES:
        services.unseen_bytes = 0
        services.monitor()


def ignore(*_: object) -> None:
    """Do nothing: a broker without a monitor has nobody to tell."""
