"""What a channel still owes its publisher, one entry a batch, and how that is said on the wire.

A batch is known by its first sequence number, also when its messages go to different queues: then
it waits for all of these. It is confirmed when each queue it went to has
confirmed it, and rejected as soon as one rejects it. Both are gathered and said at the end of the
turn in as few frames as RabbitMQ would use: acks first, then nacks, and of each kind

    cutoff = min(smallest number still unconfirmed, every number of the other kind)

    numbers below the cutoff   one frame, the greatest of them, multiple
    the others                 one frame each
"""

from __future__ import annotations

from operator import itemgetter
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""(first, count) of consecutive sequence numbers."""

COUNT = itemgetter(1)
"""Of a Range."""

Frame: TypeAlias = tuple[int, bool, bool]
"""(delivery tag, multiple, is it a nack)"""


class Expected:
    """A batch on its way: `waiting` queues have not answered yet."""

    __slots__ = ("count", "size", "waiting")

    def __init__(self, count: int, waiting: int) -> None:
        self.size = count
        """As it was published; the last ones may have been rejected since."""
        self.count = count
        self.waiting = waiting


class Unconfirmed:
    """The bookkeeping of one channel in confirm mode."""

    __slots__ = ("_confirmed", "_expected", "_head", "_oldest", "_rejected", "count")

    def __init__(self) -> None:
        self.count = 0
        """Messages for which nothing is known yet (RabbitMQ's messages_unconfirmed)."""
        self._expected: dict[int, Expected] = {}
        self._confirmed: list[Range] = []
        self._rejected: list[Range] = []
        # Deleting from the front of a dict makes finding its first key slow, so the keys are
        # taken out in one go, and again when all of these have been answered.
        self._oldest: list[int] = []
        self._head = 0

    @property
    def has_answers(self) -> bool:
        """Tell whether there are confirms or rejections that `drain` has not returned yet."""
        return bool(self._confirmed or self._rejected)

    @property
    def answered(self) -> tuple[int, int]:
        """How many messages the next `drain` confirms, and how many it rejects."""
        return sum(map(COUNT, self._confirmed)), sum(map(COUNT, self._rejected))

    def expect(self, first_seq: int, count: int, waiting: int) -> None:
        """`count` messages from `first_seq` on (above all earlier) went to `waiting` queues."""
        assert count > 0
        if waiting:
            self._expected[first_seq] = Expected(count, waiting)
            self.count += count
        else:
            self._confirmed.append((first_seq, count))

    def confirm(self, first_seq: int, count: int) -> None:
        """One queue has confirmed the batch, or is gone in a way that counts as that; or its part
        of a batch that was divided among queues."""
        expected = self._expected.get(first_seq)
        if expected is None:
            return  # another queue has rejected it
        assert expected.size >= count
        count = expected.count
        expected.waiting -= 1
        if not expected.waiting:
            del self._expected[first_seq]
            self.count -= count
            self._confirmed.append((first_seq, count))

    def reject(self, first_seq: int, count: int, offset: int = 0) -> None:
        """One queue has rejected the `count` messages of the batch behind the first `offset`, which
        it confirms later: what the others say of these no longer matters. In a batch that was
        divided among queues nobody knows which ones these are: all of it is rejected."""
        expected = self._expected.get(first_seq)
        if expected is None:
            return  # another queue has rejected it before
        kept = offset if offset + count == expected.size else 0
        rejected = expected.count - kept
        if rejected <= 0:
            return
        if not kept:
            del self._expected[first_seq]
        expected.count = kept
        self.count -= rejected
        self._rejected.append((first_seq + kept, rejected))

    def smallest(self) -> int | None:
        """The smallest sequence number that is still unconfirmed."""
        expected = self._expected
        if not expected:
            return None
        while True:
            while self._head < len(self._oldest):
                first_seq = self._oldest[self._head]
                if first_seq in expected:
                    return first_seq
                self._head += 1
            self._oldest = list(expected)
            self._head = 0

    def drain(self) -> list[Frame]:
        """Everything known since the last time, as the frames that say it."""
        acks = self._confirmed
        nacks = self._rejected
        if not acks and not nacks:
            return []
        self._confirmed = []
        self._rejected = []
        acks.sort()
        nacks.sort()
        smallest = self.smallest()
        frames: list[Frame] = []
        if len(acks) == 1 and acks[0][1] == 1:
            frames.append((acks[0][0], False, False))  # RabbitMQ looks at no cutoff here
        else:
            _append_frames(acks, _cutoff(smallest, nacks), False, frames)
        _append_frames(nacks, _cutoff(smallest, acks), True, frames)
        return frames


def _cutoff(smallest: int | None, other_kind: list[Range]) -> int | None:
    """None: nothing stands in the way of saying all with one frame."""
    if not other_kind:
        return smallest
    first = other_kind[0][0]
    return first if smallest is None else min(smallest, first)


def _append_frames(
    ranges: list[Range], cutoff: int | None, nack: bool, frames: list[Frame]
) -> None:
    """Append the frames for one kind; `ranges` are sorted and none of them spans the cutoff."""
    below = 0
    while below < len(ranges) and (cutoff is None or ranges[below][0] < cutoff):
        below += 1
    if below:
        first, count = ranges[below - 1]
        frames.append((first + count - 1, True, nack))
    for first, count in ranges[below:]:
        frames.extend((tag, False, nack) for tag in range(first, first + count))
