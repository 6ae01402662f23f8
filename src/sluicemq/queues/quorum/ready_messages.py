"""The messages of a quorum queue: the ready ones, and the entries of the log that are still needed.

Fresh messages are a row of batches in the order of the log; only the first batch may lack some.
Returned messages have a row of their own, which is served first (RabbitMQ's `returns`). A whole
batch costs as much as one message.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence

from sluicemq.queues.quorum.message_runs import MessageRun, StoredBatch
from sluicemq.storage.bits import bits_of, ranges_of


class ReadyMessages:
    """Ready messages, and all batches with messages still in the queue.

    Each message is fresh, returned, or out: with a consumer, or a dead letter. As an invariant
    `taken` has each batch with returned messages or messages that are out, in the order of the log,
    and no batch in it is behind the first fresh one.
    """

    __slots__ = ("bytes", "count", "fresh", "head", "out", "out_bytes", "returns", "taken")

    def __init__(self) -> None:
        self.fresh: deque[StoredBatch] = deque()
        self.head = 0
        """The place of the first fresh message in the entry of the first fresh batch."""
        self.returns: deque[MessageRun] = deque()
        self.taken: OrderedDict[StoredBatch, None] = OrderedDict()
        self.count = 0
        """The number of ready messages, including returned ones; `bytes` is the size of their
        bodies."""
        self.bytes = 0
        self.out = 0
        """Messages with consumers, and dead letters; `out_bytes` as `bytes`."""
        self.out_bytes = 0

    def enqueue(self, batch: StoredBatch) -> None:
        """Put a batch at the tail."""
        fresh = self.fresh
        if fresh:
            last = fresh[-1]
            assert (last.index, last.end) <= (batch.index, batch.first), "the log never goes back"
        else:
            self.head = batch.first
        fresh.append(batch)
        self.count += batch.count
        self.bytes += batch.bytes_of(batch.places)

    def lengthen(self, batch: StoredBatch, count: int) -> None:
        """Add so many messages to the last batch, which is `batch`."""
        assert batch is self.fresh[-1], "only what is at the tail can be continued"
        batch.count += count
        batch.places = range(batch.first, batch.end)
        self.count += count
        self.bytes += count * batch.size

    def next(self) -> MessageRun | None:
        """Return the next messages to be served, as many as are alike; None when none is ready."""
        if self.returns:
            return self.returns[0]
        if not self.fresh:
            return None
        batch = self.fresh[0]
        if self.head == batch.first:
            return MessageRun(batch, batch.places)
        return MessageRun(batch, range(self.head, batch.end))

    def take(self, run: MessageRun, count: int) -> MessageRun:
        """Take the first `count` messages of `run`, which `next` has returned; they are out from
        now on."""
        whole = len(run.places)
        assert 0 < count <= whole, "more than there is"
        taken = run if count == whole else run.part(0, count)
        if self.returns:
            assert run is self.returns[0], "only the first is served"
            if count == whole:
                self.returns.popleft()
            else:
                self.returns[0] = run.part(count, whole)
        else:
            self._take_fresh(run.batch, count, whole)
        size = taken.bytes
        self.count -= count
        self.bytes -= size
        self.out += count
        self.out_bytes += size
        assert self.count >= 0 and self.bytes >= 0
        return taken

    def _take_fresh(self, batch: StoredBatch, count: int, whole: int) -> None:
        assert batch is self.fresh[0], "only the first is served"
        if not batch.taken:
            self.taken[batch] = None
        batch.taken += count
        if count < whole:
            self.head += count
        else:
            self.fresh.popleft()
            self.head = self.fresh[0].first if self.fresh else 0

    def release(self, run: MessageRun) -> None:
        """Let messages that are out leave the queue for good."""
        batch, count = run.batch, len(run.places)
        batch.taken -= count
        assert batch.taken >= 0, "a message was settled twice"
        if not batch.taken:
            del self.taken[batch]
        self.out -= count
        self.out_bytes -= run.bytes
        assert self.out >= 0 and self.out_bytes >= 0

    def give_back(self, run: MessageRun) -> None:
        """Put messages that were out at the end of the returned ones."""
        assert not run.reason, "what comes back lives"
        count, size = len(run.places), run.bytes
        self.returns.append(run)
        self.count += count
        self.bytes += size
        self.out -= count
        self.out_bytes -= size
        assert self.out >= 0 and self.out_bytes >= 0

    def purge(self) -> int:
        """Remove all ready messages from the queue. Returns their number."""
        count = self.count
        while self.returns:
            run = self.returns[0]
            self.release(self.take(run, len(run.places)))
        self.fresh = deque()
        self.head = self.count = self.bytes = 0
        return count

    # -- the log

    @property
    def first_index(self) -> int:
        """Return the index of the first entry that is still needed; 0 when none is."""
        if self.taken:
            return next(iter(self.taken)).index
        return self.fresh[0].index if self.fresh else 0

    def live(self, out: Iterable[MessageRun]) -> Iterator[tuple[int, Sequence[range], int]]:
        """Give the entries that are still needed and the places of their messages, as in
        Replicated, with the bytes of their bodies. `out` are all runs that are out."""
        bits: dict[StoredBatch, int] = dict.fromkeys(self.taken, 0)
        for run in (*self.returns, *out):
            bits[run.batch] |= bits_of(run.places, run.batch.first)
        fresh = iter([*self.fresh])
        if self.fresh:
            first = next(fresh)
            left = bits_of(range(self.head, first.end), first.first)
            bits[first] = bits.get(first, 0) | left
        index = size = 0
        ranges: list[range] = []
        for batch, live in self._all(bits, fresh):
            if batch.index != index and ranges:
                yield index, ranges, size
                ranges, size = [], 0
            index = batch.index
            places = ranges_of(live, batch.first)
            size += sum(map(batch.bytes_of, places))
            ranges = joined(ranges, places)
        if ranges:
            yield index, ranges, size

    def _all(
        self, bits: dict[StoredBatch, int], fresh: Iterator[StoredBatch]
    ) -> Iterator[tuple[StoredBatch, int]]:
        """Give each batch with a bit for each of its live messages."""
        yield from bits.items()
        for batch in fresh:
            yield batch, (1 << batch.count) - 1


def joined(ranges: list[range], more: Iterable[range]) -> list[range]:
    """Return the ranges of both, ascending: a range that begins where another ends continues it."""
    for each in more:
        if ranges and ranges[-1].stop == each.start:
            ranges[-1] = range(ranges[-1].start, each.stop)
        else:
            ranges.append(each)
    return ranges
