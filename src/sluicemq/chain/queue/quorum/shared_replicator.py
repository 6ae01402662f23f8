"""The replicator of a quorum queue with members on several nodes: it proposes rows of commands from
all nodes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from sluicemq.chain.queue.group.member_log import pieces_in, wrapped
from sluicemq.chain.queue.group.shared_log import SharedLog
from sluicemq.chain.queue.group.snapshot_taker import SnapshotTaker
from sluicemq.chain.queue.quorum.gathering import Gathering, GatheringDue
from sluicemq.chain.queue.quorum.replicator import CODEC, QUORUM_ENTRIES, FifoReplicator
from sluicemq.kernel.actor import Actor
from sluicemq.limits import RAFT_APPEND_BYTES
from sluicemq.queues.quorum.command_codec import encode_entry
from sluicemq.queues.quorum.commands import FifoCommand
from sluicemq.queues.quorum.effects import DeadLettered
from sluicemq.queues.quorum.entry_content import STAMP, EntryContent
from sluicemq.raft.messages import AppendEntries

if TYPE_CHECKING:
    from collections.abc import Container

    from sluicemq.chain.queue.quorum.entry_bodies import EntryBodies
    from sluicemq.kernel.world import Clock
    from sluicemq.queues.quorum.effects import FifoEffect
    from sluicemq.queues.quorum.fifo import Fifo
    from sluicemq.raft.entry import LogEntry
    from sluicemq.raft.messages import RaftMessage
    from sluicemq.raft.raft import Raft
    from sluicemq.raft.snapshot import LogSnapshot
    from sluicemq.replication.state_owner import StateOwner

ROWS_MAX: Final = 64
"""The most rows in one entry, whose effects are the work of one turn."""


class WaitingRow:
    """A row that is in no entry yet: commands of this node, or encoded ones of another node. Its
    size is approximate."""

    __slots__ = ("commands", "node", "size_bytes")

    def __init__(self, node: int, commands: list[FifoCommand] | bytes, size_bytes: int) -> None:
        self.node = node
        self.commands = commands
        self.size_bytes = size_bytes


class SharedReplicator(FifoReplicator):
    """Proposes rows of commands, many in one entry, beside the commands that the leader itself
    submits."""

    __slots__ = ("_rows", "_rows_bytes", "_shared_log", "_timer_runs", "gathering")

    def __init__(
        self,
        fifo: Fifo,
        effects: list[FifoEffect],
        owner: StateOwner[FifoCommand],
        raft: Raft,
        log: SharedLog,
        bodies: EntryBodies,
        clock: Clock,
    ) -> None:
        super().__init__(fifo, effects, owner, raft, log, bodies, clock)
        self._shared_log = log
        self.former_index = 0  # effects for addresses of earlier lives reach nobody
        self._rows: deque[WaitingRow] = deque()
        self._rows_bytes = 0
        self.gathering = Gathering(clock)
        self._timer_runs = False
        """A GatheringDue is on its way."""

    def add_row(self, node: int, commands: list[FifoCommand] | bytes, size_bytes: int) -> None:
        """Propose a row of that node: commands of this node, or encoded ones of another."""
        self._rows.append(WaitingRow(node, commands, size_bytes))
        self._rows_bytes += size_bytes

    def keep_rows_of(self, nodes: Container[int]) -> None:
        """Drop the rows that are in no entry yet and come from other nodes than these."""
        self._rows = deque(row for row in self._rows if row.node in nodes)
        self._rows_bytes = sum(row.size_bytes for row in self._rows)

    def would_wait(self, size_bytes: int) -> bool:
        """Tell whether this many more bytes would wait: the cost of an entry hardly depends on its
        size, so only one is under way at a time, except large ones."""
        raft = self.raft
        if not raft.takes_proposals:
            return True
        waiting_bytes = self._rows_bytes + size_bytes
        if raft.is_all_committed:
            self._look_whether_agreed(waiting_bytes)
            return self.gathering.waits(waiting_bytes)
        return waiting_bytes < RAFT_APPEND_BYTES

    def _look_whether_agreed(self, waiting_bytes: int) -> None:
        """When all entries are committed, let the next one wait for more rows."""
        if self.gathering.under_way_bytes:
            hold_ms = self.gathering.agreed(waiting_bytes)
            if hold_ms:
                self._wake_after(hold_ms)

    def _wake_after(self, delay_ms: int) -> None:
        if not self._timer_runs:
            self._timer_runs = True
            owner: Any = self._owner()
            assert isinstance(owner, Actor), "a replicator without its owner"
            self._clock.call_after(delay_ms, owner, GatheringDue())

    def gathering_due(self) -> None:
        """Go on waiting if the timer was for an earlier entry; else the turn makes the next one."""
        self._timer_runs = False
        left_ms = self.gathering.left_ms
        if left_ms:
            self._wake_after(left_ms)

    def turn_ended(self) -> None:
        """Make entries of waiting rows, unless more should gather, and do the member's work."""
        if self.raft.is_all_committed:
            self._look_whether_agreed(self._rows_bytes)
        if self.gathered:
            self.propose()
        while self._rows and not self.would_wait(0):
            was_bytes = self._rows_bytes
            index = self.raft.propose(self._next_entry())
            assert index, "a leader that takes proposals has taken one"
            self.gathering.made(was_bytes - self._rows_bytes)
        if self.raft.has_work:
            self.pump()

    def has_due(self) -> bool:
        """Tell whether an entry is due now."""
        return bool(self.gathered) or (bool(self._rows) and not self.would_wait(0))

    def _next_entry(self) -> EntryContent:
        """Make one entry of as many rows as fit."""
        rows: list[WaitingRow] = []
        size = 0
        while self._rows and len(rows) < ROWS_MAX:
            size += self._rows[0].size_bytes
            if rows and size > RAFT_APPEND_BYTES:
                break
            rows.append(self._rows.popleft())
            self._rows_bytes -= rows[-1].size_bytes
        stamp_ms = self._clock.wall_ms()
        parts = [row.commands for row in rows]
        if len(parts) == 1 and not isinstance(parts[0], bytes):
            return CODEC.encode(parts[0], stamp_ms)
        encoded = [each if isinstance(each, bytes) else encode_entry(each) for each in parts]
        return EntryContent(b"".join([STAMP.pack(stamp_ms), *encoded]))

    def drop_proposals(self) -> None:
        super().drop_proposals()
        self._rows.clear()
        self._rows_bytes = 0
        self.gathering.forget()

    def step(self, message: RaftMessage) -> None:
        """Take in another member's message; the consequences follow at the end of the turn."""
        if isinstance(message, AppendEntries):
            message.entries = wrapped(message.entries, QUORUM_ENTRIES)
        self.raft.step(message)

    def committed(self, entry: LogEntry) -> None:
        """Apply an entry. Only the leader that proposed it passes on its dead letters: those that
        must arrive are handed to a new leader again, and all others are passed on at most once."""
        start = len(self.effects)
        super().committed(entry)
        raft = self.raft
        if not raft.is_leader or entry.term != raft.member.term:
            for effect in self.effects[start:]:
                if isinstance(effect, DeadLettered):
                    self.effects.remove(effect)

    def installed(self, snapshot: LogSnapshot) -> None:
        owner: Any = self._owner()
        assert isinstance(owner, SnapshotTaker), "a member among several without its owner"
        owner.overtaken()
        self.machine.restore(pieces_in(self._shared_log.take_incoming()))
        self.bodies.clear(snapshot.index)
        self.drop_proposals()
        owner.put_in()
