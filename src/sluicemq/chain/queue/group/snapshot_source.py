"""The state as its snapshots see it, and the deliveries that need its bodies.

It is not compiled: a compiled class could not know the place of a protocol's attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class SnapshotSource(Protocol):
    """The state, as its snapshots see it; see `kernel/machine.py`."""

    index: int

    @property
    def released(self) -> int:
        """Return the index up to which no entry is needed any more, inclusive."""
        raise NotImplementedError

    def snapshot(self) -> Iterator[bytes]:
        raise NotImplementedError

    def live_bytes(self) -> Iterator[tuple[int, Sequence[range], int]]:
        """Give the same as `live`, each item with the bytes of its messages' bodies."""
        raise NotImplementedError

    @property
    def snapshot_rows(self) -> int:
        """Return the number of rows of a snapshot, except a few."""
        raise NotImplementedError

    @property
    def body_bytes(self) -> int:
        """Return the bytes of the bodies in the queue."""
        raise NotImplementedError


class Pins(Protocol):
    """Whatever may need bodies that the state has released."""

    @property
    def has_pinned(self) -> bool:
        """Tell whether such bodies are needed now."""
        raise NotImplementedError
