"""When another node is suspected: by how long nothing was heard of it, and by what is usual.

As Ra's detector does it, heartbeats come every so often, and a time without any counts against
those that there were between the last ones: a slow network suspects nobody for being slow.
"""

from __future__ import annotations

from collections import deque

from sluicemq.limits import (
    LINK_GAPS,
    LINK_SUSPECT_FACTOR,
    LINK_SUSPECT_MIN_NS,
    LINK_SUSPECT_RATIO,
)


class FailureDetector:
    """What is known of one other node's heartbeats, since `now_ns`."""

    def __init__(self, now_ns: int) -> None:
        self.heard_ns = now_ns
        """When something was heard of it last."""
        self._beat_ns = now_ns
        self._gaps: deque[int] = deque(maxlen=LINK_GAPS)
        """The nanoseconds between the last heartbeats, each two in a row."""

    def heard(self, now_ns: int) -> None:
        """Something has come from it."""
        self.heard_ns = now_ns

    def beat(self, now_ns: int) -> None:
        """A heartbeat has come from it."""
        self._gaps.append(now_ns - self._beat_ns)
        self._beat_ns = self.heard_ns = now_ns

    def forgive(self, pause_ns: int) -> None:
        """This node itself did not move for so long: that says nothing about others."""
        self.heard_ns += pause_ns
        self._beat_ns += pause_ns

    def silent_ns(self, now_ns: int) -> int:
        """Return for how long nothing was heard of it."""
        return now_ns - self.heard_ns

    def is_suspect(self, now_ns: int) -> bool:
        """Tell whether it is silent for longer than nearly all of its usual gaps allow."""
        silent_ns = self.silent_ns(now_ns)
        if silent_ns < LINK_SUSPECT_MIN_NS:
            return False
        shorter = sum(gap * LINK_SUSPECT_FACTOR <= silent_ns for gap in self._gaps)
        return shorter >= LINK_SUSPECT_RATIO * len(self._gaps)
