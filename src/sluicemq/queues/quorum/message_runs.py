"""Messages of a quorum queue in its state: their places in the log, without bodies."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from sluicemq.compiling import mypyc_attr
from sluicemq.queues.by_value import ByValue

ONES: Final = [range(place, place + 1) for place in range(256)]
"""The first places, each by itself: to make a range costs compiled code more than to find it."""


def one_place(place: int) -> range:
    """Return a range that has only this place."""
    return ONES[place] if place < len(ONES) else range(place, place + 1)


def places_of(first: int, count: int) -> range:
    """Return so many places from `first` on."""
    return one_place(first) if count == 1 else range(first, first + count)


@mypyc_attr(acyclic=True)
class StoredBatch:
    """Messages that one command has enqueued, or several, if they are alike: in the entry at
    `index`, at the `count` places from `first` on; `size` and `sizes` are as in Enqueue. They
    expire at `expiry`, in milliseconds since the epoch, 0: never. `taken` counts those that are not
    fresh any more and still in the queue: with consumers, returned, or dead letters; `places` are
    those of all messages."""

    __slots__ = ("count", "expiry", "first", "index", "places", "size", "sizes", "taken")

    def __init__(
        self,
        index: int,
        first: int,
        count: int,
        size: int,
        sizes: list[int] | None,
        expiry: int,
    ) -> None:
        assert sizes is None or len(sizes) == count, "one size a message"
        self.index = index
        self.first = first
        self.count = count
        self.places = places_of(first, count)
        self.size = size
        self.sizes = sizes
        self.expiry = expiry
        self.taken = 0

    @property
    def end(self) -> int:
        """Return the place behind the last message."""
        return self.first + self.count

    def is_continued(self, index: int, first: int, size: int, expiry: int) -> bool:
        """Tell whether messages of one size, with that expiry, at the places from `first` on of the
        entry at `index`, would continue this batch."""
        return (
            self.index == index
            and self.sizes is None
            and self.size == size
            and self.expiry == expiry
            and self.end == first
        )

    def bytes_of(self, places: range) -> int:
        """Return the bytes of the bodies at these places."""
        if self.sizes is None:
            return len(places) * self.size
        first = self.first
        return sum(self.sizes[places.start - first : places.stop - first : places.step])

    def covering(self, places: range, bytes_min: int) -> int:
        """Return how many of the messages at `places`, from the first on, have `bytes_min` bytes
        together; all when they have less."""
        if self.sizes is None:
            return min(len(places), -(-bytes_min // self.size)) if self.size else len(places)
        first = self.first
        sizes = self.sizes[places.start - first : places.stop - first : places.step]
        short = sum(1 for total in accumulate(sizes) if total < bytes_min)
        return min(len(places), short + 1)


@mypyc_attr(acyclic=True)
class MessageRun(ByValue):
    """Messages of one batch, in the order of `places`, that share one fate: each has come back
    `returns` times in a way that counts. `redelivered`: they have been delivered before; `reason`
    is why they have died, "" for the living."""

    __slots__ = ("batch", "places", "reason", "redelivered", "returns")

    def __init__(
        self,
        batch: StoredBatch,
        places: range,
        returns: int = 0,
        redelivered: bool = False,
        reason: str = "",
    ) -> None:
        self.batch = batch
        self.places = places
        self.returns = returns
        self.redelivered = redelivered
        self.reason = reason

    def values(self) -> tuple[object, ...]:
        return self.batch, self.places, self.returns, self.redelivered, self.reason

    def part(self, start: int, end: int) -> MessageRun:
        """Return the messages from the `start`th to before the `end`th, counted from 0."""
        return MessageRun(
            self.batch, self.places[start:end], self.returns, self.redelivered, self.reason
        )

    @property
    def bytes(self) -> int:
        """Return the bytes of the bodies together."""
        return self.batch.bytes_of(self.places)
