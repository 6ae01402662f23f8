"""The parameters of one seed's run, all chosen once by the seed.

Swarm testing: a run does not do a little of everything, but much of some things. One has a slow
disk and tiny credits, the next a thousand reconnects, a third one publisher and a stalled reader.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from random import Random
from typing import Final

from sluicemq.config import (
    KIB,
    MIB,
    Config,
    FlowConfig,
    MemoryConfig,
    NetConfig,
    RaftConfig,
    StorageConfig,
)
from sluicemq.sim.features import NO_FEATURES, Features, features_of
from sluicemq.sim.plans import QueuePlan
from sluicemq.sim.records import LOSSY, VOLATILE, WORK
from sluicemq.sim.units import MS

CREDITS: Final = ((1, 1), (2, 1), (4, 2), (4, 4), (8, 3), (16, 4), (50, 20), (200, 50))
STORE_CREDITS: Final = ((1, 1), (3, 2), (8, 4), (8, 8), (20, 5), (100, 30), (2000, 500))
SWARM_PROFILES: Final = ("adaptive", "rabbitmq-3.5", "rabbitmq-3.8")
"""The other profiles differ from the last one only in settings of quorum queues, and in settings
that the swarm chooses itself."""
ROOMY: Final = 64 * MIB
"""A memory limit that the messages of a run never reach. With a lower one a connection that both
publishes and consumes can lock itself up, as in RabbitMQ: while blocked it does not acknowledge the
messages that fill memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoragePlan:
    """How much stays in RAM, and how small files are, in one run."""

    paging_ratio: float
    monitor_interval_ms: int
    embed_below: int
    segment_entries: int
    journal_file_bytes: int
    store_file_bytes: int
    io_batch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnPlan:
    """How much an actor may handle in a turn, in messages and in units of work, and the units of a
    round for a connection's actors."""

    messages: int
    work: int
    share_work: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Swarm:
    """The parameters of one run. Times are virtual nanoseconds; `turns_max` is how many turns the
    node has before the sockets get theirs."""

    seed: int
    profile: str
    credit: tuple[int, int] | None
    store_credit: tuple[int, int] | None
    budget_messages: int
    budget_bytes: int
    window_floor: int
    window_ceiling: int
    memory_limit_bytes: int
    check_interval_ms: int
    heartbeat_s: int
    delivery_window: tuple[int, int]
    store_group_bytes: int
    writer_backlog_bytes: int
    queued_methods_max: int
    queues: tuple[QueuePlan, ...]
    publishers: int
    channels_each: int
    messages_each: int
    body_bytes_max: int
    persistent_percent: int
    confirm_percent: int
    consumers: int
    mixed: int
    pollers: int
    operators: int
    listeners: int
    requeue_percent: int
    prefetch_max: int
    stall_percent: int
    break_percent: int
    crash_percent: int
    disk_full_percent: int
    disk_failure_percent: int
    mistake_percent: int = 0
    fault_interval_ns: int
    turns: TurnPlan
    turns_max: int
    turn_ns_max: int
    delay_ns_max: int
    fragment_max: int
    socket_bytes: int
    high_water_bytes: int
    low_water_bytes: int
    sync_ns_max: int
    storage: StoragePlan
    features: Features = NO_FEATURES

    @property
    def breaks(self) -> bool:
        """Tell whether connections can break in this run."""
        return bool(self.break_percent or self.crash_percent or self.disk_failure_percent)

    def config(self) -> Config:
        """Return the node's configuration for this run."""
        return Config(
            net=NetConfig(
                frame_max=4096,
                channel_max=7,
                max_message_size=64 * KIB,
                heartbeat=self.heartbeat_s,
            ),
            flow=FlowConfig(
                profile=self.profile,
                credit_flow_default_credit=self.credit,
                msg_store_credit_disc_bound=self.store_credit,
                chain_budget_messages=self.budget_messages,
                chain_budget_bytes=self.budget_bytes,
                window_floor=self.window_floor,
                window_ceiling=self.window_ceiling,
            ),
            memory=MemoryConfig(
                vm_memory_high_watermark_absolute=self.memory_limit_bytes,
                check_interval_ms=self.check_interval_ms,
                vm_memory_high_watermark_paging_ratio=self.storage.paging_ratio,
                memory_monitor_interval=self.storage.monitor_interval_ms,
            ),
            storage=StorageConfig(
                queue_index_embed_msgs_below=self.storage.embed_below,
                queue_index_segment_entry_count=self.storage.segment_entries,
                journal_file_size_limit=self.storage.journal_file_bytes,
                msg_store_file_size_limit=self.storage.store_file_bytes,
                msg_store_io_batch_size=self.storage.io_batch,
                reserve_bytes=0,
            ),
            raft=self._raft_config(),
        )

    def _raft_config(self) -> RaftConfig:
        bounds = self.features.quorum
        if bounds is None:
            return RaftConfig()
        return RaftConfig(
            segment_max_entries=bounds.segment_entries,
            wal_max_batch_size=bounds.batch_size,
            quorum_commands_soft_limit=bounds.commands_limit,
        )

    def lines(self) -> list[str]:
        """Return the parameters as text, one a line."""
        shown = []
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "queues":
                value = ", ".join(
                    f"{q.name} {q.promise}{' durable' if q.durable else ''} {q.arguments or ''}"
                    for q in value
                )
            if isinstance(value, StoragePlan | Features):
                value = ", ".join(f"{f.name} {getattr(value, f.name)}" for f in fields(value))
            shown.append(f"{each.name:22} {value}")
        return shown


