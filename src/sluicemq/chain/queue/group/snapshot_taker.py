"""The owner of a member, whose state a leader's snapshot may take the place of.

It is not compiled: a compiled class has one compiled base, and owners have another one.
"""

from __future__ import annotations


class SnapshotTaker:
    """This is the owner of a member, whose state a leader's snapshot may take the place of."""

    def overtaken(self) -> None:
        """Make real what has been applied, for a snapshot is about to take the place of that
        state."""
        raise NotImplementedError

    def put_in(self) -> None:
        """Look in the state for what has become of what was asked: what the entries have led to for
        which the snapshot stands is only to be seen there."""
        raise NotImplementedError
