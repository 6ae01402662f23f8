"""The master of a mirrored queue: a ClassicQueue that tells the mirrors the fate of its messages.

    commands --> ClassicQueue --Write, Remove--> Mastership --entries--> the log of all mirrors
                              --Deliver, Got--> held until the delivery mark is committed
    Mastership --messages on all mirrors--> receipts --> ClassicQueue --Confirm-->

The ClassicQueue is ahead of the log, and a deposed master's is thrown away. It begins with the
messages of the member's own mirror, without bodies, which are read from the log when they are
needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sluicemq.queues.classic.chunk import Chunk
from sluicemq.queues.effects import (
    Confirm,
    DeadLetter,
    Effect,
    Receipt,
    Rejected,
    Remove,
    Write,
)
from sluicemq.queues.mirrored.command_codec import runs_of
from sluicemq.queues.mirrored.mastership import Mastership
from sluicemq.storage.entries import Run
from sluicemq.storage.positions import Mark, priority_at

if TYPE_CHECKING:
    from sluicemq.queues.classic.machine import ClassicQueue
    from sluicemq.queues.mirrored.group_standing import GroupStanding
    from sluicemq.queues.mirrored.mirror import Mirror
    from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds
    from sluicemq.queues.mirrored.mirrored_rows import MirroredRun

LOG_IDS: Final = 1 << 63
"""Added to a position, this is the id of a body in the log; ids in the message store are far
lower."""

UNHELD: Final = (Confirm, Rejected, DeadLetter)
"""Effects that wait for no delivery mark: they are about published messages, or messages to be
published elsewhere."""


class MirroredMaster:
    """Runs the new queue `machine` for the member `name`; `mirror` is built from the log."""

    def __init__(
        self, machine: ClassicQueue, mirror: Mirror, name: int, bounds: MirrorBounds, now_ms: int
    ) -> None:
        assert machine.is_mirrored and not machine.durable, "its durability is that of the log"
        self.machine = machine
        self.mirror = mirror
        self.mastership: Mastership[Receipt] = Mastership(mirror, name, bounds, now_ms)
        self.held: deque[tuple[list[int], list[Effect]]] = deque()
        """Effects that are not real yet, each turn's with the positions up to which messages must
        be marked as delivered before."""
        rows = sorted(mirror.rows.items())
        # behind the mark, too: what comes now was delivered by nobody
        marks = [Mark(max(row.next, row.delivered), row.delivered, 0) for _, row in rows]
        machine.recover(marks or [Mark(0, 0, 0)], expiring=False)
        for _, row in rows:
            for run in row.runs():
                for chunk in chunks_of(run, row.delivered):
                    machine.restore(chunk)

    def take(self, effects: list[Effect]) -> list[Effect]:
        """Take the effects of a turn, and return those that may be made real now, in order, with
        held ones. Of removals only the part that concerns the message store is returned. Messages
        that were removed before they were written are confirmed, but not before their delivery."""
        real: list[Effect] = []
        bound: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Write):
                self.mastership.write(run_of(effect), effect.receipt)
            elif isinstance(effect, Remove):
                receipts = self.mastership.remove(effect.positions)
                if receipts:
                    self.machine.written(receipts, bound)
                if effect.ids is not None and effect.ids.start < LOG_IDS:
                    real.append(Remove(effect.positions, False, effect.indexed, effect.ids))
            elif isinstance(effect, UNHELD):
                real.append(effect)
            else:
                bound.append(effect)
        if bound:
            delivered = [mark.delivered for mark in self.machine.marks()]
            self.held.append((delivered, bound))
            # the next entry has the mark: the rest of a batch is not confirmed before the delivery
            self.mastership.marks.cover(delivered)
        return real + self.let_go()

    def let_go(self) -> list[Effect]:
        """Return the held effects that may be made real now."""
        real: list[Effect] = []
        marks = self.mastership.marks
        while self.held and marks.cover(self.held[0][0]):
            real += self.held.popleft()[1]
        return real

    def confirm(self, standing: GroupStanding, effects: list[Effect]) -> None:
        """Append the effects of messages being on all mirrors now."""
        receipts = self.mastership.confirmed(standing)
        if receipts:
            self.machine.written(receipts, effects)

    # -- bodies

    def entries_of(self, chunk: Chunk) -> list[int]:
        """Return the indexes of the entries that have the bodies of a restored chunk, except for
        messages that the mirror has no more."""
        row = self.mirror.rows[priority_at(chunk.position)]
        runs = [row.run_at(position) for position in chunk.positions()]
        return sorted({run.index for run in runs if run is not None})

    def got_entries(self, chunk: Chunk, entries: list[bytes]) -> list[range]:
        """Give a chunk its bodies from these entries. Returns the positions of messages whose
        bodies were not found: they are gone from the queue."""
        found: dict[int, bytes] = {}
        for data in entries:
            for _, run in runs_of(data):
                assert run.contents is not None
                ids = (LOG_IDS + position for position in run.positions)
                found |= zip(ids, run.contents, strict=True)
        return self.machine.got_bodies(chunk, found)


def run_of(effect: Write) -> Run:
    """Return the messages of a write in the form that the log has."""
    batch = effect.batch
    contents = batch.contents
    return Run(
        0,
        effect.position,
        1,
        len(contents),
        batch.traits,
        batch.same_size,
        contents,
        [*map(len, contents)],
        expiry=effect.expiry,
    )


def chunks_of(run: MirroredRun, delivered: int) -> Iterator[Chunk]:
    """Give the messages of a run that are in the queue, without bodies; those before `delivered`
    are redelivered."""
    for positions in run.positions:
        border = min(max(positions.start, delivered), positions.stop)
        for part in (range(positions.start, border), range(border, positions.stop)):
            if part:
                yield Chunk(
                    run.traits,
                    [],
                    run.sizes is None,
                    part.start,
                    part.start < delivered,
                    LOG_IDS,
                    True,
                    run.sizes_at(part),
                    run.expiry,
                )
