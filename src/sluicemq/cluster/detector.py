"""When another node is suspected: by how long nothing was heard of it, or it has not heard of this
node, and by what is usual.

As Ra's detector does it, heartbeats come every so often, and a time without any counts against
those that there were between the last ones: a slow network suspects nobody for being slow. Each
heartbeat says which one of the other side was heard last; who goes on to talk and says so of none
is deaf, and is of no more use than one that is silent.
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
    """How long something has taken the last times, in nanoseconds."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=LINK_GAPS)

    def note(self, took_ns: int) -> None:
        """Remember how long it took this time."""
        self._last.append(took_ns)

    def are_exceeded(self, takes_ns: int) -> bool:
        """Tell whether it takes longer now than nearly all of its usual times allow."""
        if takes_ns < LINK_SUSPECT_MIN_NS:
            return False
        shorter = sum(each * LINK_SUSPECT_FACTOR <= takes_ns for each in self._last)
        return shorter >= LINK_SUSPECT_RATIO * len(self._last)


class FailureDetector:
    """What is known of one other node's heartbeats, since `now_ns`."""

    def __init__(self, now_ns: int) -> None:
        self.heard_ns = now_ns
        """When something was heard of it last."""
        self._beat_ns = now_ns
        self._gaps = UsualTimes()
        """Between two heartbeats in a row."""
        self._answered_ns = now_ns
        """When the last heartbeat was sent that it has heard."""
        self._answers = UsualTimes()
        """From a heartbeat to the answer."""

    def heard(self, now_ns: int) -> None:
        """Something has come from it."""
        self.heard_ns = now_ns

    def beat(self, now_ns: int) -> None:
        """A heartbeat has come from it."""
        self._gaps.note(now_ns - self._beat_ns)
        self._beat_ns = self.heard_ns = now_ns

    def answered(self, sent_ns: int, now_ns: int) -> None:
        """It has heard the heartbeat that was sent at `sent_ns`, and none after that."""
        if sent_ns > self._answered_ns:
            self._answered_ns = sent_ns
            self._answers.note(now_ns - sent_ns)

    def forgive(self, pause_ns: int) -> None:
        """This node itself did not move for so long: that says nothing about others."""
        self.heard_ns += pause_ns
        self._beat_ns += pause_ns
        self._answered_ns += pause_ns

    def silent_ns(self, now_ns: int) -> int:
        """Return for how long nothing was heard of it."""
        return now_ns - self.heard_ns

    def is_deaf(self, now_ns: int) -> bool:
        """Tell whether it has heard nothing for longer than is usual, as far as it says so."""
        return self._answers.are_exceeded(now_ns - self._answered_ns)

    def is_suspect(self, now_ns: int) -> bool:
        """Tell whether it is silent, or deaf, for longer than is usual."""
        return self._gaps.are_exceeded(self.silent_ns(now_ns)) or self.is_deaf(now_ns)
