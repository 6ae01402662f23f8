"""The contents in an entry of a quorum queue's log, cut out when they are to be delivered.

An entry has the messages of many publishers, and a node delivers only those that its own consumers
were assigned. So the entry is looked through once for where contents begin, and no more.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from sluicemq.compiling import mypyc_attr
from sluicemq.model.batch import Batch
from sluicemq.model.traits import NO_TRAITS, MessageTraits, message_traits
from sluicemq.queues.command_codec import HEAD, PERSISTENT, SAME_SIZE
from sluicemq.queues.quorum.command_codec import DECODERS
from sluicemq.queues.quorum.commands import Enqueue, FifoCommand
from sluicemq.queues.quorum.trimming import ENQUEUE, bodies_of
from sluicemq.queues.quorum.usual_commands import BODILESS, ENQUEUE_BYTES, SAME_BODIES

PLACED: Final = Struct("<40xII4xHH4x")
"""Of the head of an enqueue how many contents there are, of which size, the channel's number, and
the length of the envelope."""
USUAL_MASK: Final = SAME_SIZE | SAME_BODIES | BODILESS
USUAL_FLAGS: Final = SAME_SIZE | SAME_BODIES
"""Behind the envelope of an enqueue with these flags are its contents, each of the same size."""


@mypyc_attr(acyclic=True)
class PlacedContents:
    """Messages of one enqueue at the places from `first` to before `end` of an entry. `same_size`
    is as in Batch."""

    __slots__ = ("contents", "data", "end", "first", "same_size", "size", "start", "traits")

    def __init__(self, first: int, end: int, traits: MessageTraits, same_size: bool) -> None:
        self.first = first
        self.end = end
        self.traits = traits
        self.same_size = same_size
        self.contents: list[bytes] | None = None
        """All contents; None: they are in `data` from `start` on, of `size` bytes each."""
        self.data = b""
        self.start = self.size = 0

    def cut(self, place: int, step: int, count: int) -> list[bytes]:
        """Return so many contents, from that place on, each `step` places behind the one before."""
        at = place - self.first
        if self.contents is not None:
            return self.contents[at : at + count * step : step]
        data, size = self.data, self.size
        start = self.start + at * size
        found: list[bytes] = []
        for _ in range(count):
            found.append(data[start : start + size])
            start += step * size
        return found


def of_batch(first: int, batch: Batch) -> PlacedContents:
    """Return the messages of a batch, from the place `first` on."""
    end = first + len(batch.contents)
    placed = PlacedContents(first, end, batch.traits, batch.same_size)
    placed.contents = batch.contents
    return placed


def of_commands(commands: list[FifoCommand]) -> list[PlacedContents]:
    """Return what the commands of an entry enqueue, as far as they still have it."""
    found: list[PlacedContents] = []
    place = 0
    for each in commands:
        if isinstance(each, Enqueue):
            if each.batch is not None:
                found.append(of_batch(place, each.batch))
            place += each.count
    return found


def placed_in(data: bytes, start: int) -> list[PlacedContents]:
    """Return the messages of an entry, whole or trimmed, which is in `data` from `start` on, in the
    order of their places. Raises UnreadableCommand when it is neither."""
    count: int
    size: int
    channel_number: int
    envelope_size: int
    found: list[PlacedContents] = []
    kinds = DECODERS
    head_bytes: int = HEAD.size
    envelope = b""
    traits = NO_TRAITS
    place = 0
    at = start
    whole = len(data)
    while at < whole:
        if whole - at < head_bytes:
            return all_placed_in(data, start)
        kind = data[at] | data[at + 1] << 8
        flags = data[at + 2] | data[at + 3] << 8
        length = data[at + 4] | data[at + 5] << 8 | data[at + 6] << 16 | data[at + 7] << 24
        head_at = at + head_bytes
        at = head_at + length
        if kind != ENQUEUE and kind in kinds:
            continue
        contents_at = head_at + ENQUEUE_BYTES
        is_usual = kind == ENQUEUE and flags & USUAL_MASK == USUAL_FLAGS
        if not is_usual or contents_at > at or at > whole:
            return all_placed_in(data, start)
        count, size, channel_number, envelope_size = PLACED.unpack_from(data, head_at)
        contents_at += envelope_size
        if not count or contents_at + count * size != at:
            return all_placed_in(data, start)
        envelope = data[contents_at - envelope_size : contents_at]
        is_persistent = flags & PERSISTENT != 0
        if not is_same(traits, envelope, channel_number, is_persistent):
            traits = message_traits(envelope, channel_number, is_persistent)
        placed = PlacedContents(place, place + count, traits, True)
        placed.data = data
        placed.start = contents_at
        placed.size = size
        found.append(placed)
        place += count
    return found if at == whole else all_placed_in(data, start)


def is_same(traits: MessageTraits, envelope: bytes, number: int, is_persistent: bool) -> bool:
    """Tell whether these are the traits of such messages, which the one before mostly has, too."""
    return (
        traits.persistent == is_persistent
        and traits.channel_number == number
        and traits.envelope == envelope
        and traits is not NO_TRAITS
    )


def all_placed_in(data: bytes, start: int) -> list[PlacedContents]:
    """Return the same of an entry that has something unusual, or is malformed."""
    return [of_batch(each.first, each.batch) for each in bodies_of(data, start)]
