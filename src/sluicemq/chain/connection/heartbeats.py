"""Heartbeats of one connection: when to send one, and when its client counts as gone.

The reader checks at each half of the agreed interval. It gives a client up after two intervals
without a sign of life. While the connection is not read, the only possible sign is that the system
takes bytes that are sent to the client.
"""

from __future__ import annotations

from typing import Final

SILENT_LOOKS_MAX: Final = 4
"""Looks without a sign of life after which a client is given up: two intervals."""


class Heartbeats:
    """The bytes that were received from one client and those sent to it that the system took, up to
    the last check."""

    __slots__ = ("received_bytes", "silent_looks", "taken_bytes")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.taken_bytes = 0
        """Bytes of what was written that the system has taken."""
        self.silent_looks = 0
        """How many looks in a row have found no sign of life."""

    def look(self, received_bytes: int, taken_bytes: int, is_read: bool, excused: bool) -> bool:
        """Count another half interval, up to which that many bytes in all were received, and taken
        by the system. `is_read` tells that the connection is being read; `excused` that the broker
        itself keeps the client waiting, so that its silence proves nothing. Returns True when
        nothing was taken since the last check: a heartbeat is due."""
        is_due = taken_bytes == self.taken_bytes
        alive = received_bytes != self.received_bytes or not (is_read or is_due)
        self.silent_looks = 0 if alive or excused else self.silent_looks + 1
        self.received_bytes, self.taken_bytes = received_bytes, taken_bytes
        return is_due

    @property
    def is_over(self) -> bool:
        """Tell whether the client was silent for SILENT_LOOKS_MAX checks in a row, so that it
        counts as gone."""
        return self.silent_looks >= SILENT_LOOKS_MAX
