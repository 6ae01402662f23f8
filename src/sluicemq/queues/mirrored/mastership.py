"""The duties of a master beside serving clients: it begins, gates publishers for slow mirrors or
drops these, and decides which messages may be confirmed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Generic, TypeVar

from sluicemq.limits import RAFT_APPEND_BYTES
from sluicemq.queues.mirrored.commands import (
    BeginMastership,
    DropMirror,
    HoldMirror,
    JoinMirror,
    MirrorCommand,
    ReleaseMirror,
    RemoveMessages,
)
from sluicemq.queues.mirrored.delivery_marks import DeliveryMarks
from sluicemq.queues.mirrored.entry_timing import EntryTiming
from sluicemq.queues.mirrored.group_standing import GroupStanding, has_all
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds
from sluicemq.queues.mirrored.mirror_lag import MirrorLags
from sluicemq.queues.mirrored.mirror_state import MirrorState
from sluicemq.queues.mirrored.pending_writes import PendingWrites
from sluicemq.storage.entries import Run

R = TypeVar("R")


class Mastership(Generic[R]):
    """One mastership of the member `name`, from the first applied entry of its own term to the end
    of that term. `mirror` is this member's mirror; R is a publisher's receipt, due when its
    messages are safe."""

    def __init__(self, mirror: MirrorState, name: int, bounds: MirrorBounds, now_ms: int) -> None:
        self.mirror = mirror
        self.name = name
        self.marks = DeliveryMarks(mirror, bounds.mark_ahead)
        self.lags = MirrorLags(bounds, now_ms)
        self.gathered: list[MirrorCommand] = [BeginMastership(name)]
        """The commands of the next entry, except writes and removals."""
        self.pending: PendingWrites[R] = PendingWrites()
        """The messages of the next entry."""
        self.removed: list[range] = []
        """Positions whose removal ends the next entry: a message that came and went in one turn
        must not come behind its removal."""
        self.removed_ms: int | None = None
        """When the first of them was removed; None: there is none."""
        self.timing = EntryTiming()
        self.keeps_writes = False
        """The next entry has marks only, because its messages wait for the one after it."""
        self.receipts: list[R] = []
        """The receipts that wait for the entry that was taken last."""
        self.taken = 0
        """The number of messages in that entry."""
        self.waiting: deque[tuple[int, list[R], int]] = deque()
        """Entries that not all mirrors have, with the receipts that wait for them and the number of
        their messages."""
        self.in_entries = 0
        """The number of messages in entries that not all mirrors have."""
        self.changing: dict[int, bool] = {}
        """Members that should join or leave the set by entries that are not committed yet."""

    @property
    def holding_up(self) -> list[int]:
        """Return the mirrors that are so far behind that publishers wait for them."""
        return self.lags.holding_up

    @property
    def under_way(self) -> int:
        """Return how many messages of the queue not all mirrors have."""
        return self.pending.messages + self.in_entries

    def write(self, run: Run, receipt: R | None = None) -> None:
        """Put these messages in the next entry. `receipt` comes back when they are safe."""
        self.pending.add(run, receipt, self.lags.now_ms)

    def remove(self, positions: range) -> list[R]:
        """Put the removal of these positions in the next entry. Messages that are in no entry yet
        will be in none. Returns the receipts that are due because all of their messages are
        gone."""
        positions, receipts = self.pending.remove(positions, self.lags.now_ms)
        if not positions:
            return receipts
        if self.removed_ms is None:
            self.removed_ms = self.lags.now_ms
        last = self.removed[-1] if self.removed else positions
        if last.stop == positions.start and last.step == positions.step == 1:
            positions = range(self.removed.pop().start, positions.stop)
        self.removed.append(positions)
        return receipts

    def hold(self, member: int) -> None:
        """Put the hold of this mirror in the next entry."""
        self.gathered.append(HoldMirror(member))

    def release(self, member: int) -> None:
        """Put the end of this mirror's hold in the next entry."""
        self.gathered.append(ReleaseMirror(member))

    @property
    def has_news(self) -> bool:
        """Tell whether the next entry has anything in it."""
        return bool(self.gathered or self.pending.writes or self.removed or self.marks.due)

    def entry_wait_ms(self, standing: GroupStanding, *, is_consumed: bool) -> int | None:
        """Return for how many milliseconds the next entry waits: 0 when it is due, or there is
        none; None as long as the one before is being committed. `is_consumed`: all messages of the
        queue are with its consumers."""
        wait_ms: int | None = 0
        if self.pending.size_bytes < RAFT_APPEND_BYTES:
            wait_ms = None
            if self.lags.entries.last <= standing.commit:
                wait_ms = self.timing.left_ms(
                    self.pending, self.removed_ms, self.lags.now_ms, is_consumed=is_consumed
                )
        self.keeps_writes = bool(self.marks.due) and not self.gathered and wait_ms != 0
        return 0 if self.gathered or self.marks.due else wait_ms

    def take_entry(self) -> list[MirrorCommand]:
        """Take the commands of the next entry, if any. The caller proposes it now, and then calls
        `proposed`."""
        if self.keeps_writes:
            self.keeps_writes = False
            return [*self.marks.take_due()]
        self.timing.made(self.pending)
        self.taken += self.pending.messages
        self.in_entries += self.pending.messages
        writes, gone, receipts = self.pending.take()
        removed = [*self.removed, *gone]
        commands = [*self.gathered, *writes, *self.marks.take_due()]
        if removed:
            commands.append(RemoveMessages((*removed,)))
        self.gathered = []
        self.removed = []
        self.removed_ms = None
        self.receipts += receipts
        return commands

    def proposed(self, index: int, size_bytes: int, *, is_whole: bool = True) -> None:
        """Note that the commands taken last are the entry at `index`; unless it `is_whole` only a
        part of them, and more entries follow before others are taken."""
        self.lags.entries.add(index, size_bytes)
        if is_whole and (self.receipts or self.taken):
            self.waiting.append((index, self.receipts, self.taken))
            self.receipts = []
            self.taken = 0

    def look(self, standing: GroupStanding, now_ms: int, mirrors: Container[int]) -> None:
        """Check how the mirrors keep up, and propose the changes of the in-sync set that are due.
        Only members in `mirrors` join it."""
        in_sync = self.mirror.in_sync.members
        others = (*(each for each in in_sync if each != self.name),)
        self.lags.look(standing, others, now_ms)
        self.changing = {
            member: is_in for member, is_in in self.changing.items() if (member in in_sync) != is_in
        }
        if self.name not in in_sync:
            return  # its beginning is not committed yet
        for member in others:
            if member not in self.changing:
                reason = self.lags.gives_up(member, standing)
                if not reason and member not in mirrors:
                    reason = "it is to be no mirror"
                if reason:
                    self.changing[member] = False
                    self.lags.dropped(member)
                    self.gathered.append(DropMirror(member, reason))
        for member in standing.durable:
            is_new = member not in in_sync and member not in self.changing
            if is_new and member in mirrors and self.lags.may_join(member, standing):
                self.changing[member] = True
                self.gathered.append(JoinMirror(member))

    def confirmed(self, standing: GroupStanding) -> list[R]:
        """Return the receipts that are due: their entry is committed, and every mirror of the
        committed set has it on its disk."""
        upto = has_all(standing, self.mirror.in_sync.members)
        safe: list[R] = []
        while self.waiting and self.waiting[0][0] <= upto:
            _, receipts, messages = self.waiting.popleft()
            safe += receipts
            self.in_entries -= messages
        return safe
