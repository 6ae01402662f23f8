"""Lots: what is out at consumers and not settled, in the runs in which it was delivered.

A lot keeps positions as a `range` (its step is the number of consumers dealt to) and contents as
a list whose settled places are None. Settling n messages of a lot is one slice assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sluicemq.queues.ready import Chunk

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor
    from sluicemq.queues.consumers import Consumer


class Lot:
    """One delivery (or basic.get, then `consumer` is None) waiting for its acknowledgements."""

    __slots__ = ("channel", "chunk", "consumer", "contents", "left", "positions")

    def __init__(
        self,
        channel: Actor,
        consumer: Consumer | None,
        chunk: Chunk,
        contents: list[bytes],
        positions: range,
    ) -> None:
        self.channel = channel
        self.consumer = consumer
        self.chunk = chunk
        self.contents: list[bytes | None] = list(contents)
        self.positions = positions
        self.left = len(contents)

    def settle(self, start: int, end: int) -> list[bytes]:
        """Take contents [start, end) out; they must all be there."""
        taken = self.contents[start:end]
        assert len(taken) == end - start and None not in taken, "a message was settled twice"
        self.contents[start:end] = [None] * (end - start)
        self.left -= end - start
        return cast("list[bytes]", taken)

    def forget(self) -> None:
        """Let go of the messages; only their number matters from now on."""
        self.contents = [None if content is None else b"" for content in self.contents]

    def give_back(self, start: int, end: int) -> list[Chunk]:
        """Take contents [start, end) out as ready chunks, marked redelivered."""
        contents = self.settle(start, end)
        if self.positions.step == 1:
            return [self.returned(contents, self.positions[start])]
        positions = self.positions[start:end]
        return [
            self.returned([content], position)
            for content, position in zip(contents, positions, strict=True)
        ]

    def returned(self, contents: list[bytes], position: int) -> Chunk:
        """A ready chunk like the one the messages came from."""
        chunk = self.chunk
        return Chunk(
            chunk.address,
            contents,
            chunk.even,
            chunk.persistent,
            chunk.number,
            chunk.copies,
            position,
            True,
        )

    def open_parts(self) -> list[tuple[int, int]]:
        """The unsettled stretches (start, end), in order."""
        parts: list[tuple[int, int]] = []
        start = -1
        for index, content in enumerate(self.contents):
            if content is not None and start < 0:
                start = index
            elif content is None and start >= 0:
                parts.append((start, index))
                start = -1
        if start >= 0:
            parts.append((start, len(self.contents)))
        return parts
