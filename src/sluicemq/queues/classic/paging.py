"""The backing queue of a plain queue: q1, q2, delta, q3, q4, and how messages move between them.

    publish -> q1 (alpha) -> q2 (beta) -> delta (on disk) -> q3 (beta) -> q4 (alpha) -> fetch
               newest                                                     oldest

    alpha   body and position in RAM
    beta    body in the message store, position in RAM only
    gamma   the same, and the position on disk too
    delta   body and position on disk only: a range and a count

The rules are those of RabbitMQ's variable queue; docs/persistence.md has every move, and
tests/unit/queues/paging_invariants.py what is always true. Positions (RabbitMQ's seq ids) never
change. Chunks move instead of messages. Three things differ, because nothing here waits for a disk:
chunks that leave for delta count there at once and keep their RAM until they are written
(`outgoing`); during a load q3 may be empty, and requeued messages may wait in q4 without bodies
until they are wanted; and embedded bodies, which are only in the index, move on to delta when RAM
has to become free, where RabbitMQ would keep up to 16384 of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sluicemq.limits import TRIM_MESSAGES
from sluicemq.queues.classic.chunk import Chunk, copy_of, divided, position_of
from sluicemq.queues.classic.paging_jobs import PagingJobs
from sluicemq.queues.classic.requeued import Requeued
from sluicemq.queues.classic.subqueues import DELTA, NO_CHUNKS, PUBLISH, Q1, Q2, Q3, Q4, REQUEUE
from sluicemq.storage.queue_index import IndexRead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic.backing import Out


class PlainBacking(PagingJobs):
    """Holds the ready messages of one queue, or of one priority, and moves them in and out."""

    __slots__ = ()

    # -- in and out

    def publish(self, batch: Batch, expiry: int = 0) -> int:
        contents = batch.contents
        count = len(contents)
        position = self.next_position
        if self.lazy and not (self.q1.count or self.q2.count):
            chunk = self.chunk_of(batch, expiry)
            self.next_position += count
            self.depth.ram_messages += count
            self._page(PUBLISH, chunk)
            return position
        tail = self.q1 if self.q3.count or self.delta.count else self.q4
        chunks = tail.chunks
        if chunks and chunks[-1].accepts_batch(batch, expiry):
            chunks[-1].append(contents)
        else:
            tail.own().append(self.chunk_of(batch, expiry))
        tail.count += count
        tail.ram += count
        self.depth.ram_messages += count
        self.next_position = position + count
        return position

    def chunk_of(self, batch: Batch, expiry: int) -> Chunk:
        """Make a chunk from a batch, at the next position; `expiry` is in milliseconds since the
        epoch, 0: it never expires."""
        position = self.next_position
        base = batch.first_id - position if batch.first_id else None
        return Chunk(
            batch.traits,
            batch.contents,
            batch.same_size,
            position,
            False,
            base,
            base is not None and self.durable and batch.traits.persistent,
            None,
            expiry,
        )

    def head(self) -> Chunk | None:
        if self.returned.rows:
            first = self.returned.first()
        elif self.q4.chunks:
            return self.q4.chunks[0]
        elif self.q3.chunks:
            first = self.q3.chunks[0]
        else:
            return None
        return first if first.bodies else None

    def first(self) -> Chunk | None:
        if self.returned.rows:
            return self.returned.first()
        chunks = self.q4.chunks or self.q3.chunks
        return chunks[0] if chunks else None

    def took(self, chunk: Chunk, count: int) -> None:
        assert count <= chunk.left()
        chunk.start += count
        returned = self.returned
        queue = self.q4 if returned.rows or self.q4.chunks else self.q3
        queue.count -= count
        queue.ram -= count
        self.depth.ram_messages -= count
        assert 0 <= queue.ram <= queue.count, "messages were taken that were not here"
        end = chunk.position + chunk.start
        if end > self.fetched:
            self.fetched = end
            self.delivered = max(self.delivered, end)
        if chunk.start == len(chunk.contents):
            (returned if returned.rows else queue.chunks).popleft()
            chunk.contents = []  # runs keep the chunk for its traits, not for its messages
            if queue is self.q3 and not queue.count:
                self.q3_is_empty()
        elif chunk.start >= TRIM_MESSAGES:
            chunk.trim()

    def give_back(self, chunks: list[Chunk]) -> None:
        """Make taken messages ready again, each where its position belongs: in q4, q3 or delta."""
        to_delta = self.delta.start if self.delta.count else self.next_position
        to_q3 = position_of(self.q3.chunks[0]) if self.q3.chunks else to_delta
        for chunk in chunks:
            before, rest = divided(chunk, to_q3)
            if before is not None:
                self._back_to_q4(before)
            if rest is not None:
                if rest.bodies:
                    self.depth.ram_messages += rest.left()
                before, rest = divided(rest, to_delta)
                if before is not None:
                    self.q3.insert(before)
                if rest is not None:
                    self._page(REQUEUE, rest)

    def _back_to_q4(self, chunk: Chunk) -> None:
        left = chunk.left()
        self.q4.count += left
        if chunk.bodies:
            self.q4.ram += left
            self.depth.ram_messages += left
        self.returned.add(chunk)

    def clear(self, out: Out) -> tuple[Iterator[Chunk], list[range]]:
        leaving = deque(self.leaving())
        on_disk: list[range] = []
        delta = self.delta
        if delta.count:
            others = [*out(delta.start, delta.end), *self.condemned]
            others += [chunk.positions() for chunk in leaving]
            on_disk = self.index.live_in(delta.start, delta.end, others)
            if delta.references:
                self.condemned += on_disk
            else:
                for positions in on_disk:
                    self.index.acknowledge(positions)
        queues = (self.q4, self.q3, self.q2, self.q1)
        gone: list[deque[Chunk] | Requeued] = [
            self.returned,
            *(queue.chunks for queue in queues),
            leaving,
        ]
        for queue in queues:
            queue.clear()
        self.returned = Requeued()
        self.outgoing = NO_CHUNKS
        self.in_flight.clear()
        self.delta.clear()
        self.epoch += 1
        return one_by_one(gone), on_disk

    # -- out of RAM

    def become(self, lazy: bool) -> None:
        self.converting = lazy and (self.converting or not self.lazy) and self.length() > 0
        self.lazy = lazy

    def convert(self, store_is_full: Callable[[], bool], hungry: bool) -> None:
        if isinstance(self.index.job, IndexRead):
            return  # delta keeps its beginning until that is over
        target, self.target = self.target, 0
        self.alphas_to_betas(self.length(), store_is_full)
        self.target = target
        if self.q1.chunks or self.q4.chunks:
            return  # chunks that are waited for come back to q3 meanwhile, and have to stay there
        while self.q3.chunks and not hungry:
            self._page(Q3, self.q3.take_last(self.q3.count))
        while self.q2.chunks:
            self._page(Q2, self.q2.take_first(self.q2.count))
        self.converting = False

    def alphas_to_betas(self, quota: int, store_is_full: Callable[[], bool]) -> int:
        """Let up to `quota` bodies leave RAM: q1's oldest, then q4's newest. Returns what is left
        of the quota."""
        while quota > 0 and self.q1.chunks and not self._enough() and not store_is_full():
            target = self.q2 if self.delta.count else self.q3
            chunk = self.q1.take_first(quota)
            quota -= chunk.left()
            self._trim(chunk)
            target.add(self.moved(Q1, target.name, chunk))
        while quota > 0 and not self._enough() and not store_is_full():
            if self.q4.chunks:
                chunk = self.q4.take_last(quota)
            elif self.returned.rows:
                chunk = self._last_returned(quota)
            else:
                break
            if chunk.bodies:
                quota -= chunk.left()
            self._trim(chunk)
            self.q3.add_first(self.moved(Q4, Q3, chunk))
        return quota

    def _enough(self) -> bool:
        return self.target is None or self.depth.ram_messages <= self.target

    def _last_returned(self, quota: int) -> Chunk:
        chunk = self.returned.pop()
        left = chunk.left()
        if left > quota:
            newest = chunk.split(left - quota)
            self.returned.add(chunk)
            chunk = newest
        self.q4.count -= chunk.left()
        if chunk.bodies:
            self.q4.ram -= chunk.left()
        return chunk

    def _trim(self, chunk: Chunk) -> None:
        """Drop the bodies, if they have another place."""
        if chunk.id_base is None or not chunk.bodies:
            return
        self.hand_to_store(chunk)
        self.depth.ram_messages -= chunk.left()
        self.depth.footprint -= chunk.footprint()
        chunk.drop_bodies()

    def hand_to_store(self, chunk: Chunk) -> None:
        if not chunk.in_store:
            chunk.in_store = True
            self.to_store.append(copy_of(chunk))
            self.to_store_count += chunk.left()
            self.disk_writes += chunk.left()

    def betas_permitted(self, length: int) -> int:
        """Return how many messages of q2 and q3 may stay there, of `length` ready messages (spec
        4.9, step 4): all, if there is no target."""
        if self.target is None or not length:
            return length
        if not self.target:
            return min(self.q3.count, self.betas_min)
        betas = length - self.q1.count - self.q4.count
        return max(self.betas_min, betas - betas * betas // (betas + self.target))

    def betas_to_delta(self) -> None:
        """Move positions that may not stay out of RAM, in batches; and embedded bodies, as long as
        RAM must become free."""
        target = self.target
        if target is None:
            return
        quota = self.q2.count + self.q3.count - self.betas_permitted(self.length())
        bodies = self.q2.ram + self.q3.ram
        quota = max(quota, min(bodies, self.depth.ram_messages - target))
        if quota < self.io_batch:
            return
        while quota > 0 and (spare := self._spare_of_q3()) > 0:
            chunk = self.q3.take_last(min(quota, spare))
            quota -= chunk.left()
            self._page(Q3, chunk)
        while quota > 0 and self.q2.chunks:
            chunk = self.q2.take_first(quota)
            quota -= chunk.left()
            self._page(Q2, chunk)

    def _spare_of_q3(self) -> int:
        """Return how many of its newest messages q3 can do without: it keeps as many as a load may
        bring. None during a load: delta keeps its beginning until that is over."""
        if isinstance(self.index.job, IndexRead):
            return 0
        worth = self.load_worth()
        return self.q3.count - worth - worth // 2

    def _page(self, source: str, chunk: Chunk) -> None:
        """Move a chunk to delta, from where `source` says. Its RAM is free as soon as it is on
        disk."""
        self.moved(source, DELTA, chunk)
        left = chunk.left()
        delta = self.delta
        delta.cover(chunk.positions())
        delta.count += left
        delta.bytes += chunk.size()
        if self.durable and chunk.traits.persistent:
            delta.persistent += left
        if chunk.id_base is not None:
            delta.references = True
            if chunk.bodies:
                self.hand_to_store(chunk)
        if chunk.bodies:
            self.depth.ram_messages -= left
        if chunk.id_base is not None and chunk.bodies:
            self.depth.footprint -= chunk.footprint()
            chunk.drop_bodies()
        if self.index.missing(chunk.positions()):
            if self.outgoing is NO_CHUNKS:
                self.outgoing = deque()
            self.outgoing.append(chunk)
        else:
            self.depth.footprint -= chunk.footprint()


def one_by_one(parts: Iterable[deque[Chunk] | Requeued]) -> Iterator[Chunk]:
    """Give the non-empty chunks; none is kept once it was given."""
    for part in parts:
        while part:
            chunk = part.popleft()
            if chunk.left():
                yield chunk
