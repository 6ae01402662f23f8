"""Which messages of which entries are still needed, as a snapshot of a queue says it: 30 bytes of
memory or so for an entry."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from sluicemq.raft.entry import LogEntry
    from sluicemq.storage.raft.segment import RaftSegment

Trim: TypeAlias = Callable[[bytes, Sequence[range]], bytes]
"""Returns of the data of an entry, or of what this has returned for more places, what is needed for
the messages at these places. It is also called in threads of the disk. Raises SluiceError for data
that it cannot read."""

ENTRY_BYTES: Final = 112
"""What an entry takes in a segment beside its messages: heads, an envelope."""
MESSAGE_BYTES: Final = 40
"""What a message takes beside its body."""


class LivePlaces:
    """For each entry up to a snapshot's that is still needed the places of the messages in it that
    are, and about how many bytes these have. It is filled once, and then never changed."""

    __slots__ = ("bounds", "ends", "indexes", "sizes")

    def __init__(self) -> None:
        self.indexes = array("Q")
        """Of the entries, ascending."""
        self.sizes = array("Q", [0])
        """Bytes of all entries before each, and in the end of all."""
        self.bounds = array("I")
        """Where each range of places begins and ends."""
        self.ends = array("Q", [0])
        """How many of `bounds` are those of entries before each, and in the end of all."""

    def add(self, index: int, places: Sequence[range], size: int) -> None:
        """Add an entry behind the others: the places of its messages, ascending, and how many bytes
        their bodies have together."""
        assert not self.indexes or self.indexes[-1] < index, "entries come in their order"
        for each in places:
            size += MESSAGE_BYTES * len(each)
            self.bounds.append(each.start)
            self.bounds.append(each.stop)
        self.indexes.append(index)
        self.sizes.append(self.sizes[-1] + size)
        self.ends.append(len(self.bounds))

    def __len__(self) -> int:
        return len(self.indexes)

    def find(self, index: int) -> list[range]:
        """Return the places of an entry; none when nothing of it is needed."""
        at = bisect_left(self.indexes, index)
        if at == len(self.indexes) or self.indexes[at] != index:
            return []
        bounds = self.bounds[self.ends[at] : self.ends[at + 1]]
        return [range(*each) for each in zip(bounds[::2], bounds[1::2], strict=True)]

    def bytes_of(self, first: int, last: int) -> int:
        """Return about how many bytes of segments the entries from `first` to `last` need, both
        inclusive."""
        start, end = bisect_left(self.indexes, first), bisect_right(self.indexes, last)
        return self.sizes[end] - self.sizes[start] + (end - start) * ENTRY_BYTES

    def ranges(self) -> Iterator[range]:
        """Yield the indexes as ranges, ascending."""
        start = end = 0
        for index in self.indexes:
            if index != end:
                if end:
                    yield range(start, end)
                start = index
            end = index + 1
        if end:
            yield range(start, end)


class Trimming:
    """What an owner has said with its last snapshot of the messages in a group's entries: their
    `places`, and how an entry is trimmed to them.

    `factors` says of segments that a rewrite has made how many times as long they were as was
    thought: what an entry needs is guessed, and a wrong guess must not have a segment rewritten for
    ever."""

    def __init__(self, places: LivePlaces, trim: Trim) -> None:
        self.places = places
        self.trim = trim
        self.factors: dict[int, float] = {}

    def guess(self, segment: RaftSegment) -> int:
        """Return how many bytes of a segment are thought to be needed, at least one."""
        return max(1, self.places.bytes_of(segment.first, segment.last))

    def made(self, segment: RaftSegment) -> None:
        """Learn from a segment that a rewrite has made how wrong the guess is."""
        self.factors[segment.number] = segment.length / self.guess(segment)

    def trimmed(self, entry: LogEntry) -> LogEntry | None:
        """Return an entry without what is not needed of it; None when that is nothing."""
        places = self.places.find(entry.index)
        if not places:
            return None
        was = bytes(entry.data)
        data = self.trim(was, places)
        return entry if len(data) >= len(was) else replace(entry, data=data)
