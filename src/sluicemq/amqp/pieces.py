"""Octets that came in several reads: until they are joined, and until they are parsed."""

from __future__ import annotations

from typing import Final

PIECE_BYTES: Final = 4096
"""From so many octets on a piece is kept by itself: what an object takes beside them is little
then."""


class Pieces:
    """A sequence of octets in pieces. A large piece that is all of a read stays where it is, for a
    part of one would keep the rest of that read in memory, too. Small ones that follow each other
    are joined, so that many tiny ones cost no more memory than one large one."""

    __slots__ = ("parts", "size")

    def __init__(self) -> None:
        self.parts: list[bytes | bytearray] = []
        self.size = 0
        """The number of octets."""

    def add(self, read: bytes, start: int, end: int) -> None:
        """Append the octets of `read` from `start` to before `end`."""
        size = end - start
        self.size += size
        parts = self.parts
        last = parts[-1] if parts else None
        if size >= PIECE_BYTES:
            parts.append(read[start:end])  # which is the read itself if it is all of it
        elif isinstance(last, bytearray):
            last += memoryview(read)[start:end]
        else:
            parts.append(bytearray(memoryview(read)[start:end]))

    @property
    def held_bytes(self) -> int:
        """Return how many bytes of memory the octets take."""
        return self.size

    def joined(self, before: bytes = b"") -> bytes:
        """Return `before` and all octets behind it in one."""
        return b"".join([before, *self.parts])

    def clear(self) -> None:
        """Forget all octets that were added."""
        self.parts.clear()
        self.size = 0


class Reads:
    """What was read from a socket and waits to be parsed, in order. It is two lists, for an empty
    deque takes 0.7 kB of an idle connection."""

    __slots__ = ("_came", "_due", "size")

    def __init__(self) -> None:
        self._due: list[bytes] = []
        """The first reads; the last of these is the next."""
        self._came: list[bytes] = []
        """Those behind them, in order."""
        self.size = 0
        """The number of octets."""

    def add(self, read: bytes) -> None:
        """Put a read, which is not empty, behind the others."""
        self._came.append(read)
        self.size += len(read)

    def next(self) -> bytes:
        """Return the first read; there must be one."""
        if not self._due:
            self._due, self._came = self._came, self._due
            self._due.reverse()
        return self._due[-1]

    def take(self) -> bytes:
        """Remove the first read, and return it; there must be one."""
        read = self.next()
        self._due.pop()
        self.size -= len(read)
        return read

    def waiting(self) -> list[bytes]:
        """Return the reads, in order."""
        return [*reversed(self._due), *self._came]

    def clear(self) -> None:
        """Forget all reads that wait."""
        self._due.clear()
        self._came.clear()
        self.size = 0
