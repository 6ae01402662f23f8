"""Bounds so small that runs reach all of them, chosen once by the seed.

With the usual ones a queue of a run has one segment, a snapshot that fits into the journal and is
sent in one piece, all bodies in memory, and no member that is too far behind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.config import KIB, MIB, FlowConfig, RaftConfig
from sluicemq.flow.credit import LinkSpec
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds

if TYPE_CHECKING:
    from sluicemq.chain.queue.mirrored.member import MirrorMember
    from sluicemq.config import Config
    from sluicemq.node import Node
    from sluicemq.raft.settings import RaftSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainBounds:
    """The bounds of turns and of the chain in one run, as Swarm has them."""

    flow: FlowConfig | None
    """None: that of the run's plan."""
    turn_messages: int
    turn_work: int
    share_work: int
    delivery_window: int
    queued_methods_max: int
    writer_backlog_bytes: int
    store_group_bytes: int
    quantum_bytes: int

    def of_node(self, node: Node) -> None:
        """Give a node that has just begun its bounds."""
        scheduler, broker = node.scheduler, node.broker
        scheduler.turn_max = self.turn_messages
        scheduler.turn_work = self.turn_work
        scheduler.share_work = self.share_work
        broker.delivery_window = LinkSpec(self.delivery_window, max(1, self.delivery_window // 4))
        broker.connection_window_max = 2 * self.delivery_window
        broker.queued_methods_max = self.queued_methods_max
        broker.writer_backlog_bytes = self.writer_backlog_bytes
        broker.store.group_bytes_max = self.store_group_bytes
        broker.store.quantum_bytes = self.quantum_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class TightBounds:
    """The bounds of one run. Those without a comment are as in RaftConfig and RaftSettings."""

    segment_max_entries: int
    wal_max_batch_size: int
    quorum_commands_soft_limit: int
    append_bytes: int
    in_flight_entries: int
    in_flight_bytes: int
    uncommitted_entries: int
    uncommitted_bytes: int
    late_entries: int
    promote_lag_entries: int
    piece_bytes: int
    small_content_bytes: int
    """A snapshot's content of more bytes has a file."""
    snapshot_entries: int
    """Entries between two snapshots."""
    backlog_bytes: int
    """What a quorum queue has under way before it is full."""
    bodies_bytes: int
    """Bodies of a quorum queue in RAM that the disk has, too..."""
    read_bytes: int
    """... and those read at once."""
    mirrors: MirrorBounds
    paging_ratio: float
    """The part of the memory limit from which on queues page."""
    monitor_interval_ms: int
    """How often they are told how much to keep in memory."""
    embed_below: int
    """Bytes of a message from which on it is in the message store."""
    live_read_entries: int
    """Entries read at once for a member that lacks them."""
    post_bytes: int
    """Appends that wait for a node that reads slowly."""
    chain: ChainBounds | None
    """None: the usual ones."""

    def configured(self, usual: Config) -> Config:
        """Return the configuration of a node."""
        chain = self.chain
        return replace(
            usual,
            flow=usual.flow if chain is None or chain.flow is None else chain.flow,
            memory=replace(
                usual.memory,
                vm_memory_high_watermark_paging_ratio=self.paging_ratio,
                memory_monitor_interval=self.monitor_interval_ms,
            ),
            storage=replace(usual.storage, queue_index_embed_msgs_below=self.embed_below),
            raft=RaftConfig(
                segment_max_entries=self.segment_max_entries,
                wal_max_batch_size=self.wal_max_batch_size,
                quorum_commands_soft_limit=self.quorum_commands_soft_limit,
            ),
        )

    def settings(self, usual: RaftSettings) -> RaftSettings:
        """Return the settings of a group."""
        return replace(
            usual,
            append_entries=min(usual.append_entries, self.in_flight_entries),
            append_bytes=self.append_bytes,
            in_flight_entries=self.in_flight_entries,
            in_flight_bytes=self.in_flight_bytes,
            uncommitted_entries=self.uncommitted_entries,
            uncommitted_bytes=self.uncommitted_bytes,
            late_entries=self.late_entries,
            promote_lag_entries=self.promote_lag_entries,
            piece_bytes=self.piece_bytes,
        )

    def of_node(self, node: Node) -> None:
        """Give a node that has just begun its bounds."""
        storage = node.broker.store.raft
        storage.small_content_bytes = self.small_content_bytes
        storage.live_read_entries = self.live_read_entries
        assert node.raft_post is not None
        node.raft_post.data_bytes_max = self.post_bytes
        if self.chain is not None:
            self.chain.of_node(node)

    def of_queue(self, queue: SharedShell | MirrorMember) -> None:
        """Give a queue's member on a node its bounds."""
        queue.snapshots.entries_max = self.snapshot_entries
        if isinstance(queue, SharedShell):
            queue.backlog_bytes_max = self.backlog_bytes
            queue.deliveries_due.bodies_bytes_max = self.bodies_bytes
            queue.deliveries_due.read_bytes_max = self.read_bytes
            queue.shared_log.mail.piece_bytes = self.piece_bytes
        else:
            queue.bounds = self.mirrors


def tight_bounds_of(seed: int) -> TightBounds:
    """Return the bounds of a seed."""
    dice = Random(f"tight {seed}")
    gate_bytes = dice.choice((900, 5000, 50_000))
    memory_dice = Random(f"storage of {seed}")
    pages = memory_dice.randrange(2) == 0
    post_dice = Random(f"road of {seed}")
    reads_slowly = post_dice.randrange(3) == 0
    return TightBounds(
        segment_max_entries=dice.choice((2, 5, 20)),
        wal_max_batch_size=dice.choice((1, 3, 4096)),
        quorum_commands_soft_limit=dice.choice((1, 3, 32)),
        append_bytes=dice.choice((300, 3000, 1 << 20)),
        in_flight_entries=dice.choice((1, 3, 8, 1024)),
        in_flight_bytes=dice.choice((700, 7000, 4 << 20)),
        uncommitted_entries=dice.choice((1, 4, 24, 1024)),
        uncommitted_bytes=dice.choice((1000, 20_000, 4 << 20)),
        late_entries=dice.choice((2, 8, 64)),
        promote_lag_entries=dice.choice((2, 20, 128)),
        piece_bytes=dice.choice((24, 300, 4000, 256 << 10)),
        small_content_bytes=dice.choice((0, 200, 4096)),
        snapshot_entries=dice.choice((3, 8, 30)),
        backlog_bytes=dice.choice((500, 5000, 1 << 20)),
        bodies_bytes=dice.choice((0, 1000, 20_000)),
        read_bytes=dice.choice((400, 4000, 100_000)),
        mirrors=MirrorBounds(
            gate_bytes=gate_bytes,
            close_bytes=gate_bytes // 2,
            behind_bytes=gate_bytes * 3,
            stalled_ms=dice.choice((150, 1000, 10_000)),
            rejoin_ms=dice.choice((10, 200, 1000)),
            rejoin_max_ms=dice.choice((1000, 5000)),
            mark_ahead=dice.choice((6, 100, 4096)),
        ),
        paging_ratio=memory_dice.choice((0.0, 0.0001)) if pages else 0.5,
        monitor_interval_ms=memory_dice.choice((20, 100)) if pages else 2500,
        embed_below=memory_dice.choice((0, 200, 4096)) if pages else 4096,
        live_read_entries=post_dice.choice((1, 3)) if reads_slowly else 1024,
        post_bytes=post_dice.choice((1, 2000)) if reads_slowly else 8 << 20,
        chain=chain_bounds_of(seed),
    )


def chain_bounds_of(seed: int) -> ChainBounds | None:
    """Return the bounds of the chain, which one seed of two has."""
    dice = Random(f"budget of {seed}")
    if dice.randrange(2):
        return None
    adaptive = FlowConfig(
        profile="adaptive",
        chain_budget_messages=dice.choice((4, 16, 40, 1000)),
        chain_budget_bytes=dice.choice((4 * KIB, 16 * KIB, MIB)),
        window_floor=1,
        window_ceiling=dice.choice((1, 8, 100)),
    )
    return ChainBounds(
        flow=adaptive if dice.randrange(2) else None,
        turn_messages=dice.choice((1, 3, 64)),
        turn_work=dice.choice((1, 100, 1000)),
        share_work=dice.choice((1, 200, 2000)),
        delivery_window=dice.choice((1, 3, 10, 1024)),
        queued_methods_max=dice.choice((1, 4, 100)),
        writer_backlog_bytes=dice.choice((500, 5000, 100_000)),
        store_group_bytes=dice.choice((1000, 10_000, 100_000)),
        quantum_bytes=dice.choice((1, 300, 3000, MIB)),
    )
