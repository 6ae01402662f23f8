"""The owner of a member whose state a leader's snapshot may replace.

It is not compiled: a compiled class has one compiled base, and owners already have another.
"""

from __future__ import annotations


class SnapshotTaker:
    """The owner of a member whose state a leader's snapshot may replace."""

    def overtaken(self) -> None:
        """Make applied effects real, because a snapshot is about to replace the state."""
        raise NotImplementedError

    def put_in(self) -> None:
        """Look up the outcome of requests in the new state: it is the only trace of the entries
        that the snapshot replaces."""
        raise NotImplementedError
