"""The ready messages of a queue: chunks in position order, returned ones first.

A chunk is a list of contents with one address. A message's position never changes; a requeued
message goes back to where it was. Everything that was ever delivered lies before everything that
was not, so the returned chunks, sorted, precede the rest.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sluicemq.limits import CHUNK_BYTES, CHUNK_MESSAGES, TRIM_MESSAGES
from sluicemq.model.batch import footprint, size_of

if TYPE_CHECKING:
    from sluicemq.model.batch import Batch


class Chunk:
    """Contents from position `position` on; the first `start` of the list have been taken."""

    __slots__ = (
        "address",
        "contents",
        "copies",
        "even",
        "number",
        "owned",
        "persistent",
        "position",
        "redelivered",
        "start",
    )

    def __init__(
        self,
        address: bytes,
        contents: list[bytes],
        even: bool,
        persistent: bool,
        number: int,
        copies: int,
        position: int,
        redelivered: bool,
    ) -> None:
        self.address = address
        self.contents = contents
        self.even = even
        self.persistent = persistent
        self.number = number
        self.copies = copies
        self.position = position
        self.redelivered = redelivered
        self.start = 0
        self.owned = False

    def left(self) -> int:
        """Messages not taken yet."""
        return len(self.contents) - self.start

    def accepts(self, other: Batch | Chunk) -> bool:
        """May `other` be appended here: same kind, and not too many."""
        return (
            self.address == other.address
            and self.even
            and other.even
            and len(self.contents) < CHUNK_MESSAGES
            and len(self.contents[-1]) == len(other.contents[0])
            and len(self.contents) * len(self.contents[-1]) < CHUNK_BYTES
            and self.persistent == other.persistent
            and self.number == other.number
            and self.copies == other.copies
        )

    def append(self, contents: list[bytes]) -> None:
        """Add at the end; the list is copied once, for it may belong to other queues too."""
        if not self.owned:
            self.contents = self.contents[self.start :]
            self.position += self.start
            self.start = 0
            self.owned = True
        self.contents.extend(contents)


class Ready:
    """FIFO by position."""

    __slots__ = ("chunks", "next_position", "returned", "unsorted")

    def __init__(self) -> None:
        self.chunks: deque[Chunk] = deque()
        self.returned: deque[Chunk] = deque()
        self.unsorted: list[Chunk] = []
        self.next_position = 0

    def publish(self, batch: Batch) -> None:
        """Append a batch at the tail."""
        contents = batch.contents
        chunks = self.chunks
        if chunks and chunks[-1].accepts(batch):
            chunks[-1].append(contents)
        else:
            chunks.append(
                Chunk(
                    batch.address,
                    contents,
                    batch.even,
                    batch.persistent,
                    batch.number,
                    batch.copies,
                    self.next_position,
                    False,
                )
            )
        self.next_position += len(contents)

    def head(self) -> Chunk | None:
        """The chunk with the oldest ready message."""
        if self.unsorted:
            self.sort()
        if self.returned:
            return self.returned[0]
        return self.chunks[0] if self.chunks else None

    def took(self, chunk: Chunk, count: int) -> None:
        """`count` messages of the head chunk have been taken."""
        assert count <= chunk.left()
        chunk.start += count
        if chunk.start == len(chunk.contents):
            (self.returned if self.returned else self.chunks).popleft()
            chunk.contents = []  # lots keep the chunk for its kind, not for its messages
        elif chunk.start >= TRIM_MESSAGES:
            chunk.contents = chunk.contents[chunk.start :]
            chunk.position += chunk.start
            chunk.start = 0

    def give_back(self, chunks: list[Chunk]) -> None:
        """Requeued chunks go to their positions; not before it matters, for thousands may follow
        one by one."""
        self.unsorted += chunks

    def sort(self) -> None:
        """Put in order what has returned; what was dealt to several consumers joins again."""
        returned: deque[Chunk] = deque()
        for chunk in sorted([*self.returned, *self.unsorted], key=position_of):
            last = returned[-1] if returned else chunk
            end = last.position + len(last.contents)
            if end == position_of(chunk) and last.accepts(chunk):
                last.append(chunk.contents[chunk.start :])
            else:
                returned.append(chunk)
        self.returned = returned
        self.unsorted = []

    def clear(self) -> None:
        """Drop everything; positions go on."""
        self.chunks.clear()
        self.returned.clear()
        self.unsorted.clear()

    def measure(self) -> tuple[int, int, int]:
        """(messages, bytes, footprint), counted anew; the machine keeps running totals."""
        messages = size = weight = 0
        for chunk in [*self.returned, *self.unsorted, *self.chunks]:
            rest = chunk.contents[chunk.start :]
            messages += len(rest)
            size += size_of(rest, chunk.even)
            weight += footprint(rest, chunk.even, chunk.copies)
        return messages, size, weight


def position_of(chunk: Chunk) -> int:
    """Sort key: the position of the first message not taken."""
    return chunk.position + chunk.start
