"""Positions: where a message is in its queue, for ever. They begin at 0 and rise.

A queue with priorities has a row of positions for each: the highest bits say which. So a position
names one message, and a segment of the index has messages of one priority only; journal, index and
checkpoints need not know more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

PRIORITY_SHIFT: Final = 48
"""A priority has room for 2^48 messages: at a million a second for nine years."""


class Mark(NamedTuple):
    """How far a row has come: positions below `next` have been given, those below `delivered` were
    delivered at least once. `size` is the bytes of its messages, as far as that is known."""

    next: int
    delivered: int
    size: int

    @property
    def priority(self) -> int:
        """The priority whose row of positions this is."""
        return priority_at(self.next)


def first_of_priority(priority: int) -> int:
    """Return the lowest position of the row of a priority."""
    return priority << PRIORITY_SHIFT


def priority_at(position: int) -> int:
    """Return the priority in whose row a position is; 0 in a queue without priorities."""
    return position >> PRIORITY_SHIFT
