"""Heartbeats of one connection: when to send one, and when its client counts as gone.

The reader looks at each half of the interval that the handshake has agreed on. A client is given up
after two intervals in which it gave no sign of life. What the system has taken of what is sent to
it is such a sign while the connection is not read: then nothing else can be.
"""

from __future__ import annotations

from typing import Final

SILENT_LOOKS_MAX: Final = 4
"""Looks without a sign of life after which a client is given up: two intervals."""


class Heartbeats:
    """What was received of one client and what the system took of what is sent to it, in bytes, up
    to the last look."""

    __slots__ = ("received_bytes", "silent_looks", "taken_bytes")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.taken_bytes = 0
        """Bytes of what was written that the system has taken."""
        self.silent_looks = 0
        """How many looks in a row have found no sign of life."""

    def look(self, received_bytes: int, taken_bytes: int, is_read: bool, excused: bool) -> bool:
        """Count another half interval, up to which so many bytes in all were received, and taken by
        the system. `is_read`: the connection is being read; `excused`: the broker itself keeps the
        client waiting, so that its silence says nothing. Returns True when nothing was taken since
        the last look: a heartbeat is due."""
        is_due = taken_bytes == self.taken_bytes
        alive = received_bytes != self.received_bytes or not (is_read or is_due)
        self.silent_looks = 0 if alive or excused else self.silent_looks + 1
        self.received_bytes, self.taken_bytes = received_bytes, taken_bytes
        return is_due

    @property
    def is_over(self) -> bool:
        """True when the client was silent for SILENT_LOOKS_MAX looks in a row, so that it counts as
        gone."""
        return self.silent_looks >= SILENT_LOOKS_MAX
