"""A chunk: consecutive messages of one queue that are alike. Sub-queues consist of chunks.

All messages of a chunk have the same traits and state. Its bodies are in RAM (`contents`),
or, for those kept in the message store, only their lengths are (`sizes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.compiling import mypyc_attr
from sluicemq.limits import CHUNK_BYTES, CHUNK_MESSAGES
from sluicemq.model.batch import footprint, size_of
from sluicemq.queues.consumers import cost_of

if TYPE_CHECKING:
    from sluicemq.model.batch import Batch
    from sluicemq.model.traits import MessageTraits


@mypyc_attr(acyclic=True, free_list_len=1)
class Chunk:
    """The messages from position `position` on; the first `start` of the list have been taken.

    `id_base` + position is a message's id in the message store; None: it is embedded in the queue
    index. `in_store`: its body was handed to the message store. `expiry`: they expire at this time,
    in milliseconds since the epoch; 0 means never.
    """

    __slots__ = (
        "contents",
        "expiry",
        "id_base",
        "in_store",
        "owned",
        "position",
        "reading",
        "redelivered",
        "same_size",
        "sizes",
        "start",
        "traits",
    )

    def __init__(
        self,
        traits: MessageTraits,
        contents: list[bytes],
        same_size: bool,
        position: int,
        redelivered: bool,
        id_base: int | None = None,
        in_store: bool = False,
        sizes: list[int] | None = None,
        expiry: int = 0,
    ) -> None:
        self.traits = traits
        self.contents = contents
        self.same_size = same_size
        self.position = position
        self.redelivered = redelivered
        self.id_base = id_base
        self.in_store = in_store
        self.sizes = sizes
        self.expiry = expiry
        self.start = 0
        self.owned = False
        self.reading = False

    @property
    def bodies(self) -> bool:
        """Tell whether the bodies are in RAM."""
        return self.sizes is None

    def left(self) -> int:
        """Return the number of messages that are not taken yet."""
        return len(self.contents if self.sizes is None else self.sizes) - self.start

    def positions(self) -> range:
        """Return the positions of the messages that are not taken yet."""
        first = self.position + self.start
        return range(first, first + self.left())

    def rest(self) -> list[bytes]:
        """Return the contents of the messages that are not taken yet."""
        return self.contents[self.start :] if self.start else self.contents

    def rest_sizes(self) -> list[int]:
        """Return the lengths of the contents that are not taken yet, in bytes."""
        if self.sizes is not None:
            return self.sizes[self.start :]
        return list(map(len, self.rest()))

    def size(self) -> int:
        """Return the bytes of what is not taken yet, wherever it is."""
        if self.sizes is not None:
            return sum(self.sizes[self.start :])
        return size_of(self.rest(), self.same_size)

    def footprint(self) -> int:
        """Return the bytes of RAM that it counts for; 0 when its bodies are not here."""
        return (
            footprint(self.rest(), self.same_size, self.traits.copies) if self.sizes is None else 0
        )

    def accepts_batch(self, batch: Batch, expiry: int) -> bool:
        """Tell whether `batch` may be appended here: it has the same traits, there are not too
        many, and ids go on."""
        first_id = batch.first_id
        if self.id_base is None:
            if first_id:
                return False
        elif self.id_base + self.position + len(self.contents) != first_id:
            return False
        traits = batch.traits
        return (
            (self.traits is traits or self.traits == traits)
            and not self.redelivered
            and self.same_size
            and batch.same_size
            and len(self.contents) < CHUNK_MESSAGES
            and len(self.contents[-1]) == len(batch.contents[0])
            and len(self.contents) * len(self.contents[-1]) < CHUNK_BYTES
            and self.expiry == expiry
            and not self.in_store
        )

    def continues(self, other: Chunk) -> bool:
        """Tell whether `other`, whose positions follow, may be appended here: it has the same
        traits and state, and the two are not too large together."""
        if self.sizes is not None or other.sizes is not None:
            return False
        count = len(self.contents) + len(other.contents) - other.start
        return (
            count <= CHUNK_MESSAGES
            and (self.traits is other.traits or self.traits == other.traits)
            and self.id_base == other.id_base
            and self.in_store == other.in_store
            and self.redelivered == other.redelivered
            and self.same_size
            and other.same_size
            and len(self.contents[-1]) == len(other.contents[-1])
            and count * len(self.contents[-1]) <= CHUNK_BYTES
            and self.expiry == other.expiry
        )

    def append(self, contents: list[bytes]) -> None:
        """Add contents at the end; the list is copied once, for it may belong to other queues
        too."""
        if not self.owned:
            self.contents = self.contents[self.start :]
            self.position += self.start
            self.start = 0
            self.owned = True
        self.contents.extend(contents)

    def trim(self) -> None:
        """Free the messages that have been taken."""
        if self.sizes is None:
            self.contents = self.contents[self.start :]
        else:
            self.sizes = self.sizes[self.start :]
        self.position += self.start
        self.start = 0
        self.owned = True

    def split(self, count: int) -> Chunk:
        """Keep the first `count` messages and return the others as a chunk of their own; both must
        have some."""
        assert 0 < count < self.left()
        if self.start:
            self.trim()
        sizes = self.sizes
        other = Chunk(
            self.traits,
            self.contents[count:],
            self.same_size,
            self.position + count,
            self.redelivered,
            self.id_base,
            self.in_store,
            None if sizes is None else sizes[count:],
            self.expiry,
        )
        other.owned = True
        if sizes is None:
            self.contents = self.contents[:count]
        else:
            self.sizes = sizes[:count]
        self.owned = True
        return other

    def drop_bodies(self) -> None:
        """Free the bodies, which are elsewhere from now on; their lengths stay."""
        assert self.id_base is not None, "an embedded body has no other place"
        self.sizes = self.rest_sizes()
        self.position += self.start
        self.start = 0
        self.contents = []

    def set_bodies(self, contents: list[bytes]) -> None:
        """Take bodies back that were read from elsewhere."""
        assert self.sizes is not None
        self.contents = contents
        self.sizes = None
        self.owned = True


def position_of(chunk: Chunk) -> int:
    """Return the position of the first message not taken, as a sort key."""
    return chunk.position + chunk.start


def end_of(chunk: Chunk) -> int:
    """Return the position behind the last message of a chunk."""
    return chunk.position + len(chunk.contents if chunk.sizes is None else chunk.sizes)


def divided(chunk: Chunk, border: int) -> tuple[Chunk | None, Chunk | None]:
    """Split a chunk into the messages before position `border` and the others; None in place of a
    part that is empty."""
    positions = chunk.positions()
    if positions[0] >= border:
        return None, chunk
    if positions[-1] < border:
        return chunk, None
    rest = chunk.split(border - positions[0])
    return chunk, rest


def copy_of(chunk: Chunk) -> Chunk:
    """Return another chunk of the messages that are not taken yet, over the same contents."""
    return Chunk(
        chunk.traits,
        chunk.rest(),
        chunk.same_size,
        position_of(chunk),
        chunk.redelivered,
        chunk.id_base,
        chunk.in_store,
        None if chunk.sizes is None else chunk.rest_sizes(),
        chunk.expiry,
    )


def first_of(positions: range) -> int:
    """Return the first of these positions, as a sort key."""
    return positions[0]


def cut_at(positions: range, border: int) -> tuple[range, range]:
    """Split a range of step 1 into the positions below `border` and the others."""
    border = min(max(border, positions.start), positions.stop)
    return range(positions.start, border), range(border, positions.stop)


def same_cost(chunk: Chunk, count: int, cost_each: int) -> int:
    """Return how many of the first `count` messages take `cost_each` of a window, as the first one
    does."""
    if chunk.same_size:
        return count
    start = chunk.start
    for index in range(start + 1, start + count):
        if cost_of(len(chunk.contents[index])) != cost_each:
            return index - start
    return count


def within(positions: range, start: int, end: int) -> range:
    """Return the positions of an ascending range that are in [start, end)."""
    step = positions.step
    first = max(0, -(-(start - positions.start) // step))
    last = max(first, -(-(end - positions.start) // step))
    return positions[first:last]
