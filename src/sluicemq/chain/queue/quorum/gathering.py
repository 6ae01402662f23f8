"""When a leader makes the next entry of its queue: an entry's cost hardly depends on its size.

Publishers that wait for confirms fall into two crowds: one gathers messages while those of the
other are being committed, so that each entry serves only one crowd. Therefore gathered messages
wait after a commit for the publishers that hear of it, and each entry serves both crowds.
Publishers hear of a commit from their own node, which may be another one, and their next messages
travel back, so that this takes longer than the commit did. Where publishers keep a rate of their
own, waiting gains nothing and is tried ever more seldom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.limits import QUORUM_HOLD_MAX_MS, RAFT_APPEND_BYTES

if TYPE_CHECKING:
    from sluicemq.kernel.world import Clock

NS_A_MS: Final = 1_000_000
HOLD_MIN_MS: Final = 1
"""The shortest wait, about as precise as a timer."""
HOLD_FACTOR: Final = 4
"""The wait takes at most so many times as long as the commit did."""
WANTED_PERCENT: Final = 90
"""The wait ends when so much of what was under way has come; some publishers may have nothing more
to send."""
USEFUL_PERCENT: Final = 125
"""The wait was useful if the entry has so much more in the end than it would have had at once."""
PASSED_MAX: Final = 16
"""After a useless wait at most so many entries in a row do not wait."""


class GatheringDue:
    """A timer's message: publishers that heard of a commit have had time to send more."""

    __slots__ = ()


class Gathering:
    """How long one leader waits between two entries."""

    __slots__ = (
        "_clock",
        "began_ns",
        "first_bytes",
        "passes",
        "passes_next",
        "under_way_bytes",
        "until_ns",
        "wanted_bytes",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.under_way_bytes = 0
        """The bytes of the entries that are being committed."""
        self.began_ns = 0
        """When the first of them was made."""
        self.wanted_bytes = 0
        """The next entry waits for so many bytes, or until `until_ns`; 0: it does not wait."""
        self.until_ns = 0
        self.first_bytes = 0
        """The bytes of the next entry if it did not wait; 0: nothing has come."""
        self.passes = 0
        """So many more entries do not wait."""
        self.passes_next = 1
        """And so many after the next useless wait."""

    def forget(self) -> None:
        """Begin anew, because the leader has changed."""
        self.under_way_bytes = self.wanted_bytes = self.passes = 0
        self.passes_next = 1

    def made(self, size_bytes: int) -> None:
        """Note that an entry of about so many bytes was made."""
        if not self.under_way_bytes:
            self.began_ns = self._clock.now_ns()
        self.under_way_bytes += size_bytes
        self.wanted_bytes = 0

    def agreed(self, waiting_bytes: int) -> int:
        """Note that all entries made are committed, while so many bytes wait for the next. Returns
        for how many milliseconds that entry should wait for more; 0: not at all."""
        come, self.under_way_bytes = self.under_way_bytes, 0
        if self.passes:
            self.passes -= 1
            return 0
        now_ns = self._clock.now_ns()
        took_ms = (now_ns - self.began_ns) // NS_A_MS
        hold_ms = min(max(HOLD_FACTOR * took_ms, HOLD_MIN_MS), QUORUM_HOLD_MAX_MS)
        self.until_ns = now_ns + hold_ms * NS_A_MS
        all_bytes = come + waiting_bytes
        self.wanted_bytes = min(all_bytes * WANTED_PERCENT // 100, RAFT_APPEND_BYTES)
        self.first_bytes = waiting_bytes
        return hold_ms

    def waits(self, waiting_bytes: int) -> bool:
        """Tell whether the next entry waits for more bytes than these."""
        if not self.wanted_bytes:
            return False
        self.first_bytes = self.first_bytes or waiting_bytes
        is_enough = waiting_bytes >= self.wanted_bytes
        if not is_enough and self._clock.now_ns() < self.until_ns:
            return True
        if is_enough or waiting_bytes * 100 >= self.first_bytes * USEFUL_PERCENT:
            self.passes_next = 1
        else:
            self.passes = self.passes_next
            self.passes_next = min(2 * self.passes_next, PASSED_MAX)
        self.wanted_bytes = 0
        return False

    @property
    def left_ms(self) -> int:
        """Return how many milliseconds the wait may last yet; 0: there is none."""
        if not self.wanted_bytes:
            return 0
        return max(0, -((self._clock.now_ns() - self.until_ns) // NS_A_MS))
