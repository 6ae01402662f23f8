"""What snapshots see of the state that they are taken of, and of who needs its bodies.

It is not compiled: a protocol has no attributes of which a compiled class could know the place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class SnapshotSource(Protocol):
    """The state, as its snapshots see it; see `kernel/machine.py`."""

    index: int

    def snapshot(self) -> Iterator[bytes]:
        raise NotImplementedError

    def live_bytes(self) -> Iterator[tuple[int, Sequence[range], int]]:
        """Give what `live` does, each with the bytes of the bodies of its messages."""
        raise NotImplementedError

    @property
    def snapshot_rows(self) -> int:
        """Return the rows that a snapshot would have, but for some."""
        raise NotImplementedError

    @property
    def body_bytes(self) -> int:
        """Return the bytes of the bodies in the queue."""
        raise NotImplementedError


class Pins(Protocol):
    """Who may need bodies that the state has let go of."""

    @property
    def has_pinned(self) -> bool:
        """Tell whether there are any now."""
        raise NotImplementedError
