"""The backing queue of a classic queue: q1, q2, delta, q3, q4, and how messages move between them.

    publish -> q1 (alpha) -> q2 (beta) -> delta (on disk) -> q3 (beta) -> q4 (alpha) -> fetch
               newest                                                     oldest

    alpha   body and position in RAM
    beta    body in the message store, position in RAM only
    gamma   the same, and the position on disk too
    delta   body and position on disk only: a range and a count

Rules, numbers and invariants: spec 4. Positions (RabbitMQ's seq ids) never change. Chunks move
instead of messages. Three things differ, for here nobody waits for a disk: what leaves for delta is
counted there at once and keeps its RAM until it is written (`outgoing`); a load takes a while, in
which q3 may be empty; and an embedded body, which has no other place than the index, is moved on to
delta when RAM has to become free, where RabbitMQ would keep up to 16384 of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.limits import LOAD_BYTES, PAGE_OUT_BYTES, TRIM_MESSAGES
from sluicemq.queues.chunk import Chunk, position_of
from sluicemq.storage.bits import bits_of, ranges_of
from sluicemq.storage.entries import Run
from sluicemq.storage.queue_index import IndexRead, IndexWrite, QueueIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluicemq.model.batch import Batch
    from sluicemq.queues.machine import Depth

PUBLISH, OUT, REQUEUE = "publish", "out", "requeue"
Q1, Q2, DELTA, Q3, Q4 = "q1", "q2", "delta", "q3", "q4"

MOVES: Final[dict[tuple[str, str], str]] = {
    (PUBLISH, Q4): "nothing is paged out: the new message may be the next to be fetched",
    (PUBLISH, Q1): "something is paged out: the new message is behind it",
    (PUBLISH, DELTA): "lazy queue",
    (Q1, Q3): "alpha to beta while delta is empty",
    (Q1, Q2): "alpha to beta while delta is not empty",
    (Q4, Q3): "alpha to beta, the newest of q4 first, when q1 has no more",
    (Q3, DELTA): "gamma to delta, the newest of q3 first; one load's worth stays",
    (Q2, DELTA): "gamma to delta, the oldest of q2 first",
    (DELTA, Q3): "loaded: q3 has run low",
    (Q2, Q3): "delta has become empty",
    (Q1, Q4): "q3 and delta have become empty",
    (Q3, OUT): "fetched; its body was read before when it had none",
    (Q4, OUT): "fetched",
    (REQUEUE, Q4): "before everything in q3",
    (REQUEUE, Q3): "before delta, but not before all of q3",
    (REQUEUE, DELTA): "behind the beginning of delta",
}
"""Every legal move, and when it is made."""


class SubQueue:
    """One of q1, q2, q3, q4: `count` messages, of which `ram` have their bodies in RAM."""

    __slots__ = ("chunks", "count", "name", "ram")

    def __init__(self, name: str) -> None:
        self.name = name
        self.chunks: deque[Chunk] = deque()
        self.count = 0
        self.ram = 0

    def add(self, chunk: Chunk) -> None:
        """At the new end."""
        self.chunks.append(chunk)
        self._counted(chunk, 1)

    def add_first(self, chunk: Chunk) -> None:
        """At the old end."""
        self.chunks.appendleft(chunk)
        self._counted(chunk, 1)

    def take_first(self, count: int) -> Chunk:
        """The oldest chunk, at most `count` messages of it."""
        chunk = self.chunks.popleft()
        if chunk.left() > count:
            self.chunks.appendleft(chunk.split(count))
        self._counted(chunk, -1)
        return chunk

    def take_last(self, count: int) -> Chunk:
        """The newest chunk, at most the last `count` messages of it."""
        chunk = self.chunks.pop()
        left = chunk.left()
        if left > count:
            self.chunks.append(chunk)
            chunk = chunk.split(left - count)
        self._counted(chunk, -1)
        return chunk

    def _counted(self, chunk: Chunk, sign: int) -> None:
        left = sign * chunk.left()
        self.count += left
        if chunk.bodies:
            self.ram += left

    def clear(self) -> None:
        self.chunks.clear()
        self.count = self.ram = 0


class Delta:
    """What is on disk only: `count` messages with positions in [start, end)."""

    __slots__ = ("bytes", "count", "end", "persistent", "references", "start")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Blank: no messages, no range."""
        self.start = self.end = self.count = self.persistent = self.bytes = 0
        self.references = False
        """Bodies in the message store may belong to it."""

    def cover(self, positions: range) -> None:
        """The range grows to hold these."""
        if not self.count:
            self.start, self.end = positions[0], positions[-1] + 1
        else:
            self.start = min(self.start, positions[0])
            self.end = max(self.end, positions[-1] + 1)

    def facts(self) -> dict[str, int]:
        """As backing_queue_status shows it."""
        return {
            "start": self.start,
            "count": self.count,
            "transient": self.count - self.persistent,
            "end": self.end,
        }


