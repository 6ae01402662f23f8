"""An input read as a row of decisions: the bytes say which of a few words comes next.

Random bytes hardly ever make a well-formed frame with a known queue in it; decisions always do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Choices:
    """The bytes that are left. When there are none, every decision is the first one."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    def __bool__(self) -> bool:
        return self.pos < len(self.data)

    def octet(self) -> int:
        """One byte of the input."""
        if self.pos >= len(self.data):
            return 0
        self.pos += 1
        return self.data[self.pos - 1]

    def below(self, limit: int) -> int:
        """0 … limit - 1, of at most 256."""
        return self.octet() % limit

    def pick(self, items: Sequence[Item]) -> Item:
        """One of these."""
        return items[self.below(len(items))]

    def flag(self) -> bool:
        """Mostly false."""
        return self.octet() % 4 == 1

    def raw(self, size: int) -> bytes:
        """So many bytes of the input, or what is left."""
        found = self.data[self.pos : self.pos + size]
        self.pos += len(found)
        return found
