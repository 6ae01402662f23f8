"""Decides by the options when a micro-batch is due, and how many rows it may have.

    minMessagesPerTrigger   no batch of fewer rows, unless there was none for `maxTriggerDelay`
    maxRowsPerSecond        rows are allowed as time passes; those that a trigger leaves stay
                            good for the next, but for no more than a second, or the time between
                            two triggers if that is longer

Chunks of rows are not cut, so a batch may have more rows than allowed; the next ones then wait, and
the rate holds over time.
"""

from __future__ import annotations

import math
from typing import Final

from sluicemq.spark.options import Options

ROWS_UNLIMITED: Final = 2**62
BURST_S: Final = 1.0
"""Seconds' worth of rows that may be saved up between triggers that follow each other."""


class Pace:
    """Decides when a micro-batch of one query is due, and how many rows it may have. The query
    begins at `now`; all times are monotonic, in seconds."""

    def __init__(self, options: Options, now: float) -> None:
        self._rows_min = options.min_messages_per_trigger
        self._delay_s = options.max_trigger_delay_ms / 1000
        self._rate = options.max_rows_per_second
        self._planned_at = now
        """The time at which the last batch was planned."""
        self._triggered_at = now
        self._asked_at = now
        self._most = self._rate * BURST_S
        """The most rows that may be saved up."""
        self._allowed = self._rate * BURST_S
        """Rows that are allowed now; below 0: the last batch had so many too many."""

    def trigger(self, now: float) -> None:
        """Note that Spark asks for a batch, which determines how many rows may be saved up."""
        self._most = self._rate * max(BURST_S, now - self._triggered_at)
        self._triggered_at = now

    def enough(self, rows: int, now: float) -> bool:
        """Return whether `rows` waiting rows are enough for a batch, or maxTriggerDelay is over."""
        return rows >= self._rows_min or now - self._planned_at >= self._delay_s

    def room(self, now: float) -> int:
        """Return how many rows a batch may have now; 0 for none."""
        if not self._rate:
            return ROWS_UNLIMITED
        earned = self._rate * (now - self._asked_at)
        self._asked_at = now
        self._allowed = min(self._allowed + earned, self._most)
        return max(0, math.floor(self._allowed))

    def planned(self, rows: int, now: float) -> None:
        """Note that a batch of `rows` rows was planned."""
        self._planned_at = now
        if self._rate:
            self._allowed -= rows

    @property
    def chunk_rows(self) -> int:
        """The most rows that one chunk should have."""
        return self._rate or ROWS_UNLIMITED
