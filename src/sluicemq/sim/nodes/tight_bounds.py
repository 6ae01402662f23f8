"""Bounds so small that runs reach all of them, chosen once by the seed.

With the usual ones a queue of a run has one segment, a snapshot that fits into the journal and is
sent in one piece, all bodies in memory, and no member that is too far behind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.config import RaftConfig
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds

if TYPE_CHECKING:
    from sluicemq.chain.queue.mirrored.member import MirrorMember
    from sluicemq.config import Config
    from sluicemq.node import Node
    from sluicemq.raft.settings import RaftSettings


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

    def configured(self, usual: Config) -> Config:
        """Return the configuration of a node."""
        return replace(
            usual,
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
        node.broker.store.raft.small_content_bytes = self.small_content_bytes

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
    )
