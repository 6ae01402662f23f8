"""When a master makes the next entry of its log: an entry costs each member a sync and two frames,
whatever is in it, and what was consumed before its entry is made need not be in one.

Messages that consumers hold already wait for their acknowledgements, for at most HOLD_MS. If little
is acknowledged by then, because consumers take long, the next entries do not wait, and waiting is
tried ever more seldom. Removals, for which nobody waits, wait for as long, or for the next entry.
"""

from __future__ import annotations

from typing import Any, Final

from sluicemq.queues.mirrored.pending_writes import PendingWrites

HOLD_MS: Final = 20
"""A publisher hears so much later of messages that are not acknowledged in time. After a crash of
the master up to so much of what was acknowledged comes again."""
ENOUGH_BYTES: Final = 256 << 10
"""With so many bytes an entry does not wait: its fixed costs count for little."""
USEFUL_PERCENT: Final = 25
"""The wait was useful if so much of the messages since the last entry is in none."""
PASSED_MAX: Final = 16
"""After a useless wait at most so many entries in a row do not wait."""


class EntryTiming:
    """How long the next entries of one master wait."""

    def __init__(self) -> None:
        self.passes = 0
        """So many more entries do not wait."""
        self.passes_next = 1
        """And so many after the next useless wait."""
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
        since_ms = removed_ms
        if pending.writes:
            if self.passes or not is_consumed or pending.size_bytes >= ENOUGH_BYTES:
                return 0
            self.has_waited = True
            oldest_ms = pending.oldest_ms
            since_ms = oldest_ms if removed_ms is None else min(oldest_ms, removed_ms)
        return 0 if since_ms is None else max(0, since_ms + HOLD_MS - now_ms)

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
        if gone * 100 >= (gone + left) * USEFUL_PERCENT:
            self.passes_next = 1
        else:
            self.passes = self.passes_next
            self.passes_next = min(2 * self.passes_next, PASSED_MAX)
