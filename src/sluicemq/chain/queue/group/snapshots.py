"""Snapshots of the state that members have of a queue, so that its log can begin behind them.

A snapshot is taken when the log behind the last one is long enough to pay for it: its cost grows
with the state, so the replaced log has to grow with it. It is made in pieces, over several turns,
of the state as it was at the beginning.

A snapshot is taken sooner where it spares a checkpoint what it would have to write to segments: the
store asks for one before that, and gets one of a short queue.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.group.member_log import joined_pieces
from sluicemq.storage.raft.live_places import LivePlaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.queue.group.member_log import GroupLog
    from sluicemq.chain.queue.group.snapshot_source import Pins, SnapshotSource
    from sluicemq.raft.raft import Raft
    from sluicemq.raft.snapshot import LogSnapshot

BYTES_A_TURN: Final = 32 << 10
"""A turn makes pieces of a snapshot until they have so many bytes, which some hundred rows of the
state have: a short queue's snapshot takes one turn."""
INDEXES_A_TURN: Final = 2000
"""Needed entries that are noted in one turn."""
ROWS_AN_ENTRY: Final = 4
BYTES_A_ROW: Final = 512
"""A snapshot pays if it has at most ROWS_AN_ENTRY rows of the state for each entry of the log that
it replaces, or one row for so many bytes of it."""

SPARED_MIN: Final = 4
"""A snapshot that the store has asked for replaces at least so many entries without messages, as
many as are worth what each snapshot costs."""

IDLE_BYTES: Final = 64 << 10
"""A queue that has fallen idle takes a snapshot if it frees so many bytes."""


class Snapshots:
    """Takes snapshots of one queue, one at a time."""

    def __init__(
        self,
        state: SnapshotSource,
        raft: Raft,
        log: GroupLog,
        entries_max: int,
        bytes_max: int,
    ) -> None:
        self.state = state
        self.raft = raft
        self.log = log
        self.steps: Iterator[None] | None = None
        """The remaining steps of the snapshot that is being made."""
        self.waits = False
        """It is made, but the entries that it replaces are not durable on this member yet."""
        self.is_wanted = False
        """The store has asked for one, because of the entries that a checkpoint will have to
        write."""
        self.taken: LogSnapshot | None = None
        """The snapshot that is on its way to the disk."""
        self.live_bytes = self.in_queue
        """The bytes of bodies in the queue when the last snapshot was taken."""
        self.entries_max = entries_max
        """The next snapshot is due so many entries behind the last one, if it pays, or `bytes_max`
        bytes of log."""
        self.bytes_max = bytes_max
        log.bytes_since = sum(entry.size_bytes for entry in raft.member.log.entries)

    @property
    def is_due(self) -> bool:
        """Tell whether a snapshot would pay now: by the log that a start need not read, or by the
        disk space of messages that have left the queue."""
        raft = self.raft
        # Entries of Raft's own are not in the state: there may be many without a new state.
        entries = min(self.state.index, raft.snapshot_index_max) - raft.member.log.snapshot.index
        if entries <= 0:
            return False
        logged = self.log.bytes_since
        dead = self.dead_bytes
        if (
            entries < self.entries_max
            and logged < self.bytes_max
            and dead < max(self.bytes_max, self.in_queue // 2)
        ):
            return False
        return entries * ROWS_AN_ENTRY >= self.rows or max(logged, dead) >= self.rows * BYTES_A_ROW

    @property
    def spares_writes(self) -> bool:
        """Tell whether a snapshot would cost less than to write the entries that it replaces, and
        every other member can do without these."""
        state, raft = self.state, self.raft
        dead = min(state.released, raft.snapshot_index_max) - raft.member.log.snapshot.index
        return (
            dead >= SPARED_MIN and dead * ROWS_AN_ENTRY >= self.rows and raft.has_sent(state.index)
        )

    @property
    def is_worth_it(self) -> bool:
        """Tell whether a snapshot would pay for a queue that has fallen idle."""
        is_behind = self.state.index > self.raft.member.log.snapshot.index
        return is_behind and self.dead_bytes >= max(IDLE_BYTES, self.rows * BYTES_A_ROW)

    @property
    def dead_bytes(self) -> int:
        """Return the bytes on the disk, of the log since the last snapshot and of what that one has
        named as needed, that are not needed any more."""
        return self.live_bytes + self.log.bytes_since - self.in_queue

    @property
    def rows(self) -> int:
        return self.state.snapshot_rows

    @property
    def in_queue(self) -> int:
        return self.state.body_bytes

    def go_on(self, pins: Pins) -> bool:
        """Make a piece of a snapshot, or begin one if one is due, unless bodies that the state has
        released are still needed. Returns True if there is more to do."""
        if (
            self.is_free
            and (self.is_due or (self.is_wanted and self.spares_writes))
            and not pins.has_pinned
        ):
            self.begin()
        if self.steps is not None and next(self.steps, self) is self:
            self.steps = None
        return self.steps is not None and not self.waits

    @property
    def is_free(self) -> bool:
        """Tell whether no snapshot is being made or on its way to the disk."""
        return self.steps is None and self.taken is None

    def begin(self) -> None:
        """Begin a snapshot of the present state."""
        self.is_wanted = False
        self.live_bytes = self.in_queue
        self.log.bytes_since = 0
        self.steps = self._make()

    def _make(self) -> Iterator[None]:
        index = self.state.index
        pieces = self.state.snapshot()
        live = self.state.live_bytes()
        found: list[bytes] = []
        places = LivePlaces()
        some = [*islice(live, INDEXES_A_TURN)]
        size = 0
        for piece in pieces:
            found.append(piece)
            size += len(piece)
            if size >= BYTES_A_TURN:
                size = 0
                yield
        for each in some:
            places.add(*each)
        while len(some) == INDEXES_A_TURN:
            yield
            some = [*islice(live, INDEXES_A_TURN)]
            for each in some:
                places.add(*each)
        while index > self.raft.snapshot_index_max:
            self.waits = True
            yield
        self.waits = False
        content = joined_pieces(found)
        live_upto = places.indexes[-1] if len(places) else 0
        self.taken = self.raft.snapshot_at(index, len(content), live_upto)
        self.log.take_snapshot(self.taken, content, places)

    def was_overtaken(self) -> None:
        """Give up the snapshot in progress, because a leader's snapshot has replaced the state."""
        self.steps = None
        self.waits = False
        self.live_bytes = self.in_queue

    def kept(self) -> None:
        """Begin the log behind the snapshot, which is durable now."""
        taken, self.taken = self.taken, None
        assert taken is not None, "a snapshot that nobody has taken"
        self.raft.compact(taken)
