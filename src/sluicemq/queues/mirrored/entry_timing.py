"""When a master makes the next entry of its log: an entry costs each member a sync and two frames,
whatever is in it, and what was consumed before its entry is made need not be in one.

Messages that consumers hold already wait for their acknowledgements, as long as messages come and
go: for IDLE_MS at first, and up to LONGEST_MS where most were acknowledged meanwhile. Where most
were not, because consumers take long, the next entries do not wait, and waiting is tried ever more
seldom. Removals, for which nobody waits, wait for LONGEST_MS, or for the next entry.
"""

from __future__ import annotations

from typing import Any, Final

from sluicemq.queues.mirrored.pending_writes import PendingWrites

IDLE_MS: Final = 50
"""An entry does not wait when no message has come or gone for so long: its publishers may wait for
confirms, and its consumers for more messages. The first waits are no longer either."""
LONGEST_MS: Final = 160
"""A publisher hears at most so much later of messages that are not acknowledged in time. After a
crash of the master up to so much of what was acknowledged comes again."""
ENOUGH_BYTES: Final = 256 << 10
"""With so many bytes an entry does not wait: its fixed costs count for little."""
PASSED_MAX: Final = 32
"""After a useless wait at most so many entries in a row do not wait."""


class EntryTiming:
    """How long the next entries of one master wait."""

    def __init__(self) -> None:
        self.passes = 0
        """So many more entries do not wait."""
        self.passes_next = 1
        """And so many after the next useless wait."""
        self.hold_ms = IDLE_MS
        """The oldest message of an entry waits for so long."""
        self.has_waited = False
        """Messages have waited for their acknowledgements since the last entry."""
        self.overtaken = 0
        """The number of messages overtaken before the last entry."""

    def left_ms(
        self,
        pending: PendingWrites[Any],
        removed_ms: int | None,
        now_ms: int,
        *,
        is_consumed: bool,
    ) -> int:
        """Return for how long the next entry waits yet; 0: it is due. `removed_ms` is the time of
        the first removal in it, None without any; `is_consumed`: all messages of the queue are with
        its consumers."""
        due_ms = now_ms if removed_ms is None else removed_ms + LONGEST_MS
        if pending.writes:
            if self.passes or not is_consumed or pending.size_bytes >= ENOUGH_BYTES:
                return 0
            self.has_waited = True
            hold_ms = min(pending.oldest_ms + self.hold_ms, pending.moved_ms + IDLE_MS)
            due_ms = hold_ms if removed_ms is None else min(hold_ms, due_ms)
        return max(0, due_ms - now_ms)

    def made(self, pending: PendingWrites[Any]) -> None:
        """Note that an entry is made now of these messages, if there are any, and removals."""
        if not pending.writes:
            return
        gone = pending.overtaken - self.overtaken
        self.overtaken = pending.overtaken
        has_waited, self.has_waited = self.has_waited, False
        if not has_waited:
            self.passes = max(0, self.passes - 1)
            return
        left = sum(write.alive.bit_count() for write in pending.writes.values())
        if gone > left:
            self.passes_next = 1
            self.hold_ms = min(2 * self.hold_ms, LONGEST_MS)
        else:
            self.hold_ms = IDLE_MS
            self.passes = self.passes_next
            self.passes_next = min(2 * self.passes_next, PASSED_MAX)
