"""Positions: each message has a fixed position in its queue. Positions begin at 0 and rise.

A queue with priorities has a row of positions for each: the highest bits have the priority. So a
position names one message, and a segment of the index has messages of one priority only; journal,
index and checkpoints need no other field.
"""

from __future__ import annotations

from typing import Final, NamedTuple

PRIORITY_SHIFT: Final = 48
"""A priority has room for 2^48 messages: at a million a second for nine years."""


class Mark(NamedTuple):
    """The progress of a row: positions below `next` have been given, those below `delivered` were
    delivered at least once. `size` is the bytes of its messages, as far as known."""

    next: int
    delivered: int
    size: int

    @property
    def priority(self) -> int:
        """Return the priority whose row of positions this is."""
        return priority_at(self.next)


def first_of_priority(priority: int) -> int:
    """Return the lowest position of the row of a priority."""
    return priority << PRIORITY_SHIFT


def priority_at(position: int) -> int:
    """Return the priority of the row that has a position; 0 in a queue without priorities."""
    return position >> PRIORITY_SHIFT