class Backing:
    """The ready messages of one queue. `depth` gets the figures about RAM.

    `io_batch`: positions leave for delta in batches of at least so many; `betas_min`: so many betas
    are always permitted (the entries of a segment).
    """

    def __init__(self, depth: Depth, index: QueueIndex, io_batch: int, durable: bool) -> None:
        self.depth = depth
        self.index = index
        self.io_batch = io_batch
        self.betas_min = index.entry_count
        self.durable = durable
        self.lazy = False
        self.q1, self.q2 = SubQueue(Q1), SubQueue(Q2)
        self.q3, self.q4 = SubQueue(Q3), SubQueue(Q4)
        self.delta = Delta()
        self.returned: deque[Chunk] = deque()
        """Requeued: the front of q4, counted in it."""
        self.unsorted: list[Chunk] = []
        self.coming_back: list[Chunk] = []
        """Requeued without their bodies: nothing is fetched until these have been read."""
        self.outgoing: deque[Chunk] = deque()
        self.in_flight: list[Chunk] = []
        """What the write job that is under way will free."""
        self.to_store: list[Chunk] = []
        """Transient bodies that the message store must take, for they were paged out."""
        self.next_position = 0
        self.delivered = 0
        """Everything below this position was given to a consumer at some time."""
        self.fetched = 0
        """The same, since the start."""
        self.target: int | None = None
        """Messages that may have their bodies in RAM; None: as many as there are."""
        self.lost: list[str] = []
        """What could not be read, for the log."""
        self.epoch = 0
        """Rises with every purge: what was under way then is of no interest."""
        self.condemned: list[range] = []
        """Purged while they were on disk only."""
        self.seek_references = False
        """Some of these may have their bodies in the message store: what ids they have must be
        read before they are forgotten."""
        self.disk_reads = 0
        self.disk_writes = 0

    # -- in and out

    def publish(self, batch: Batch) -> None:
        """Append a batch at the tail."""
        contents = batch.contents
        count = len(contents)
        if self.lazy:
            chunk = self.chunk_of(batch)
            self.next_position += count
            self.depth.ram_messages += count
            self._page(PUBLISH, chunk)
            return
        tail = self.q1 if self.q3.count or self.delta.count else self.q4
        chunks = tail.chunks
        if chunks and chunks[-1].accepts_batch(batch):
            chunks[-1].append(contents)
        else:
            chunks.append(self.chunk_of(batch))
        tail.count += count
        tail.ram += count
        self.depth.ram_messages += count
        self.next_position += count

    def chunk_of(self, batch: Batch) -> Chunk:
        """A chunk at the next position."""
        position = self.next_position
        base = batch.first_id - position if batch.first_id else None
        return Chunk(
            batch.address,
            batch.contents,
            batch.even,
            batch.persistent,
            batch.number,
            batch.copies,
            position,
            False,
            base,
            base is not None and self.durable and batch.persistent,
        )

    def head(self) -> Chunk | None:
        """The chunk with the oldest ready message, if that one's body is in RAM."""
        if self.coming_back:
            return None
        if self.unsorted:
            self.sort()
        if self.returned:
            return self.returned[0]
        if self.q4.chunks:
            return self.q4.chunks[0]
        if self.q3.chunks and self.q3.chunks[0].bodies:
            return self.q3.chunks[0]
        return None

    def took(self, chunk: Chunk, count: int) -> None:
        """`count` messages of the head chunk have been taken."""
        assert count <= chunk.left()
        chunk.start += count
        queue = self.q4 if self.returned or self.q4.chunks else self.q3
        queue.count -= count
        queue.ram -= count
        self.depth.ram_messages -= count
        end = chunk.position + chunk.start
        if end > self.fetched:
            self.fetched = end
            self.delivered = max(self.delivered, end)
        if chunk.start == len(chunk.contents):
            (self.returned if self.returned else queue.chunks).popleft()
            chunk.contents = []  # lots keep the chunk for its kind, not for its messages
            if queue is self.q3 and not queue.count:
                self._q3_is_empty()
        elif chunk.start >= TRIM_MESSAGES:
            chunk.trim()

    def _q3_is_empty(self) -> None:
        """Then delta is loaded soon; without one, q1 is next."""
        if not self.delta.count:
            assert not self.q2.count
            self.q4, self.q1 = self.q1, self.q4
            self.q4.name, self.q1.name = Q4, Q1

    def give_back(self, chunks: list[Chunk]) -> None:
        """Requeued messages go to their positions (spec 4.7)."""
        if not (self.q3.count or self.delta.count):
            self._back_to_q4(chunks)
            return
        for each in chunks:
            rest: Chunk | None = each
            for border in self._borders():
                if rest is None:
                    break
                before, rest = divided(rest, border)
                if before is not None:
                    self._give_back_one(before)
            if rest is not None:
                self._give_back_one(rest)

    def _borders(self) -> list[int]:
        borders = [position_of(self.q3.chunks[0])] if self.q3.chunks else []
        return [*borders, self.delta.start] if self.delta.count else borders

    def _give_back_one(self, chunk: Chunk) -> None:
        position = position_of(chunk)
        if self.delta.count and position >= self.delta.start:
            if chunk.bodies:
                self.depth.ram_messages += chunk.left()
            self._page(REQUEUE, chunk)
        elif self.q3.chunks and position > position_of(self.q3.chunks[0]):
            if chunk.bodies:
                self.depth.ram_messages += chunk.left()
            self.q3.add(chunk)
            self.q3.chunks = deque(sorted(self.q3.chunks, key=position_of))
        else:
            self._back_to_q4([chunk])

    def _back_to_q4(self, chunks: list[Chunk]) -> None:
        """Not sorted in before it matters, for thousands may follow one by one."""
        for chunk in chunks:
            left = chunk.left()
            self.q4.count += left
            if chunk.bodies:
                self.q4.ram += left
                self.depth.ram_messages += left
                self.unsorted.append(chunk)
            else:
                self.coming_back.append(chunk)

    def sort(self) -> None:
        """Put in order what has returned; what was dealt to several consumers joins again."""
        returned: deque[Chunk] = deque()
        for chunk in sorted([*self.returned, *self.unsorted], key=position_of):
            last = returned[-1] if returned else chunk
            follows = last is not chunk and last.positions().stop == position_of(chunk)
            if follows and last.continues(chunk):
                last.append(chunk.rest())
            else:
                returned.append(chunk)
        self.returned = returned
        self.unsorted = []

    def clear(self) -> list[Chunk]:
        """Drop everything; positions go on. Returns what is known of in RAM; what is on disk only
        is `condemned` from now on, until the queue index knows no more of it."""
        gone = [*self.in_ram(), *self.outgoing, *self.in_flight]
        if self.delta.count:
            self.condemned += self.index.live_in(self.delta.start, self.delta.end)
            self.seek_references |= self.delta.references
        for queue in (self.q1, self.q2, self.q3, self.q4):
            queue.clear()
        self.returned.clear()
        self.unsorted.clear()
        self.coming_back.clear()
        self.outgoing.clear()
        self.in_flight.clear()
        self.to_store.clear()
        self.delta.clear()
        self.epoch += 1
        return [chunk for chunk in gone if chunk.left()]

    def in_ram(self) -> Iterable[Chunk]:
        """The chunks of q4, q3, q2, q1, in about that order."""
        yield from self.returned
        yield from self.unsorted
        yield from self.coming_back
        for queue in (self.q4, self.q3, self.q2, self.q1):
            yield from queue.chunks

    # -- out of RAM

    def alphas_to_betas(self, quota: int, store_is_full: Callable[[], bool]) -> int:
        """q1's oldest, then q4's newest (spec 4.9). Returns what is left of the quota."""
        while quota > 0 and self.q1.chunks and not self._enough() and not store_is_full():
            target = self.q2 if self.delta.count else self.q3
            chunk = self.q1.take_first(quota)
            quota -= chunk.left()
            self._trim(chunk)
            target.add(self._moved(Q1, target.name, chunk))
        while quota > 0 and not self._enough() and not store_is_full():
            if self.q4.chunks:
                chunk = self.q4.take_last(quota)
            elif self.returned and not self.unsorted and not self.coming_back:
                chunk = self._last_returned(quota)
            else:
                break
            quota -= chunk.left()
            self._trim(chunk)
            self.q3.add_first(self._moved(Q4, Q3, chunk))
        return quota

    def _enough(self) -> bool:
        return self.target is None or self.depth.ram_messages <= self.target

    def _last_returned(self, quota: int) -> Chunk:
        chunk = self.returned.pop()
        left = chunk.left()
        if left > quota:
            self.returned.append(chunk)
            chunk = chunk.split(left - quota)
        self.q4.count -= chunk.left()
        self.q4.ram -= chunk.left()
        return chunk

    def _trim(self, chunk: Chunk) -> None:
        """Let go of the bodies, if they have another place."""
        if chunk.id_base is None or not chunk.bodies:
            return
        self.hand_to_store(chunk)
        self.depth.ram_messages -= chunk.left()
        self.depth.footprint -= chunk.footprint()
        chunk.drop_bodies()

    def hand_to_store(self, chunk: Chunk) -> None:
        """Its bodies are in the message store after this."""
        if not chunk.in_store:
            chunk.in_store = True
            self.to_store.append(copy_of(chunk))
            self.disk_writes += chunk.left()

    def betas_permitted(self, length: int) -> int:
        """How many of q2 and q3 may stay there (spec 4.9, step 4); None for the target permits
        all."""
        if self.target is None or not length:
            return length
        if not self.target:
            return min(self.q3.count, self.betas_min)
        betas = length - self.q1.count - self.q4.count
        return max(self.betas_min, betas - betas * betas // (betas + self.target))

    def betas_to_delta(self, length: int) -> None:
        """Those not permitted, in batches; and embedded bodies, as long as RAM must become free."""
        target = self.target
        if target is None:
            return
        quota = self.q2.count + self.q3.count - self.betas_permitted(length)
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
        """How many of its newest q3 can do without: it keeps what a load would bring."""
        chunks = self.q3.chunks
        if not chunks:
            return 0
        first = chunks[0]
        each = max(1, first.size() // first.left())
        return self.q3.count - max(1, min(self.betas_min, LOAD_BYTES // each))

    def _page(self, source: str, chunk: Chunk) -> None:
        """To delta, from where `source` says. Its RAM is free as soon as it is on disk."""
        self._moved(source, DELTA, chunk)
        left = chunk.left()
        delta = self.delta
        delta.cover(chunk.positions())
        delta.count += left
        delta.bytes += chunk.size()
        if self.durable and chunk.persistent:
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
            self.outgoing.append(chunk)
        else:
            self.depth.footprint -= chunk.footprint()

    def _moved(self, source: str, target: str, chunk: Chunk) -> Chunk:
        assert (source, target) in MOVES, f"no message goes from {source} to {target}"
        return chunk

    # -- jobs of the index

    def next_job(self, hungry: bool, writing: bool = True) -> IndexWrite | IndexRead | None:
        """What the disk is to do next for this queue. `hungry`: somebody would take more;
        `writing`: it may be written to."""
        if self.index.busy:
            return None
        if self.condemned and self.seek_references:
            return self._seek()
        if hungry and self._runs_low():
            self._recall()
            if self._runs_low() and (job := self._load()) is not None:
                return job
        return self._write() if self.outgoing and writing else None

    def _runs_low(self) -> bool:
        """Is it time to load? Early enough for the disk not to be waited for."""
        if not self.delta.count or self.q4.count or self.coming_back:
            return False
        ahead = self.q3.chunks
        return len(ahead) < 64 and sum(chunk.size() for chunk in ahead) < LOAD_BYTES // 2

    def _recall(self) -> None:
        """All of delta is still in RAM: nothing needs to be read."""
        waiting = sum(chunk.left() for chunk in self.outgoing)
        if not waiting or waiting != self.delta.count:
            return
        for chunk in sorted(self.outgoing, key=position_of):
            if chunk.bodies:
                self.depth.ram_messages += chunk.left()
            self.q3.add(self._moved(DELTA, Q3, chunk))
        self.outgoing.clear()
        self._delta_is_empty()

    def _delta_is_empty(self) -> None:
        """q2 follows q3 directly now."""
        self.delta.clear()
        while self.q2.chunks:
            self.q3.add(self._moved(Q2, Q3, self.q2.take_first(self.q2.count)))
        if not self.q3.count:
            self._q3_is_empty()

    def _write(self) -> IndexWrite:
        """The next part of what is on its way to delta."""
        runs: list[Run] = []
        size = 0
        while self.outgoing and size < PAGE_OUT_BYTES:
            chunk = self.outgoing.popleft()
            self.in_flight.append(chunk)
            runs += self.runs_of(chunk)
            size += chunk.size() if chunk.bodies else 16 * chunk.left()
        self.disk_writes += sum(run.count for run in runs)
        return self.index.write(runs)

    def runs_of(self, chunk: Chunk) -> list[Run]:
        """What of the chunk is not on disk yet, as entries for the index."""
        positions = chunk.positions()
        missing = self.index.missing(positions)
        if not missing:
            return []
        whole = self.run_of(chunk)
        if sum(map(len, missing)) == len(positions):
            return [whole]
        first = positions[0]
        return [whole.part(part[0] - first, part[-1] + 1 - first) for part in missing]

    def run_of(self, chunk: Chunk) -> Run:
        """The chunk as an entry."""
        positions = chunk.positions()
        persistent = self.durable and chunk.persistent
        sizes = chunk.rest_sizes()
        even = chunk.even
        if chunk.id_base is None:
            return entry_of(self.index.queue_id, chunk, positions, persistent, chunk.rest(), sizes)
        run = entry_of(self.index.queue_id, chunk, positions, persistent, None, sizes)
        run.even = even
        run.first_id = chunk.id_base + positions[0]
        return run

    def wrote(self, job: IndexWrite) -> None:
        """What it wrote needs no RAM any more."""
        self.index.wrote(job)
        for chunk in self.in_flight:
            self.depth.footprint -= chunk.footprint()
        self.in_flight = []

    def _seek(self) -> IndexRead:
        """Which ids have those that were purged on disk?"""
        first = self.condemned[0]
        job = self.index.read(first[0], first[-1] + 1, LOAD_BYTES, keep_bodies=False)
        job.epoch = -1
        return job

    def sought(self, job: IndexRead) -> list[Run]:
        """The entries of condemned messages whose bodies are in the message store; a part of them
        is condemned no more."""
        self.index.was_read(job)
        base = job.segment.number * self.index.entry_count
        wanted = 0
        left: list[range] = []
        for positions in self.condemned:
            before, behind = cut_at(positions, job.upto)
            if before:
                wanted |= bits_of(before, base)
            if behind:
                left.append(behind)
        self.condemned = left
        self.seek_references = bool(left)
        found: list[Run] = []
        for run in job.runs:
            if run.contents is None:
                for index, position in enumerate(run.positions):
                    if wanted >> (position - base) & 1:
                        found.append(run.part(index, index + 1))
        for positions in ranges_of(wanted, base):
            self.index.acknowledge(positions)
        return found

    def _load(self) -> IndexRead | None:
        """What is next in delta. None: it must be written first."""
        delta = self.delta
        end = min([delta.end, *map(position_of, self.outgoing)])
        first = self.index.first_live(delta.start, end)
        if first is None:
            return None
        job = self.index.read(first, end, LOAD_BYTES)
        job.epoch = self.epoch
        return job

    def loaded(self, job: IndexRead, out: Callable[[int, int], list[range]]) -> list[range]:
        """From delta to q3. `out` says what of [start, end) is at consumers. Returns the positions
        that could not be read."""
        self.index.was_read(job)
        if job.epoch != self.epoch:
            return []
        delta = self.delta
        expected = self._expected(job.start, job.upto, out)
        chunks = self._chunks_of(job.runs, expected, job.segment.number)
        for chunk in chunks:
            self._loaded_one(chunk)
        lost = self._not_found(expected, chunks, job.segment.number)
        for positions in lost:
            delta.count -= len(positions)
        delta.start = job.upto
        self.lost += job.damaged
        if not delta.count:
            self._delta_is_empty()
        return lost

    def _expected(self, start: int, upto: int, out: Callable[[int, int], list[range]]) -> int:
        """Bits of the positions of one segment that must be found."""
        bits = 0
        for positions in self.index.live_in(start, upto):
            number = positions[0] // self.index.entry_count
            bits |= bits_of(positions, number * self.index.entry_count)
        if start < self.fetched:
            base = start // self.index.entry_count * self.index.entry_count
            for positions in out(start, upto):
                bits &= ~bits_of(positions, base)
        return bits

    def _chunks_of(self, runs: list[Run], wanted: int, segment: int) -> list[Chunk]:
        """What was read and is wanted, by position, each once."""
        base = segment * self.index.entry_count
        chunks: list[Chunk] = []
        for run in runs:
            bits = bits_of(run.positions, base)
            take = bits & wanted
            if not take:
                continue
            wanted &= ~take
            first = run.positions[0]
            if take == bits and run.step == 1:
                chunks += self._chunks_of_run(run)
                continue
            for part in ranges_of(take, base):
                if run.step == 1:
                    chunks += self._chunks_of_run(run.part(part[0] - first, part[-1] + 1 - first))
                else:
                    for each in part:
                        index = (each - first) // run.step
                        chunks += self._chunks_of_run(run.part(index, index + 1))
        chunks.sort(key=position_of)
        return chunks

    def _chunks_of_run(self, run: Run) -> list[Chunk]:
        """Those before `delivered` are redelivered, the others are not."""
        position = run.first
        if position < self.delivered < position + run.count:
            cut = self.delivered - position
            parts = [run.part(0, cut), run.part(cut, run.count)]
            return [chunk for part in parts for chunk in self._chunks_of_run(part)]
        return [
            Chunk(
                run.address,
                run.contents if run.contents is not None else [],
                run.even,
                run.persistent,
                run.number,
                1,
                position,
                position < self.delivered,
                None if run.contents is not None else run.first_id - position,
                run.contents is None,
                None if run.contents is not None else run.sizes,
            )
        ]

    def _loaded_one(self, chunk: Chunk) -> None:
        left = chunk.left()
        self._moved(DELTA, Q3, chunk)
        self.q3.add(chunk)
        delta = self.delta
        delta.count -= left
        delta.bytes -= chunk.size()
        if self.durable and chunk.persistent:
            delta.persistent -= left
        if chunk.bodies:
            self.depth.ram_messages += left
            self.depth.footprint += chunk.footprint()
            self.disk_reads += left

    def _not_found(self, expected: int, chunks: list[Chunk], segment: int) -> list[range]:
        base = segment * self.index.entry_count
        for chunk in chunks:
            expected &= ~bits_of(chunk.positions(), base)
        return ranges_of(expected, base) if expected else []

    # -- bodies from the message store

    def bodies_wanted(self, hungry: bool) -> list[Chunk]:
        """Chunks whose bodies are needed next and are not being read yet."""
        wanted = [chunk for chunk in self.coming_back if not chunk.reading]
        if hungry and not self.q4.count:
            size = 0
            for chunk in self.q3.chunks:
                size += chunk.size()
                if not chunk.bodies and not chunk.reading:
                    wanted.append(chunk)
                if size >= LOAD_BYTES:
                    break
        for chunk in wanted:
            chunk.reading = True
        return wanted

    def got_bodies(self, chunk: Chunk, contents: dict[int, bytes]) -> list[range]:
        """They were read. Returns the positions of those that were not found."""
        chunk.reading = False
        assert chunk.id_base is not None
        here = chunk in self.coming_back
        if not here and chunk not in self.q3.chunks:
            return []  # purged, or paged out again meanwhile
        positions = chunk.positions()
        found = [contents.get(chunk.id_base + position) for position in positions]
        self.disk_reads += len(found)
        if None not in found:
            chunk.set_bodies([content for content in found if content is not None])
            self._has_bodies(chunk, here)
            return []
        return self._some_bodies(chunk, found, here)

    def _has_bodies(self, chunk: Chunk, came_back: bool) -> None:
        left = chunk.left()
        self.depth.ram_messages += left
        self.depth.footprint += chunk.footprint()
        if came_back:
            self.coming_back.remove(chunk)
            self.q4.ram += left
            self.unsorted.append(chunk)
        else:
            self.q3.ram += left

    def _some_bodies(self, chunk: Chunk, found: list[bytes | None], came_back: bool) -> list[range]:
        """Split around what is missing; that is gone."""
        queue = self.q4 if came_back else self.q3
        lost: list[range] = []
        pieces: list[Chunk] = []
        position = position_of(chunk)
        for offset, content in enumerate(found):
            if content is None:
                lost.append(range(position + offset, position + offset + 1))
                queue.count -= 1
                continue
            piece = copy_of(chunk)
            piece.sizes = None
            piece.contents = [content]
            piece.copies = 1
            piece.position = position + offset
            pieces.append(piece)
        if came_back:
            self.coming_back.remove(chunk)
            self.unsorted += pieces
        else:
            others = [each for each in queue.chunks if each is not chunk]
            queue.chunks = deque(sorted([*others, *pieces], key=position_of))
            if not queue.count:
                self._q3_is_empty()
        for piece in pieces:
            queue.ram += 1
            self.depth.ram_messages += 1
            self.depth.footprint += piece.footprint()
        return lost

    # -- for people

    def info(self) -> dict[str, object]:
        """backing_queue_status, less the rates."""
        return {
            "mode": "lazy" if self.lazy else "default",
            "q1": self.q1.count,
            "q2": self.q2.count,
            "delta": self.delta.facts(),
            "q3": self.q3.count,
            "q4": self.q4.count,
            "len": self.length(),
            "target_ram_count": "infinity" if self.target is None else self.target,
            "next_seq_id": self.next_position,
        }

    def length(self) -> int:
        """Ready messages, counted by sub-queue."""
        return self.q1.count + self.q2.count + self.delta.count + self.q3.count + self.q4.count


def cut_at(positions: range, border: int) -> tuple[range, range]:
    """Those below `border`, and the others. The step is 1."""
    border = min(max(border, positions.start), positions.stop)
    return range(positions.start, border), range(border, positions.stop)


def divided(chunk: Chunk, border: int) -> tuple[Chunk | None, Chunk | None]:
    """The messages before position `border`, and the others."""
    positions = chunk.positions()
    if positions[0] >= border:
        return None, chunk
    if positions[-1] < border:
        return chunk, None
    rest = chunk.split(border - positions[0])
    return chunk, rest


def copy_of(chunk: Chunk) -> Chunk:
    """Another chunk of what is left, over the same contents."""
    return Chunk(
        chunk.address,
        chunk.rest(),
        chunk.even,
        chunk.persistent,
        chunk.number,
        chunk.copies,
        position_of(chunk),
        chunk.redelivered,
        chunk.id_base,
        chunk.in_store,
        None if chunk.sizes is None else chunk.rest_sizes(),
    )


def entry_of(
    queue: int,
    chunk: Chunk,
    positions: range,
    persistent: bool,
    contents: list[bytes] | None,
    sizes: list[int],
) -> Run:
    """An entry of the index about these messages of the chunk."""
    return Run(
        queue=queue,
        first=positions[0],
        step=positions.step,
        count=len(positions),
        address=chunk.address,
        number=chunk.number,
        even=chunk.even,
        persistent=persistent,
        contents=contents,
        sizes=sizes,
    )
