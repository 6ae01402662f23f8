"""The messages of a mirrored queue by their positions, without bodies: those are in its log.

Messages that were written together are one run, with a bit for each message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sluicemq.storage.bits import bits_of, ranges_of

if TYPE_CHECKING:
    from sluicemq.model.traits import MessageTraits


class MirroredRun:
    """Messages at the `count` positions from `first` on, with a bit in `alive` for those in the
    queue. They are in the entry at `index`, at the places from `place` on. Each content has `size`
    bytes, or as many as `sizes` says. `expiry` is in milliseconds since the epoch, 0: never."""

    __slots__ = (
        "alive",
        "count",
        "expiry",
        "first",
        "index",
        "place",
        "size",
        "sizes",
        "traits",
    )

    def __init__(
        self,
        first: int,
        count: int,
        index: int,
        place: int,
        traits: MessageTraits,
        size: int,
        sizes: list[int] | None,
        expiry: int,
    ) -> None:
        assert sizes is None or len(sizes) == count, "one size a message"
        self.first = first
        self.count = count
        self.index = index
        self.place = place
        self.traits = traits
        self.size = size
        self.sizes = sizes
        self.expiry = expiry
        self.alive = (1 << count) - 1

    @property
    def is_whole(self) -> bool:
        """Tell whether all of its messages are in the queue."""
        return self.alive.bit_count() == self.count

    @property
    def positions(self) -> list[range]:
        """Return the positions of its messages in the queue, ascending."""
        return ranges_of(self.alive, self.first)

    @property
    def places(self) -> list[range]:
        """Return the places in their entry of its messages in the queue, ascending."""
        return ranges_of(self.alive, self.place)

    def sizes_at(self, positions: range) -> list[int]:
        """Return the bytes of the contents at these of its positions."""
        if self.sizes is None:
            return [self.size] * len(positions)
        return self.sizes[positions.start - self.first : positions.stop - self.first]

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the contents of its messages in the queue."""
        return self.bytes_of(self.alive)

    def bytes_of(self, bits: int) -> int:
        """Return the bytes of the contents of the messages with a bit here."""
        if self.sizes is None:
            return self.size * bits.bit_count()
        return sum(sum(self.sizes[part.start : part.stop]) for part in ranges_of(bits, 0))

    def remove(self, positions: range) -> int:
        """Remove its messages among the ascending `positions`; returns the bits of those that were
        there."""
        gone = bits_within(positions, self.first, self.count) & self.alive
        self.alive ^= gone
        return gone


def bits_within(positions: range, first: int, count: int) -> int:
    """Return a bit for each of these ascending positions that is among the `count` from `first`
    on, which is bit 0."""
    start, step = positions.start, positions.step
    from_ = max(0, -(-(first - start) // step))
    upto = max(0, -(-(first + count - start) // step))
    return bits_of(positions[from_:upto], first)


class MirroredRow:
    """A row of positions: that of a priority, or the only one of a queue without priorities.
    Positions below `next` were used, those below `delivered` may have been delivered."""

    __slots__ = (
        "_firsts",
        "_gone",
        "_head",
        "_runs",
        "delivered",
        "messages",
        "next",
        "size_bytes",
    )

    def __init__(self, first: int) -> None:
        self.next = first
        self.delivered = first
        self.messages = 0
        """The number of messages in the queue."""
        self.size_bytes = 0
        """The bytes of their contents."""
        self._runs: list[MirroredRun] = []
        self._firsts: list[int] = []
        """The first position of each run."""
        self._gone = 0
        """The number of empty runs; once they outnumber the others they are all removed."""
        self._head = 0
        """So many of the first runs are empty."""

    def runs(self) -> Iterator[MirroredRun]:
        """Give the runs with messages in the queue, in the order of positions."""
        return (run for run in islice(self._runs, self._head, None) if run.alive)

    @property
    def run_count(self) -> int:
        """Return the number of runs with messages in the queue."""
        return len(self._runs) - self._gone

    @property
    def head(self) -> MirroredRun | None:
        """Return the first run with messages in the queue; None: there is no message."""
        return self._runs[self._head] if self._head < len(self._runs) else None

    def run_at(self, position: int) -> MirroredRun | None:
        """Return the run that has the message at this position; None: it is not in the queue."""
        at = bisect_right(self._firsts, position) - 1
        if at < 0:
            return None
        run = self._runs[at]
        offset = position - run.first
        return run if offset < run.count and run.alive >> offset & 1 else None

    def add(self, run: MirroredRun) -> None:
        """Add messages behind all that were ever there."""
        assert run.first >= self.next, f"position {run.first} was given before"
        self._runs.append(run)
        self._firsts.append(run.first)
        self.next = run.first + run.count
        self.messages += run.alive.bit_count()
        self.size_bytes += run.size_bytes

    def remove(self, positions: range) -> None:
        """Remove those messages at these ascending positions that are there."""
        at = max(0, bisect_right(self._firsts, positions.start) - 1)
        end = positions[-1]
        while at < len(self._runs) and self._firsts[at] <= end:
            run = self._runs[at]
            if run.alive:
                gone = run.remove(positions)
                self.messages -= gone.bit_count()
                self.size_bytes -= run.bytes_of(gone)
                self._gone += not run.alive
            at += 1
        while self._head < len(self._runs) and not self._runs[self._head].alive:
            self._head += 1
        if 2 * self._gone > len(self._runs):
            self._runs = [*self.runs()]
            self._firsts = [run.first for run in self._runs]
            self._gone = self._head = 0
