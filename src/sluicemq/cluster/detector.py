"""The suspicion of another node: when it was silent, or has not heard this node, for longer than is
usual.

As in Ra's detector, heartbeats come at intervals, and a time without any is compared with the last
intervals: a slow network makes no node suspect for being slow. Each heartbeat names the last one
heard from the other side; a node that goes on sending and names no new one is deaf, and of no more
use than a silent one.
"""

from __future__ import annotations

from collections import deque

from sluicemq.limits import (
    LINK_GAPS,
    LINK_SUSPECT_FACTOR,
    LINK_SUSPECT_MIN_NS,
    LINK_SUSPECT_RATIO,
)


class UsualTimes:
    """The durations of something at its last occurrences, in nanoseconds."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=LINK_GAPS)

    def note(self, took_ns: int) -> None:
        """Remember the duration of one occurrence."""
        self._last.append(took_ns)

    def are_exceeded(self, takes_ns: int) -> bool:
        """Tell whether it takes longer now than nearly all of its usual times allow."""
        if takes_ns < LINK_SUSPECT_MIN_NS:
            return False
        shorter = sum(each * LINK_SUSPECT_FACTOR <= takes_ns for each in self._last)
        return shorter >= LINK_SUSPECT_RATIO * len(self._last)


class FailureDetector:
    """The heartbeats of one other node since `now_ns`."""

    def __init__(self, now_ns: int) -> None:
        self.heard_ns = now_ns
        """When something last came from it."""
        self._beat_ns = now_ns
        self._gaps = UsualTimes()
        """Times between successive heartbeats."""
        self._answered_ns = now_ns
        """When the last heartbeat that it has heard was sent."""
        self._answers = UsualTimes()
        """Times from a heartbeat to its answer."""

    def heard(self, now_ns: int) -> None:
        """Note that something has come from it."""
        self.heard_ns = now_ns

    def beat(self, now_ns: int) -> None:
        """Note that a heartbeat has come from it."""
        self._gaps.note(now_ns - self._beat_ns)
        self._beat_ns = self.heard_ns = now_ns

    def answered(self, sent_ns: int, now_ns: int) -> None:
        """Note that the last heartbeat it has heard was sent at `sent_ns`."""
        if sent_ns > self._answered_ns:
            self._answered_ns = sent_ns
            self._answers.note(now_ns - sent_ns)

    def forgive(self, pause_ns: int) -> None:
        """Ignore a time in which this node itself stood still: it says nothing about others."""
        self.heard_ns += pause_ns
        self._beat_ns += pause_ns
        self._answered_ns += pause_ns

    def silent_ns(self, now_ns: int) -> int:
        """Return for how long it has been silent."""
        return now_ns - self.heard_ns

    def is_deaf(self, now_ns: int) -> bool:
        """Tell whether it has heard nothing of this node for longer than is usual, by its
        heartbeats."""
        return self._answers.are_exceeded(now_ns - self._answered_ns)

    def is_suspect(self, now_ns: int) -> bool:
        """Tell whether it is silent, or deaf, for longer than is usual."""
        return self._gaps.are_exceeded(self.silent_ns(now_ns)) or self.is_deaf(now_ns)
