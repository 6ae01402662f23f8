"""The way of commands into entries of a log, and back.

It is not compiled, because classes in Python implement it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from sluicemq.raft.entry_data import EntryData

K = TypeVar("K")


class EntryCodec(Protocol[K]):
    """Turns commands into the data of an entry, and back."""

    def encode(self, commands: list[K], stamp_ms: int) -> EntryData:
        """Return an entry with these commands and the leader's time `stamp_ms`."""
        raise NotImplementedError

    def decode(self, data: EntryData) -> tuple[int, list[K]]:
        """Return the time and the commands of an entry, once. The data may be what `encode` has
        returned, or bytes."""
        raise NotImplementedError

    def weigh(self, command: K) -> int:
        """Return the approximate bytes of a command in an entry."""
        raise NotImplementedError