def swarm_of(seed: int, profile: str | None = None, plain: bool = False) -> Swarm:
    """Return the parameters of a seed. `profile` replaces the seed's choice, and changes nothing
    else; with `plain` there are no features."""
    swarm = _thrown(seed, profile)
    features = NO_FEATURES if plain else features_of(seed)
    if swarm.breaks:
        percents = (0, 0, 0, 10, 40) if features == NO_FEATURES else (0, 10, 40)
        mistakes = Random(f"mistakes {seed}").choice(percents)
        swarm = replace(swarm, mistake_percent=mistakes)
    return replace(swarm, features=features, queues=features.queues(seed, swarm.queues))


def _thrown(seed: int, profile: str | None) -> Swarm:
    """Return all parameters except mistakes and features, which came later."""
    dice = Random(f"swarm {seed}")
    chosen = dice.choice(SWARM_PROFILES)
    profile = profile or chosen
    credit: tuple[int, int] | None = dice.choice(CREDITS)
    if dice.randrange(3) and profile == "adaptive":
        credit = None  # the budget sets the windows
    floor = dice.choice((1, 1, 2, 4))
    ceiling = floor + dice.choice((0, 1, 3, 8, 40))
    window = dice.choice((1, 4, 16, 64, 1024))
    fragment_max = dice.choice((60, 200, 600, 2000, 8000))
    body_bytes_max = dice.choice((40, 120, 300, 1000, 5000, 50_000))
    socket_bytes = dice.choice((400, 1500, 4000, 16_000))
    # Bytes on the wire and messages both bound the node's work.
    wire_bytes = min(800_000, fragment_max * 300)
    publishers = dice.randrange(1, 6)
    channels_each = dice.choice((1, 1, 2, 3))
    streams = publishers * channels_each
    messages = min(1000, wire_bytes // (150 + body_bytes_max // 3))
    memory_limit = dice.choice((16 * KIB, 64 * KIB, 256 * KIB, ROOMY))
    mixed = dice.choice((0, 1, 2))
    high_water = dice.choice((100, 1000, 4000, 16_000))
    return Swarm(
        seed=seed,
        profile=profile,
        credit=credit,
        store_credit=dice.choice(STORE_CREDITS),
        budget_messages=dice.choice((4, 16, 40, 100, 1000)),
        budget_bytes=dice.choice((4 * KIB, 16 * KIB, 64 * KIB, MIB)),
        window_floor=floor,
        window_ceiling=ceiling,
        memory_limit_bytes=memory_limit,
        check_interval_ms=dice.choice((10, 50, 200)),
        heartbeat_s=dice.choice((0, 0, 1)),
        delivery_window=(window, max(1, window // 4)),
        store_group_bytes=dice.choice((1000, 10_000, 100_000)),
        writer_backlog_bytes=dice.choice((500, 5000, 100_000)),
        queued_methods_max=dice.choice((1, 4, 100)),
        queues=_with_limits(_with_arguments(_queues(dice), seed), seed),
        publishers=publishers,
        channels_each=channels_each,
        messages_each=max(10, messages // streams),
        body_bytes_max=body_bytes_max,
        persistent_percent=dice.choice((0, 50, 100, 100)),
        confirm_percent=dice.choice((0, 60, 100, 100)),
        consumers=dice.randrange(1, 5),
        mixed=mixed if memory_limit == ROOMY else 0,
        pollers=dice.choice((0, 0, 1, 2)),
        operators=dice.choice((0, 1, 1, 2)),
        listeners=dice.choice((0, 0, 1, 2)),
        requeue_percent=dice.choice((0, 0, 5, 30)),
        prefetch_max=dice.choice((0, 1, 3, 10, 100)),
        stall_percent=dice.choice((0, 10, 40)),
        break_percent=dice.choice((0, 0, 10, 40)),
        crash_percent=dice.choice((0, 0, 2, 10)),
        disk_full_percent=dice.choice((0, 0, 5)),
        disk_failure_percent=dice.choice((0, 0, 0, 5)),
        fault_interval_ns=dice.choice((20, 100, 400)) * MS,
        turns=_turns(dice),
        turns_max=dice.choice((1, 2, 4, 16)),
        turn_ns_max=dice.choice((10_000, 50_000, 300_000, 1_500_000)),
        delay_ns_max=dice.choice((50_000, 500_000, 5_000_000)),
        fragment_max=fragment_max,
        socket_bytes=socket_bytes,
        high_water_bytes=high_water,
        low_water_bytes=high_water // 4,
        sync_ns_max=dice.choice((100_000, 5 * MS, 50 * MS)),
        storage=_storage(dice),
    )


def _turns(dice: Random) -> TurnPlan:
    return TurnPlan(
        messages=dice.choice((1, 3, 64)),
        work=dice.choice((1, 100, 1000)),
        share_work=dice.choice((1, 1, 200, 2000)),
    )


def _storage(dice: Random) -> StoragePlan:
    return StoragePlan(
        paging_ratio=dice.choice((0.0, 0.05, 0.5, 1.0)),
        monitor_interval_ms=dice.choice((20, 100, 500)),
        embed_below=dice.choice((0, 200, 1000, 100_000)),
        segment_entries=dice.choice((8, 16, 64)),
        journal_file_bytes=dice.choice((KIB, 4 * KIB, 32 * KIB)),
        store_file_bytes=dice.choice((KIB, 8 * KIB, 64 * KIB)),
        io_batch=dice.choice((1, 2, 20)),
    )


def _with_limits(plans: tuple[QueuePlan, ...], seed: int) -> tuple[QueuePlan, ...]:
    """Give half of those queues that may lose messages a time to live or a short length."""
    dice = Random(f"limits {seed}")
    return tuple(
        replace(
            plan,
            message_ttl_ms=dice.choice((None, 0, 1, 5)),
            max_length=dice.choice((None, None, 0, 20)),
            delivery_limit=None,
        )
        if dice.randrange(2) and plan.promise == VOLATILE
        else plan
        for plan in plans
    )


def _with_arguments(plans: tuple[QueuePlan, ...], seed: int) -> tuple[QueuePlan, ...]:
    """Give every other queue some arguments. Messages are only lost where the queue allows it."""
    dice = Random(f"arguments {seed}")
    return tuple(
        replace(
            plan,
            max_priority=dice.choice((0, 0, 1, 3, 9)),
            single_active=dice.randrange(4) == 0,
            lazy=dice.randrange(6) == 0,
            delivery_limit=dice.choice((0, 1)) if plan.promise == VOLATILE else None,
        )
        if dice.randrange(2)
        else plan
        for plan in plans
    )


def _queues(dice: Random) -> tuple[QueuePlan, ...]:
    plans = [
        QueuePlan(name=f"work{n}", durable=dice.randrange(3) > 0, promise=WORK)
        for n in range(dice.randrange(1, 4))
    ]
    others = [promise for promise in (LOSSY, VOLATILE) if dice.randrange(2)]
    plans += [
        QueuePlan(name=promise, durable=dice.randrange(2) > 0, promise=promise)
        for promise in others
    ]
    return tuple(plans)
