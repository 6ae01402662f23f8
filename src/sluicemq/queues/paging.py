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
which q3 may be empty, and what was requeued may wait in q4 without its body until somebody wants
it; and an embedded body, which has no other place than the index, is moved on to delta when RAM has
to become free, where RabbitMQ would keep up to 16384 of them.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING

from sluicemq.limits import LOAD_BYTES, PAGE_OUT_BYTES, TRIM_MESSAGES
from sluicemq.queues.chunk import Chunk, copy_of, cut_at, divided, first_of, position_of
from sluicemq.queues.subqueues import (
    DELTA,
    MOVES,
    PUBLISH,
    Q1,
    Q2,
    Q3,
    Q4,
    REQUEUE,
    Delta,
    SubQueue,
)
from sluicemq.storage.bits import bits_of, ranges_of
from sluicemq.storage.entries import Run
from sluicemq.storage.queue_index import IndexRead, IndexWrite, QueueIndex, picked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Out = Callable[[int, int], list[range]]

    from sluicemq.model.batch import Batch
    from sluicemq.queues.machine import Depth


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
        """Requeued: the front of q4, counted in it. Some may be without their bodies."""
        self.unsorted: list[Chunk] = []
        """The same; they have not been put in order yet."""
        self.outgoing: deque[Chunk] = deque()
        self.in_flight: list[Chunk] = []
        """What the write job that is under way will free."""
        self.to_store: list[Chunk] = []
        """Transient bodies that the message store must take, for they were paged out."""
        self.to_store_count = 0
        """Messages of these."""
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
        """Purged while they were on disk only, some with bodies in the message store: what ids
        these have must be read before they are forgotten."""
        self.disk_reads = 0
        self.disk_writes = 0

    # -- in and out

    def publish(self, batch: Batch) -> None:
        """Append a batch at the tail."""
        contents = batch.contents
        count = len(contents)
        if self.lazy and not (self.q1.count or self.q2.count):
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
        if self.unsorted:
            self.sort()
        if self.returned:
            first = self.returned[0]
        elif self.q4.chunks:
            return self.q4.chunks[0]
        elif self.q3.chunks:
            first = self.q3.chunks[0]
        else:
            return None
        return first if first.bodies else None

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
            for chunk in self.q1.chunks:
                self.q4.add(self._moved(Q1, Q4, chunk))
            self.q1.clear()

    def give_back(self, chunks: list[Chunk]) -> None:
        """Requeued messages go to their positions (spec 4.7)."""
        to_delta = self.delta.start if self.delta.count else self.next_position
        to_q3 = position_of(self.q3.chunks[0]) if self.q3.chunks else to_delta
        between: list[Chunk] = []
        for chunk in chunks:
            before, rest = divided(chunk, to_q3)
            if before is not None:
                self._back_to_q4(before)
            if rest is not None:
                if rest.bodies:
                    self.depth.ram_messages += rest.left()
                before, rest = divided(rest, to_delta)
                if before is not None:
                    between.append(before)
                if rest is not None:
                    self._page(REQUEUE, rest)
        for chunk in between:
            self.q3.add(chunk)
        if between:
            self.q3.chunks = deque(sorted(self.q3.chunks, key=position_of))

    def _back_to_q4(self, chunk: Chunk) -> None:
        """Not sorted in before it matters, for thousands may follow one by one."""
        left = chunk.left()
        self.q4.count += left
        if chunk.bodies:
            self.q4.ram += left
            self.depth.ram_messages += left
        self.unsorted.append(chunk)

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

    def clear(self, out: Out) -> tuple[list[Chunk], list[range]]:
        """Drop everything; positions go on. Returns what is known of in RAM, and the positions of
        what is on disk only. `out` says what of [start, end) is at consumers."""
        leaving = [*self.outgoing, *self.in_flight]
        gone = [chunk for chunk in [*self.in_ram(), *leaving] if chunk.left()]
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
        for queue in (self.q1, self.q2, self.q3, self.q4):
            queue.clear()
        self.returned.clear()
        self.unsorted.clear()
        self.outgoing.clear()
        self.in_flight.clear()
        self.delta.clear()
        self.epoch += 1
        return gone, on_disk

    def in_ram(self) -> Iterable[Chunk]:
        """The chunks of q4, q3, q2, q1, in about that order."""
        yield from self.returned
        yield from self.unsorted
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
        if self.unsorted and quota > 0:
            self.sort()
        while quota > 0 and not self._enough() and not store_is_full():
            if self.q4.chunks:
                chunk = self.q4.take_last(quota)
            elif self.returned:
                chunk = self._last_returned(quota)
            else:
                break
            if chunk.bodies:
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
        if chunk.bodies:
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
            self.to_store_count += chunk.left()
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
        """How many of its newest q3 can do without: it keeps what may be there after a load.
        Nothing while one is under way: delta keeps its beginning until that is over."""
        if isinstance(self.index.job, IndexRead):
            return 0
        worth = self._load_worth()
        return self.q3.count - worth - worth // 2

    def _load_worth(self) -> int:
        """How many messages a load brings at most, as far as those in q3 tell."""
        if not self.q3.chunks:
            return self.betas_min
        first = self.q3.chunks[0]
        each = max(1, first.size() // first.left())
        return max(1, min(self.betas_min, LOAD_BYTES // each))

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
        if self.condemned:
            return self._seek()
        if hungry and self._runs_low():
            leaving = sum(chunk.left() for chunk in self.outgoing)
            if self.delta.count > leaving:
                return self._load()
        return self._write() if self.outgoing and writing else None

    def _runs_low(self) -> bool:
        """Is it time to load? Early enough for the disk not to be waited for; not so early that
        what is loaded would have to be paged out again."""
        if not self.delta.count or self.q4.count:
            return False
        if self.target is not None and self.q3.count > self._load_worth() // 2:
            return False
        ahead = self.q3.chunks
        return len(ahead) < 64 and sum(chunk.size() for chunk in ahead) < LOAD_BYTES // 2

    def recall(self) -> bool:
        """Nothing is left but delta: its beginning, if it is still in RAM, need not be read. False:
        it is on disk, or on its way there."""
        if not self.outgoing or self.q3.count or self.q4.count:
            return False
        delta = self.delta
        on_disk = self.index.first_live(delta.start, delta.end)
        borders = [*map(position_of, self.in_flight), delta.end if on_disk is None else on_disk]
        recalled = self._stay(min(borders), LOAD_BYTES)
        for chunk in recalled:
            self._leave_delta(chunk)
            delta.start = chunk.positions().stop
        if recalled and not delta.count:
            self._delta_is_empty()
        return bool(recalled)

    def _stay(self, border: int, bytes_max: int | None) -> list[Chunk]:
        """What is outgoing before position `border`, in order: it need not be written now."""
        outgoing = self.outgoing = deque(sorted(self.outgoing, key=position_of))
        chunks: list[Chunk] = []
        size = 0
        while outgoing and (bytes_max is None or size < bytes_max):
            before, rest = divided(outgoing[0], border)
            if before is None:
                break
            outgoing.popleft()
            if rest is not None:
                outgoing.appendleft(rest)
            chunks.append(before)
            size += before.size()
        return chunks

    def _leave_delta(self, chunk: Chunk) -> None:
        delta = self.delta
        left = chunk.left()
        delta.count -= left
        delta.bytes -= chunk.size()
        if self.durable and chunk.persistent:
            delta.persistent -= left
        if chunk.bodies:
            self.depth.ram_messages += left
        self.q3.add(self._moved(DELTA, Q3, chunk))

    def _delta_is_empty(self) -> None:
        """q2 follows q3 directly now. What is left of delta's sums was lost, or estimated wrongly
        after a restart."""
        self.depth.ready_bytes -= self.delta.bytes
        self.depth.persistent -= self.delta.persistent
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
        base = chunk.id_base
        return Run(
            self.index.queue_id,
            positions[0],
            1,
            len(positions),
            chunk.address,
            chunk.number,
            chunk.even,
            self.durable and chunk.persistent,
            chunk.rest() if base is None else None,
            chunk.rest_sizes(),
            0 if base is None else base + positions[0],
        )

    def wrote(self, job: IndexWrite) -> None:
        """What it wrote needs no RAM any more."""
        self.index.wrote(job)
        gone, self.in_flight = self.in_flight, []
        if not gone:  # a checkpoint has written something: perhaps what was outgoing
            missing = self.index.missing
            gone = [chunk for chunk in self.outgoing if not missing(chunk.positions())]
            self.outgoing = deque(c for c in self.outgoing if missing(c.positions()))
        for chunk in gone:
            self.depth.footprint -= chunk.footprint()

    def give_up(self, job: IndexWrite) -> None:
        """It has failed for good: what it was to write stays in RAM."""
        self.index.give_up(job)
        self.outgoing.extendleft(reversed(self.in_flight))
        self.in_flight = []

    def _seek(self) -> IndexRead:
        """Which ids have those that were purged on disk? One segment at a time."""
        self.condemned.sort(key=first_of)
        start, end = self.condemned[0][0], self.condemned[-1][-1] + 1
        job = self.index.read(start, end, LOAD_BYTES, keep_bodies=False)
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
            before, rest = cut_at(positions, job.start)
            inside, behind = cut_at(rest, job.upto)
            left += [part for part in (before, behind) if part]
            if inside:
                wanted |= bits_of(inside, base)
        self.condemned = left
        for positions in ranges_of(wanted, base):
            self.index.acknowledge(positions)
        return picked([run for run in job.runs if run.contents is None], wanted, base)

    def _load(self) -> IndexRead:
        start = self.index.first_live(self.delta.start, self.delta.end)
        assert start is not None, "delta counts more than there is"
        job = self.index.read(start, self.delta.end, LOAD_BYTES)
        job.epoch = self.epoch
        return job

    def loaded(self, job: IndexRead, out: Out) -> list[range]:
        """From delta to q3. `out` says what of [start, end) is at consumers. Returns the positions
        that could not be read."""
        self.index.was_read(job)
        if job.epoch != self.epoch:
            return []
        self.lost += job.damaged
        delta = self.delta
        chunks = self._stay(job.upto, None)
        others = [chunk.positions() for chunk in chunks]
        if job.start < self.fetched:
            others += out(job.start, job.upto)
        base = job.segment.number * self.index.entry_count
        missing = 0
        for positions in self.index.live_in(job.start, job.upto, others):
            missing |= bits_of(positions, base)
        for run in picked(job.runs, missing, base):
            missing &= ~bits_of(run.positions, base)
            for chunk in self._chunks_of_run(run):
                if chunk.bodies:
                    self.depth.footprint += chunk.footprint()
                    self.disk_reads += chunk.left()
                chunks.append(chunk)
        for chunk in sorted(chunks, key=position_of):
            self._leave_delta(chunk)
        delta.start = job.upto
        delta.count -= missing.bit_count()
        if delta.persistent > delta.count:  # so many of the lost ones at least
            self.depth.persistent -= delta.persistent - delta.count
            delta.persistent = delta.count
        if not delta.count:
            self._delta_is_empty()
        return ranges_of(missing, base)

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

    # -- bodies from the message store

    def bodies_wanted(self, hungry: bool) -> list[Chunk]:
        """Chunks whose bodies are needed next and are not being read yet."""
        wanted: list[Chunk] = []
        if not hungry:
            return wanted
        if self.unsorted:
            self.sort()
        size = 0
        for chunk in chain(self.returned, self.q4.chunks, self.q3.chunks):
            size += chunk.size()
            if not chunk.bodies and not chunk.reading:
                chunk.reading = True
                wanted.append(chunk)
            if size >= LOAD_BYTES:
                break
        return wanted

    def got_bodies(self, chunk: Chunk, contents: dict[int, bytes]) -> list[range]:
        """They were read. Returns the positions of those that were not found."""
        chunk.reading = False
        assert chunk.id_base is not None
        in_q4 = chunk in self.returned
        if not in_q4 and chunk not in self.q3.chunks:
            return []  # purged, or paged out again meanwhile
        found = [contents.get(chunk.id_base + position) for position in chunk.positions()]
        self.disk_reads += len(found)
        if None in found:
            return self._some_bodies(chunk, found, in_q4)
        chunk.set_bodies([content for content in found if content is not None])
        self._has_bodies(chunk, self.q4 if in_q4 else self.q3)
        return []

    def _has_bodies(self, chunk: Chunk, queue: SubQueue) -> None:
        queue.ram += chunk.left()
        self.depth.ram_messages += chunk.left()
        self.depth.footprint += chunk.footprint()

    def _some_bodies(self, chunk: Chunk, found: list[bytes | None], in_q4: bool) -> list[range]:
        """Split around what is missing; that is gone."""
        queue = self.q4 if in_q4 else self.q3
        lost: list[range] = []
        pieces: list[Chunk] = []
        positions = zip(chunk.positions(), found, chunk.rest_sizes(), strict=True)
        for position, content, size in positions:
            if content is None:
                lost.append(range(position, position + 1))
                self.depth.ready_bytes -= size
                continue
            piece = copy_of(chunk)
            piece.position = position
            piece.set_bodies([content])
            pieces.append(piece)
            self._has_bodies(piece, queue)
        queue.count -= len(lost)
        if self.durable and chunk.persistent:
            self.depth.persistent -= len(lost)
        chunks = self.returned if in_q4 else self.q3.chunks
        others = [each for each in chunks if each is not chunk]
        merged = deque(sorted([*others, *pieces], key=position_of))
        if in_q4:
            self.returned = merged
        else:
            self.q3.chunks = merged
            if not self.q3.count:
                self._q3_is_empty()
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
