"""The messages of entries that a queue's snapshot still needs: some 30 bytes of memory for an
entry.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from sluicemq.raft.entry import LogEntry
    from sluicemq.storage.raft.segment import RaftSegment

Trim: TypeAlias = Callable[[bytes, Sequence[range]], bytes]
"""Returns the part of an entry's data, or of an earlier result for more places, that the messages
at these places need. Threads of the disk call it, too. Raises SluiceError for unreadable data."""

ENTRY_BYTES: Final = 112
"""The bytes of an entry in a segment besides its messages: heads, an envelope."""
MESSAGE_BYTES: Final = 40
"""The bytes of a message besides its body."""


class LivePlaces:
    """For each still needed entry up to a snapshot's, the places of its needed messages, and
    roughly their bytes. It is filled once, and never changed afterwards."""

    __slots__ = ("bounds", "ends", "indexes", "sizes")

    def __init__(self) -> None:
        self.indexes = array("Q")
        """The ascending indexes of the entries."""
        self.sizes = array("Q", [0])
        """The total bytes of the entries before each entry, and of all."""
        self.bounds = array("I")
        """The beginning and the end of each range of places."""
        self.ends = array("Q", [0])
        """The number of `bounds` before each entry's, and of all."""

    def add(self, index: int, places: Sequence[range], size: int) -> None:
        """Add an entry behind the others: the ascending places of its messages, and the total bytes
        of their bodies."""
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
        """Return the places of an entry; none when it is not needed."""
        at = bisect_left(self.indexes, index)
        if at == len(self.indexes) or self.indexes[at] != index:
            return []
        bounds = self.bounds[self.ends[at] : self.ends[at + 1]]
        return [range(*each) for each in zip(bounds[::2], bounds[1::2], strict=True)]

    def bytes_of(self, first: int, last: int) -> int:
        """Return roughly how many bytes of segments the entries from `first` to `last` need, both
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
    """What an owner needs, according to its last snapshot, of the messages in a group's entries:
    their `places`, and the function that trims an entry to them.

    `factors` has for rewritten segments the ratio of real to guessed length: the needed bytes of an
    entry are guessed, and a wrong guess must not have a segment rewritten for ever.
    """

    def __init__(self, places: LivePlaces, trim: Trim) -> None:
        self.places = places
        self.trim = trim
        self.factors: dict[int, float] = {}

    def guess(self, segment: RaftSegment) -> int:
        """Return the guessed number of needed bytes of a segment, at least one."""
        return max(1, self.places.bytes_of(segment.first, segment.last))

    def made(self, segment: RaftSegment) -> None:
        """Learn the error of the guess from a rewritten segment."""
        self.factors[segment.number] = segment.length / self.guess(segment)

    def trimmed(self, entry: LogEntry) -> LogEntry | None:
        """Return the needed part of an entry; None without one."""
        places = self.places.find(entry.index)
        if not places:
            return None
        was = bytes(entry.data)
        data = self.trim(was, places)
        return entry if len(data) >= len(was) else entry.with_data(data)
