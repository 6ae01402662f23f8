"""The parameters of one run of several nodes, chosen once by the seed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.types import Table
from sluicemq.cluster_config import ClusterConfig
from sluicemq.config import KIB, MIB, Config, FlowConfig, MemoryConfig, NetConfig, StorageConfig
from sluicemq.sim.nodes.tight_bounds import tight_bounds_of
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method
    from sluicemq.sim.nodes.tight_bounds import TightBounds

PORT: Final = 25_672
"""The port at which nodes reach each other."""
ROOMY: Final = 64 * MIB
FIVE_ONE_IN: Final = 12
"""One run in this many has five nodes, unless the number is given."""
DYING_ONE_IN: Final = 4
"""In one run in this many the last queue dead-letters messages to another one."""
LOG_ONE_IN: Final = 5
"""One run in this many has a stream, too."""
PROMOTING_ONE_IN: Final = 6
"""In one run of mirrored queues in this many a policy lets some of them go on with what a mirror
has that is left."""
PROMOTING_NODES: Final = 5
"""A run of so few nodes could not lose a majority of mirrors and keep one of nodes."""
PASSING_ONE_IN: Final = 4
"""In one run in this many the first queue is deleted and redeclared while in use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedQueue:
    """One queue that clients at all nodes use. A classic queue lives on the node that declares it
    first, unless it `is_mirrored`; a quorum queue has `members` at first, 0 for the default number.
    """

    name: str
    is_quorum: bool
    members: int = 0
    is_mirrored: bool = False
    promotes: bool = False
    """True when a policy lets a mirror go on without a majority."""
    passes: bool = False
    """True when clients delete and redeclare it."""
    is_log: bool = False
    """True when it is a stream."""
    grave: str = ""
    """The queue that gets this one's dead letters; "" without one."""
    source: str = ""
    """The queue whose dead letters come to this one; "" when clients publish here."""
    ttl_ms: int = 0
    """The message TTL, if there is a grave."""
    single_active: bool = False
    must_arrive: bool = True
    """True when dead letters arrive at least once. Those of a quorum queue may be lost instead, and
    arrive at most once."""

    @property
    def is_replicated(self) -> bool:
        """Tell whether several nodes have its messages."""
        return self.is_quorum or self.is_mirrored

    @property
    def arguments(self) -> Table:
        """Return the arguments with which it is declared."""
        if self.grave:
            return {**self._type, **self._burial}
        return self._type

    @property
    def _burial(self) -> Table:
        """Return the arguments about dead letters."""
        burial: Table = {
            "x-message-ttl": self.ttl_ms,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self.grave,
        }
        if self.is_quorum and self.must_arrive:
            burial |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
        return burial

    @property
    def _type(self) -> Table:
        """Return the arguments for the queue's type and size."""
        if self.is_log:
            return {"x-queue-type": "stream"}
        active: Table = {"x-single-active-consumer": True} if self.single_active else {}
        if not self.is_quorum:
            return active
        size: Table = {"x-quorum-initial-group-size": self.members} if self.members else {}
        return {"x-queue-type": "quorum", **size, **active}

    def declaration(self) -> Method:
        """Return the method that declares this queue."""
        return m.QueueDeclare(queue=self.name, durable=True, arguments=self.arguments)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodesPlan:
    """The parameters of one run. Times are virtual; the nemesis chooses those of the network, by a
    mixture of its own."""

    seed: int
    nodes: int
    is_calm_at_first: bool
    """True when faults begin only after all nodes are up."""
    faults_ms: int
    fault_interval_ms: int
    queues: tuple[PlannedQueue, ...]
    publishers: int
    consumers: int
    messages_each: int
    fans_out: bool
    """True when clients publish to an exchange that is bound to all queues."""
    readers: int
    """The most clients at each node that read the stream, if there is one."""
    getters: int
    """The most clients at each node that use basic.get."""
    transactors: int
    """The most clients at each node that publish in transactions."""
    moves_each: int
    """Moves of a client at each node with exchanges; 0 for none."""
    remakes_each: int
    """How often a client at each node deletes or redeclares passing queues."""
    moves_members: bool
    """True when quorum queues get and lose members, and leaders move."""
    promoting_mirrors: int = 0
    """The mirrors of each queue that one of them may serve without a majority, so that a majority
    of them is lost for long at first; 0: there is no such queue."""
    hoards: bool = False
    """True when nobody consumes from these queues before the end."""
    moves_nodes: bool = False
    """True when nodes join the cluster, and some are removed. Then queues get members, and lose
    them only with their nodes."""
    confirm_percent: int
    persistent_percent: int
    requeue_percent: int
    prefetch_max: int
    body_bytes_max: int
    credit: tuple[int, int]
    turns_max: int
    turn_ns_max: int
    delay_ns_max: int
    fragment_max: int
    socket_bytes: int
    high_water_bytes: int
    sync_ns_max: int
    append_entries: int
    """Entries of a Raft group that are sent to another member at once."""
    segment_entries: int
    journal_file_bytes: int
    store_file_bytes: int
    bounds: TightBounds | None = None
    """Small bounds; None for the usual ones."""

    def queue(self, name: str) -> PlannedQueue:
        """Return the queue of that name."""
        return next(each for each in self.queues if each.name == name)

    @property
    def work(self) -> list[PlannedQueue]:
        """Return the queues that clients empty: all except streams."""
        return [each for each in self.queues if not each.is_log]

    @property
    def consumed(self) -> list[PlannedQueue]:
        """Return the queues that clients consume from before the end."""
        return [each for each in self.work if not (self.hoards and each.promotes)]

    @property
    def targets(self) -> list[PlannedQueue]:
        """Return the queues that clients publish to: all except those for dead letters."""
        return [each for each in self.queues if not each.source]

    @property
    def promoting(self) -> list[str]:
        """Return the names of the queues that a mirror may serve without a majority."""
        return [each.name for each in self.queues if each.promotes]

    @property
    def fanned(self) -> list[PlannedQueue]:
        """Return the queues bound to the exchange of all: those that always exist."""
        return [each for each in self.targets if self.fans_out and not each.passes]

    @property
    def log(self) -> PlannedQueue | None:
        """Return the stream that clients publish to and read; None without one."""
        return next((each for each in self.queues if each.is_log), None)

    @property
    def has_mirrors(self) -> bool:
        """Tell whether a policy mirrors queues of this run."""
        return any(each.is_mirrored for each in self.queues)

    @property
    def low_water_bytes(self) -> int:
        """Return the mark below which a client's socket takes more."""
        return self.high_water_bytes // 4

    def config(self, number: int) -> Config:
        """Return the configuration of that node."""
        config = Config(
            net=NetConfig(frame_max=4096, channel_max=7, heartbeat=0),
            flow=FlowConfig(profile="rabbitmq-3.8", credit_flow_default_credit=self.credit),
            memory=MemoryConfig(vm_memory_high_watermark_absolute=ROOMY, check_interval_ms=1000),
            storage=StorageConfig(
                queue_index_segment_entry_count=self.segment_entries,
                journal_file_size_limit=self.journal_file_bytes,
                msg_store_file_size_limit=self.store_file_bytes,
                reserve_bytes=0,
            ),
            cluster=ClusterConfig(
                name=f"n{number}",
                host=f"h{number}",
                port=PORT,
                nodes=tuple(f"h{each}:{PORT}" for each in range(1, self.nodes + 1)),
                secret_file="none",
            ),
        )
        return config if self.bounds is None else self.bounds.configured(config)

    def lines(self) -> list[str]:
        """Return the parameters as text, one on each line."""
        return [f"{each.name:22} {getattr(self, each.name)}" for each in fields(self)]


