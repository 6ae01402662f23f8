"""Unacknowledged runs: unsettled messages at consumers, as they were delivered.

A run keeps the first of its positions and their step, which is the number of consumers dealt to;
and its contents, as a list whose settled places are None. Settling n messages of a run is one slice
assignment. A run whose messages are in the message store may drop their bodies (RabbitMQ's
limit_ram_acks).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from sluicemq.model.batch import footprint, size_of
from sluicemq.queues.classic.chunk import Chunk

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor
    from sluicemq.queues.commands import LinkId
    from sluicemq.queues.consumers import Consumer

PAGED: Final = b""
"""Stands for a body that the run has dropped."""


class UnackedRun:
    """One delivery (or basic.get, then `consumer` is None) that went out over `link`, until it is
    settled.

    `chunk` is kept for its traits and state only. `sizes` has the bytes of each message once the
    bodies are dropped; None: they are here.
    """

    __slots__ = (
        "channel",
        "chunk",
        "consumer",
        "contents",
        "first",
        "in_store",
        "left",
        "link",
        "sizes",
        "step",
    )

    def __init__(
        self,
        link: LinkId,
        channel: Actor,
        consumer: Consumer | None,
        chunk: Chunk,
        contents: list[bytes],
        first: int,
        step: int = 1,
    ) -> None:
        self.link = link
        self.channel = channel
        self.consumer = consumer
        self.chunk = chunk
        self.in_store = chunk.in_store
        self.contents: list[bytes | None] = list(contents)
        self.sizes: list[int] | None = None
        self.first = first
        self.step = step
        self.left = len(contents)

    @property
    def positions(self) -> range:
        """Return the position of each content, settled or not."""
        return range(self.first, self.first + self.step * len(self.contents), self.step)

    def take(self, start: int, end: int) -> list[bytes]:
        """Settle the contents [start, end), which must all be unsettled, and return them."""
        if end - start == self.left == len(self.contents):
            whole, self.contents = self.contents, [None] * self.left
            self.left = 0
            return cast("list[bytes]", whole)
        taken = self.contents[start:end]
        assert len(taken) == end - start and None not in taken, "a message was settled twice"
        self.contents[start:end] = [None] * (end - start)
        self.left -= end - start
        return cast("list[bytes]", taken)

    def size(self, start: int, end: int, taken: list[bytes]) -> int:
        """Return the bytes of the contents taken from [start, end)."""
        if self.sizes is not None:
            return sum(self.sizes[start:end])
        return size_of(taken, self.chunk.same_size)

    def footprint(self, taken: list[bytes]) -> int:
        """Return the bytes of RAM that the taken contents count for; 0 when their bodies are not
        here."""
        return (
            footprint(taken, self.chunk.same_size, self.chunk.traits.copies)
            if self.sizes is None
            else 0
        )

    def forget(self) -> None:
        """Drop the bodies of unsettled messages; only their number matters from now on."""
        self.contents = [None if content is None else PAGED for content in self.contents]
        self.sizes = [0] * len(self.contents)

    def ids(self, positions: range) -> range | None:
        """Return the ids of these positions in the message store; None when their bodies are not
        there."""
        base = self.chunk.id_base
        if base is None or not self.in_store:
            return None
        return range(positions.start + base, positions.stop + base, positions.step)

    def split_off(self, link: LinkId, channel: Actor, start: int, end: int) -> UnackedRun:
        """Settle the contents [start, end) and return them as a run of `channel` over `link`,
        without a consumer."""
        first = self.first + self.step * start
        taken = self.take(start, end)
        run = UnackedRun(link, channel, None, self.chunk, taken, first, self.step)
        run.in_store = self.in_store
        if self.sizes is not None:
            run.sizes = self.sizes[start:end]
        return run

    def open_chunks(self) -> list[Chunk]:
        """Return the unsettled messages as chunks, to be written."""
        chunks: list[Chunk] = []
        for start, end in self.open_parts():
            contents = cast("list[bytes]", self.contents[start:end])
            chunks += self._chunks(start, end, contents)
        return chunks

    def drop_bodies(self) -> int:
        """Drop the bodies, which the message store has or is about to get. Returns the bytes of RAM
        that this has freed."""
        assert self.sizes is None and self.chunk.id_base is not None
        bodies = [content for content in self.contents if content is not None]
        freed = self.footprint(bodies)
        self.sizes = [0 if content is None else len(content) for content in self.contents]
        self.contents = [None if content is None else PAGED for content in self.contents]
        self.in_store = True
        return freed

    def give_back(self, start: int, end: int) -> list[Chunk]:
        """Settle the contents [start, end) and return them as ready chunks, marked redelivered."""
        return self._chunks(start, end, self.take(start, end))

    def _chunks(self, start: int, end: int, contents: list[bytes]) -> list[Chunk]:
        sizes = None if self.sizes is None else self.sizes[start:end]
        if self.step == 1:
            return [self.returned(contents, self.first + start, sizes)]
        positions = self.positions[start:end]
        return [
            self.returned([content], position, None if sizes is None else [sizes[index]])
            for index, (content, position) in enumerate(zip(contents, positions, strict=True))
        ]

    def returned(self, contents: list[bytes], position: int, sizes: list[int] | None) -> Chunk:
        """Make a ready chunk like the one the messages came from; the list of contents is its own.
        `sizes` None: the bodies are here."""
        chunk = self.chunk
        returned = Chunk(
            chunk.traits,
            contents if sizes is None else [],
            chunk.same_size,
            position,
            True,
            chunk.id_base,
            self.in_store,
            sizes,
            chunk.expiry,
        )
        returned.owned = True
        return returned

    def open_parts(self) -> list[tuple[int, int]]:
        """Return the unsettled parts [start, end) of the contents, in order."""
        if self.left == len(self.contents):
            return [(0, self.left)]
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
