"""The unsettled deliveries of a channel: spans of delivery tags, each one run of a queue.

A run of acknowledgements in order costs one step in all. Acknowledgements out of order punch holes
into their span.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.queue.queue import Queue
    from sluicemq.queues.commands import LinkId

DEAD_MAX: Final = 64
"""Up to so many settled spans are not worth a cut."""

HEAD_MAX: Final = 1000
"""Settled spans at the front are cut off when they are so many: not one by one, for each cut moves
a long list..."""
HEAD_MIN: Final = 16
"""... or when they are so many, and half of the list: what is left is quickly moved, and fewer dead
spans are in no processor's cache any more when the next ones take their place."""

MESSAGES_A_SPAN: Final = 32
"""Settling so many messages of a span is as much work as settling another span of one message."""

NO_HOLES: Final[frozenset[int]] = frozenset()
"""The holes of a span that is settled in order, as nearly all are: an empty set of its own would
take 216 bytes."""

Part = tuple[int, int, int]
"""(run, start, end): contents [start, end) of a run."""


class Source:
    """A queue from which a channel has unsettled deliveries, and their link. The same queue with
    another link is another source, which has none of the deliveries of the old one."""

    __slots__ = ("link", "queue")

    def __init__(self, queue: Queue, link: LinkId) -> None:
        self.queue = queue
        self.link = link


class Span:
    """A run of deliveries: the tags from `first` to `first + count - 1` are the contents from 0 to
    `count - 1` of `run` from `source`.

    The first `start` of them are settled, and so are those whose offsets are in `holes`.
    """

    __slots__ = ("count", "first", "holes", "run", "source", "start")

    def __init__(self, first: int, count: int, source: Source, run: int) -> None:
        self.first = first
        self.count = count
        self.source = source
        self.run = run
        self.start = 0
        self.holes: set[int] | frozenset[int] = NO_HOLES

    def open(self) -> int:
        """Return how many of the tags are not settled."""
        return self.count - self.start - len(self.holes)

    def has(self, offset: int) -> bool:
        """Tell whether the content at `offset` is not settled yet."""
        return self.start <= offset < self.count and offset not in self.holes

    def take(self, offset: int) -> None:
        """Settle the content at `offset`, which must not be settled yet."""
        if offset == self.start:
            self.advance(offset + 1)
        elif isinstance(self.holes, set):
            self.holes.add(offset)
        else:
            self.holes = {offset}

    def advance(self, start: int) -> None:
        """Settle everything before the offset `start`, then skip what is settled already from
        there."""
        if self.holes:
            self.holes = holes = {hole for hole in self.holes if hole >= start}
            while start in holes:
                holes.remove(start)
                start += 1
        self.start = start

    def reopen(self, parts: Iterable[tuple[int, int]]) -> None:
        """Make settled stretches outstanding again, each from its start to before its end."""
        settled = {*self.holes, *range(self.start)}
        for start, end in parts:
            settled.difference_update(range(start, end))
        self.holes = settled
        self.advance(0)

    def parts(self, end: int) -> list[Part]:
        """Return the stretches before the offset `end` that are not settled."""
        if not self.holes:
            return [(self.run, self.start, end)] if end > self.start else []
        parts: list[Part] = []
        start = self.start
        for hole in sorted(hole for hole in self.holes if hole < end):
            if hole > start:
                parts.append((self.run, start, hole))
            start = hole + 1
        if end > start:
            parts.append((self.run, start, end))
        return parts


def first_of(span: Span) -> int:
    """Return the first tag of a span, by which spans are sorted."""
    return span.first


class Settlement:
    """Parts to settle, per source, in the order in which the sources first appear; `count` is the
    number of messages in all."""

    __slots__ = ("by_source", "count")

    def __init__(self) -> None:
        self.by_source: dict[Source, list[Part]] = {}
        self.count = 0

    def add(self, span: Span, start: int, end: int) -> None:
        """Add the contents of a span from `start` to before `end`, joined to the part before when
        they touch."""
        self.count += end - start
        parts = self.by_source.setdefault(span.source, [])
        if parts:
            run, before, upto = parts[-1]
            if run == span.run and upto == start:
                parts[-1] = (run, before, end)
                return
        parts.append((span.run, start, end))


