"""What a channel still owes its publisher, one entry a batch, and how it is answered on the wire.

A batch is known by its first sequence number, even when its messages go to different queues: then
it waits for all of these. It is confirmed when every link that it was sent over has confirmed it,
and rejected as soon as one link rejects it or is lost. The channel collects both and answers at the
end of the turn in as few frames as RabbitMQ would use: acks first, then nacks, and of each kind

    cutoff = min(smallest number still unconfirmed, every number of the other kind)

    numbers below the cutoff   one frame, the greatest of them, multiple
    the others                 one frame each
"""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from sluicemq.flow.link import Link

Range: TypeAlias = tuple[int, int]
"""(first, count) of consecutive sequence numbers."""

WATCH_EVERY: Final = 16
"""Of so many messages of a channel at most one is watched for how long its confirm takes: where
each comes alone, two looks at the clock would be a fortieth of its cost."""

COUNT = itemgetter(1)
"""The index of the count in a Range."""

Frame: TypeAlias = tuple[int, bool, bool]
"""(delivery tag, multiple, is it a nack)"""


class Expected:
    """A batch on its way: sent over `links`, which have not answered yet, and still to be sent over
    `to_come` more."""

    __slots__ = ("count", "links", "size", "to_come")

    def __init__(self, count: int, links: Collection[Link], to_come: int) -> None:
        self.size = count
        """The number of messages as it was published; the last ones may have been rejected
        since."""
        self.count = count
        self.links = links
        self.to_come = to_come

    def waiting(self) -> dict[Link, None]:
        """Return its links as a dict that may be changed; until the first call they may be another
        object's list."""
        links = self.links
        if not isinstance(links, dict):
            links = self.links = dict.fromkeys(links)
        return links

    def answered(self, link: Link) -> bool:
        """Note the answer over `link`, which must be outstanding. Returns True when it was the last
        one."""
        links = self.links
        if len(links) == 1 and not self.to_come:
            assert link in links, "an answer over a link that was not waited for"
            return True
        del self.waiting()[link]
        return False


class Unconfirmed:
    """The publishes of one channel in confirm mode that are not answered yet."""

    __slots__ = ("_confirmed", "_expected", "_head", "_last", "_oldest", "_rejected", "count")

    def __init__(self) -> None:
        self.count = 0
        """Messages for which nothing is known yet (RabbitMQ's messages_unconfirmed)."""
        self._last = 0
        """The highest number of a message that was expected."""
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
        """Return how many messages the next `drain` confirms, and how many it rejects."""
        return _total(self._confirmed), _total(self._rejected)

    def expect(self, first_seq: int, count: int, links: Collection[Link], to_come: int = 0) -> None:
        """Note that `count` messages from `first_seq` on (above all earlier) are sent over `links`,
        which must not change any more, and later over `to_come` others (`sent`)."""
        assert count > 0 and first_seq > self._last, "numbers of publishes only grow"
        self._last = first_seq + count - 1
        if links or to_come:
            self._expected[first_seq] = Expected(count, links, to_come)
            self.count += count
        else:
            self._confirmed.append((first_seq, count))

    def sent(self, first_seq: int, link: Link) -> None:
        """Note that the batch is sent over one of the links that were to come."""
        expected = self._expected.get(first_seq)
        if expected is not None:  # otherwise another queue has rejected it
            assert expected.to_come > 0
            expected.to_come -= 1
            expected.waiting()[link] = None

    def confirm(self, link: Link, first_seq: int, count: int) -> None:
        """Note that the queue at the end of a link has confirmed the batch, or its part of a batch
        that was divided among queues; or that it is gone in a way that counts as a confirm."""
        expected = self._expected.get(first_seq)
        if expected is None:
            return  # another queue has rejected it
        assert expected.size >= count
        if expected.answered(link):
            count = expected.count
            del self._expected[first_seq]
            self.count -= count
            self._confirmed.append((first_seq, count))

    def reject(self, first_seq: int, count: int, offset: int = 0) -> None:
        """Note that a queue has rejected the `count` messages of the batch behind the first
        `offset`, which it confirms later: what other queues say of these no longer matters. Of a
        batch that was divided among queues nobody knows which messages these are, so all of it is
        rejected."""
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

    def lose(self, link: Link) -> None:
        """Reject everything that waits for an answer over this link, because none will come."""
        lost = [each for each in self._expected.items() if link in each[1].links]
        for first_seq, expected in lost:
            del self._expected[first_seq]
            self.count -= expected.count
            self._rejected.append((first_seq, expected.count))
        assert self.count >= 0

    def smallest(self) -> int | None:
        """Return the smallest sequence number that is still unconfirmed; None when all are
        answered."""
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

    def take_lone(self) -> int:
        """Return the number of the message if the confirm of a single one is all that `drain` would
        return; it does so no more. 0: there are others, or none."""
        acks = self._confirmed
        if len(acks) != 1 or self._rejected:
            return 0
        first_seq, count = acks[0]
        if count != 1:
            return 0
        acks.clear()
        return first_seq

    def drain(self) -> list[Frame]:
        """Return the frames for all answers since the last call."""
        acks = self._confirmed
        nacks = self._rejected
        if not acks and not nacks:
            return []
        self._confirmed = []
        self._rejected = []
        if len(acks) == 1 and acks[0][1] == 1 and not nacks:
            return [(acks[0][0], False, False)]
        acks.sort()
        nacks.sort()
        smallest = self.smallest()
        frames: list[Frame] = []
        if len(acks) == 1 and acks[0][1] == 1:
            frames.append((acks[0][0], False, False))  # RabbitMQ ignores the cutoff here
        else:
            _append_frames(acks, _cutoff(smallest, nacks), False, frames)
        _append_frames(nacks, _cutoff(smallest, acks), True, frames)
        return frames


def _total(ranges: list[Range]) -> int:
    """Return how many numbers the ranges have; most often there are none, or one."""
    if not ranges:
        return 0
    return ranges[0][1] if len(ranges) == 1 else sum(map(COUNT, ranges))


def _cutoff(smallest: int | None, other_kind: list[Range]) -> int | None:
    """Return the number below which one frame can answer for all; None when it can for every
    number."""
    if not other_kind:
        return smallest
    first = other_kind[0][0]
    return first if smallest is None else min(smallest, first)


def _append_frames(
    ranges: list[Range], cutoff: int | None, nack: bool, frames: list[Frame]
) -> None:
    """Append the frames of one kind; `ranges` are sorted and none of them spans the cutoff."""
    below = 0
    while below < len(ranges) and (cutoff is None or ranges[below][0] < cutoff):
        below += 1
    if below:
        first, count = ranges[below - 1]
        frames.append((first + count - 1, True, nack))
    for first, count in ranges[below:]:
        frames.extend((tag, False, nack) for tag in range(first, first + count))