def shortened(plan: NodesPlan) -> NodesPlan:
    """Return a plan with half the messages in half the time, otherwise the same."""
    return replace(plan, faults_ms=plan.faults_ms // 2, messages_each=plan.messages_each // 2)


def tightened(plan: NodesPlan) -> NodesPlan:
    """Return a plan with small bounds, otherwise the same. In one run of three, each queue has one
    active consumer at a time, and basic.get gets nothing of it."""
    plan = replace(plan, bounds=tight_bounds_of(plan.seed))
    if Random(f"single of {plan.seed}").randrange(3):
        return plan
    queues = tuple(replace(each, single_active=not each.is_log) for each in plan.queues)
    return replace(plan, queues=queues, getters=0)


def mirrored_plan(seed: int, nodes: int | None = None) -> NodesPlan:
    """Return the parameters of a seed, with mirrored queues in place of all others."""
    plan = lasting_plan(seed, nodes)
    queues = tuple(
        PlannedQueue(name=f"mirrored{nth}", is_quorum=False, is_mirrored=True)
        for nth in range(len(plan.queues))
    )
    plan = replace(plan, queues=queues, moves_members=False)
    dice = Random(f"promotes {seed}")
    promotes = dice.randrange(PROMOTING_ONE_IN) == 0 and nodes in (None, PROMOTING_NODES)
    return promoting_plan(plan, dice) if promotes else plan


def promoting_plan(plan: NodesPlan, dice: Random) -> NodesPlan:
    """Return the plan with queues that go on with what a mirror has that is left."""
    count = dice.choice((1, 1, len(plan.queues)))
    queues = [replace(each, promotes=True) for each in plan.queues[:count]]
    return replace(
        plan,
        nodes=PROMOTING_NODES,
        is_calm_at_first=True,
        queues=(*queues, *plan.queues[count:]),
        promoting_mirrors=dice.choice((2, 3, 3, 4)),
        messages_each=dice.choice((60, 120)),
        hoards=dice.randrange(2) == 0,
    )


def moving_plan(seed: int, nodes: int | None = None) -> NodesPlan:
    """Return the parameters of a seed with nodes that join and are removed. All queues are quorum
    queues, because a queue on a single node would go with it."""
    plan = lasting_plan(seed, nodes)
    dice = Random(f"moves {seed}")
    passes = dice.randrange(PASSING_ONE_IN) == 0
    queues = tuple(
        PlannedQueue(name=each.name, is_quorum=True, passes=passes and each is plan.queues[0])
        for each in plan.queues
    )
    return replace(
        plan,
        queues=queues,
        fans_out=plan.fans_out and not queues[-1].passes,
        remakes_each=dice.choice((4, 12)) if passes else 0,
        faults_ms=dice.choice((2500, 5000)),
        fault_interval_ms=dice.choice((40, 80, 160)),
        moves_members=True,
        moves_nodes=True,
    )


def nodes_plan(seed: int, nodes: int | None = None) -> NodesPlan:
    """Return the parameters of a seed. `nodes` replaces the seed's choice, and changes nothing
    else."""
    plan = lasting_plan(seed, nodes)
    dice = Random(f"lives {seed}")
    queues = [*plan.queues]
    has_log = dice.randrange(LOG_ONE_IN) == 0
    passes = dice.randrange(PASSING_ONE_IN) == 0
    queues[0] = replace(queues[0], passes=passes)
    if dice.randrange(DYING_ONE_IN) == 0 and not queues[-1].passes:
        queues[-1:] = dying_queues(queues[-1], dice)
    if has_log:
        queues.append(PlannedQueue(name="log", is_quorum=False, is_log=True))
    return replace(
        plan,
        queues=tuple(queues),
        fans_out=plan.fans_out and not queues[-1].passes,
        readers=dice.choice((1, 2)) if has_log else 0,
        remakes_each=dice.choice((4, 12)) if passes else 0,
    )


def dying_queues(queue: PlannedQueue, dice: Random) -> tuple[PlannedQueue, PlannedQueue]:
    """Return the queue as one that dead-letters messages, and the queue that gets them."""
    dying = replace(
        queue,
        grave="grave",
        ttl_ms=dice.choice((50, 400, 2000)),
        must_arrive=not queue.is_quorum or dice.randrange(2) == 0,
    )
    is_quorum = dice.randrange(2) == 0
    return dying, PlannedQueue(name="grave", is_quorum=is_quorum, source=queue.name)


def lasting_plan(seed: int, nodes: int | None) -> NodesPlan:
    """Return the parameters of a seed whose queues always exist, and are emptied by consumers."""
    dice = Random(f"nodes {seed}")
    chosen = 5 if dice.randrange(FIVE_ONE_IN) == 0 else 3
    nodes = nodes or chosen
    dice_of_members = Random(f"members {seed}")
    moves_members = dice_of_members.randrange(3) == 0
    dice_of_ways = Random(f"ways {seed}")
    count = dice.choice((1, 2, 3))
    return NodesPlan(
        seed=seed,
        nodes=nodes,
        is_calm_at_first=dice.randrange(2) == 0,
        faults_ms=dice.choice((800, 1500, 2500, 5000)),
        fault_interval_ms=dice.choice((80, 200, 400)),
        queues=tuple(
            PlannedQueue(
                name=f"work{nth}",
                is_quorum=dice.randrange(2) == 0,
                members=dice_of_members.choice((0, 1, 3)) if moves_members else 0,
            )
            for nth in range(count)
        ),
        moves_members=moves_members,
        fans_out=dice_of_ways.randrange(2) == 0,
        readers=0,
        getters=dice_of_ways.choice((0, 0, 1, 2)),
        transactors=dice_of_ways.choice((0, 0, 1, 2)),
        publishers=dice.randrange(1, 4),
        consumers=dice.randrange(1, 4),
        messages_each=dice.choice((10, 30, 60)),
        moves_each=dice.choice((0, 4, 8)),
        remakes_each=0,
        confirm_percent=dice.choice((60, 100, 100)),
        persistent_percent=dice.choice((50, 100, 100)),
        requeue_percent=dice.choice((0, 5, 30)),
        prefetch_max=dice.choice((0, 1, 3, 20)),
        body_bytes_max=dice.choice((40, 300, 3000)),
        credit=dice.choice(((2, 1), (4, 2), (16, 4), (200, 50))),
        turns_max=dice.choice((4, 16, 64)),
        turn_ns_max=dice.choice((10_000, 50_000, 300_000)),
        delay_ns_max=dice.choice((50_000, 500_000, 5_000_000)),
        fragment_max=dice.choice((600, 2000, 8000)),
        socket_bytes=dice.choice((1500, 4000, 16_000)),
        high_water_bytes=dice.choice((1000, 4000, 16_000)),
        sync_ns_max=dice.choice((100_000, 5 * MS, 50 * MS)),
        append_entries=dice.choice((1, 2, 1000)),
        segment_entries=dice.choice((8, 16, 64)),
        journal_file_bytes=dice.choice((4 * KIB, 32 * KIB)),
        store_file_bytes=dice.choice((8 * KIB, 64 * KIB)),
    )