class Undoable(Settlement):
    """A settlement that can be taken back, because it knows where its parts came from."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[Span, int, int]] = []

    def add(self, span: Span, start: int, end: int) -> None:
        super().add(span, start, end)
        self.taken.append((span, start, end))


class Unacked:
    """The unacknowledged deliveries of one channel, in the order of their tags."""

    __slots__ = ("count", "dead", "head", "spans")

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.head = 0
        self.dead = 0
        self.count = 0

    def add(self, first: int, count: int, source: Source, run: int) -> None:
        """Note that `count` tags from `first` on were given to the contents of a run."""
        self.spans.append(Span(first, count, source, run))
        self.count += count

    def settle_run(self, first: int, last: int, into: Settlement) -> int | None:
        """Settle the tags from `first` to `last`, inclusive. Returns the first that is not
        outstanding, after settling those before it; None when all were."""
        tag = first
        while tag <= last:
            span = self.find(tag)
            if span is None:
                return tag
            offset = tag - span.first
            end = min(span.count, last - span.first + 1)
            if offset == span.start and not span.holes:
                into.add(span, offset, end)
                span.start = end
                self.count -= end - offset
                tag = span.first + end
            elif span.has(offset):
                into.add(span, offset, offset + 1)
                span.take(offset)
                self.count -= 1
                tag += 1
            else:
                return tag
            self.trim(span)
        return None

    def settle_one(self, tag: int) -> Span | None:
        """Settle one tag, and return its span; None when it is not outstanding."""
        span = self.find(tag)
        if span is None:
            return None
        offset = tag - span.first
        if not span.has(offset):
            return None
        span.take(offset)
        self.count -= 1
        self.trim(span)
        return span

    def settle_upto(self, last: int, into: Settlement) -> int | None:
        """Settle everything up to and including `last`, or all of it when that is 0. Returns
        `last`, with nothing settled, when it is not outstanding, else None."""
        unknown = self.missing(last)
        if unknown is None:
            while self.settle_some(last, into, len(self.spans)):
                pass
        return unknown

    def missing(self, last: int) -> int | None:
        """Return `last` when it is neither 0 nor outstanding, so that nothing can be settled up to
        it; else None."""
        if last:
            span = self.find(last)
            if span is None or not span.has(last - span.first):
                return last
        return None

    def settle_some(self, last: int, into: Settlement, most: int) -> bool:
        """Settle deliveries up to and including `last` (0: all), in at most `most` spans, or fewer
        if many messages are in them. Returns True when there may be more."""
        while self.head < len(self.spans):
            span = self.spans[self.head]
            if last and span.first > last:
                break
            if most <= 0:
                return True
            most -= 1 + len(span.holes) // 4 + span.open() // MESSAGES_A_SPAN
            end = span.count if not last else min(span.count, last - span.first + 1)
            before = span.open()
            for _, start, stop in span.parts(end):
                into.add(span, start, stop)
            span.advance(end)
            self.count -= before - span.open()
            if span.open():
                break
            self.trim(span)
        return False

    def forget(self, most: int) -> int:
        """Forget about `most` spans and holes, the newest first, and return how many spans are
        left."""
        while self.spans and most > 0:
            most -= 1 + len(self.spans.pop().holes)
        return len(self.spans)

    def has_many(self, first: int, last: int, most: int) -> bool:
        """Tell whether the tags from `first` to `last`, both included, are in more than `most`
        spans."""
        spans = self.spans
        end = bisect_right(spans, last, lo=self.head, key=first_of)
        return end - most > self.head and spans[end - most].first > first

    def take_back(self, settlements: Iterable[Undoable]) -> None:
        """Make all that these settlements have settled outstanding again, in its place."""
        again: dict[Span, list[tuple[int, int]]] = {}
        for settlement in settlements:
            self.count += settlement.count
            for span, start, end in settlement.taken:
                again.setdefault(span, []).append((start, end))
        for span, parts in again.items():
            span.reopen(parts)
        spans = dict.fromkeys([*self.spans[self.head :], *again])
        self.spans = sorted((span for span in spans if span.open()), key=first_of)
        self.head = self.dead = 0

    def oldest(self) -> int | None:
        """Return the lowest tag that is outstanding; None when there is none."""
        if self.head == len(self.spans):
            return None
        span = self.spans[self.head]
        return span.first + span.start

    def find(self, tag: int) -> Span | None:
        """Return the span with this tag, settled or not; None when it is gone or never
        was there."""
        spans = self.spans
        head = self.head
        if head < len(spans) and spans[head].first <= tag < spans[head].first + spans[head].count:
            return spans[head]
        index = bisect_right(spans, tag, lo=head, key=first_of) - 1
        if index < head or tag >= spans[index].first + spans[index].count:
            return None
        return spans[index]

    def trim(self, touched: Span) -> None:
        """Forget settled spans after `touched` has changed: those at the front, and all of them
        when they are half of the list."""
        if touched.open():
            return
        spans = self.spans
        self.dead += 1
        while self.head < len(spans) and not spans[self.head].open():
            self.head += 1
        head = self.head
        if head >= HEAD_MAX or (head >= HEAD_MIN and 2 * head >= len(spans)):
            del spans[:head]
            self.dead -= head
            self.head = 0
        elif self.dead > DEAD_MAX and self.dead * 2 > len(spans):
            self.spans = [span for span in spans if span.open()]
            self.head = self.dead = 0
