"""A mirror: the state that each member of a mirrored queue builds from the log, the master's, too.

It has no bodies, no consumers and no window. A master that begins, after an election or a fault,
makes its ClassicQueue from it; a new member is sent its snapshot and the entries that this names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from sluicemq.queues.mirrored.commands import (
    BeginMastership,
    DropMirror,
    HoldMirror,
    JoinMirror,
    MarkDelivered,
    MirrorCommand,
    MirrorEffect,
    ReleaseMirror,
    RemoveMessages,
    WriteMessages,
)
from sluicemq.queues.mirrored.mirror_state import MirrorState
from sluicemq.queues.mirrored.mirrored_rows import MirroredRow, MirroredRun
from sluicemq.queues.mirrored.snapshot import pieces_of, restore_from
from sluicemq.storage.entries import Run
from sluicemq.storage.positions import first_of_priority, priority_at


class Mirror(MirrorState):
    """The state of one mirrored queue, in one member."""

    def __init__(self) -> None:
        super().__init__()
        self.place = 0
        """The place of the next message in the entry that is being applied."""

    def entered(self, index: int, stamp_ms: int) -> None:
        super().entered(index, stamp_ms)
        self.place = 0

    def apply(self, command: MirrorCommand, effects: list[MirrorEffect]) -> None:
        if isinstance(command, WriteMessages):
            self.write(command.run)
        elif isinstance(command, RemoveMessages):
            for positions in command.positions:
                self.row_of(positions.start).remove(positions)
            if self.in_sync.held:
                self.in_sync.look_at_held(self.firsts(), effects)
        elif isinstance(command, MarkDelivered):
            row = self.row_of(command.position)
            row.delivered = max(row.delivered, command.position)
        elif isinstance(command, HoldMirror):
            nexts = {priority: row.next for priority, row in sorted(self.rows.items())}
            self.in_sync.hold(command, nexts)
            self.in_sync.look_at_held(self.firsts(), effects)
        elif isinstance(command, BeginMastership):
            self.in_sync.begin(command, effects)
        elif isinstance(command, JoinMirror):
            self.in_sync.join(command, effects)
        elif isinstance(command, DropMirror):
            self.in_sync.drop(command, effects)
        else:
            assert isinstance(command, ReleaseMirror)
            self.in_sync.release(command, effects)

    def row_of(self, position: int) -> MirroredRow:
        """Return the row of a position in the log; it begins with that position if
        there was none.
        """
        priority = priority_at(position)
        row = self.rows.get(priority)
        if row is None:
            row = self.rows[priority] = MirroredRow(first_of_priority(priority))
        return row

    def write(self, run: Run) -> None:
        """Note messages in the entry that is being applied."""
        sizes = None if run.same_size else run.sizes
        mirrored = MirroredRun(
            run.first,
            run.count,
            self.index,
            self.place,
            run.traits,
            run.sizes[0] if run.same_size else 0,
            sizes,
            run.expiry,
        )
        self.row_of(run.first).add(mirrored)
        self.place += run.count

    def live(self) -> Iterator[tuple[int, Sequence[range]]]:
        for index, runs in groupby(self.runs(), key=lambda run: run.index):
            yield index, [places for run in runs for places in run.places]

    def live_bytes(self) -> Iterator[tuple[int, Sequence[range], int]]:
        """Give the same as `live`, each item with the bytes of its messages' contents."""
        for index, group in groupby(self.runs(), key=lambda run: run.index):
            runs = [*group]
            places = [places for run in runs for places in run.places]
            yield index, places, sum(run.size_bytes for run in runs)

    def snapshot(self) -> Iterator[bytes]:
        return pieces_of(self)

    def restore(self, pieces: Iterable[bytes]) -> None:
        restore_from(self, pieces)
