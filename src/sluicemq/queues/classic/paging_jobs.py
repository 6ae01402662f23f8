"""A backing queue's requests to the disk: to write messages that leave for delta, to load them
again, and to read bodies from the message store.

At most one job of the index is under way at a time; the owner of the queue submits it and brings it
back.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING

from sluicemq.limits import LOAD_BYTES, PAGE_OUT_BYTES
from sluicemq.model.traits import message_traits
from sluicemq.queues.classic.chunk import Chunk, copy_of, cut_at, divided, first_of, position_of
from sluicemq.queues.classic.subqueues import DELTA, Q2, Q3, SubQueue, SubQueues
from sluicemq.storage.bits import bits_of, ranges_of
from sluicemq.storage.entries import Run
from sluicemq.storage.queue_index import IndexRead, IndexWrite, picked

if TYPE_CHECKING:
    from sluicemq.queues.classic.backing import Out


class PagingJobs(SubQueues):
    """The side of a backing queue that deals with the disk."""

    __slots__ = ()

    def next_job(self, hungry: bool, writing: bool = True) -> IndexWrite | IndexRead | None:
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
        """Tell whether to load: early enough not to wait for the disk; not so early that loaded
        messages would have to be paged out again."""
        if not self.delta.count or self.q4.count:
            return False
        if self.target is not None and self.q3.count > self.load_worth() // 2:
            return False
        ahead = self.q3.chunks
        return len(ahead) < 64 and sum(chunk.size() for chunk in ahead) < LOAD_BYTES // 2

    def recall(self) -> bool:
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
        """Return the outgoing chunks before position `border`, in order: they need not be written
        now."""
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
        assert delta.count >= 0, "more is loaded than was on the disk"
        delta.bytes -= chunk.size()
        if self.durable and chunk.traits.persistent:
            delta.persistent -= left
        if chunk.bodies:
            self.depth.ram_messages += left
        self.q3.add(self.moved(DELTA, Q3, chunk))

    def _delta_is_empty(self) -> None:
        """Note that q2 follows q3 directly now. Delta's remaining sums stand for lost messages, or
        were estimated wrongly after a restart."""
        self.depth.ready_bytes -= self.delta.bytes
        self.depth.persistent -= self.delta.persistent
        self.delta.clear()
        while self.q2.chunks:
            self.q3.add(self.moved(Q2, Q3, self.q2.take_first(self.q2.count)))
        if not self.q3.count:
            self.q3_is_empty()

    def _write(self) -> IndexWrite:
        """Return the job for the next part of what is on its way to delta."""
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
        """Return the rest of the chunk as an entry of the index."""
        positions = chunk.positions()
        base = chunk.id_base
        traits = chunk.traits
        if traits.persistent and not self.durable:
            traits = message_traits(traits.envelope, traits.channel_number, False, traits.copies)
        return Run(
            self.index.queue_id,
            positions[0],
            1,
            len(positions),
            traits,
            chunk.same_size,
            chunk.rest() if base is None else None,
            chunk.rest_sizes(),
            0 if base is None else base + positions[0],
            expiry=chunk.expiry,
        )

    def wrote(self, job: IndexWrite) -> None:
        self.index.wrote(job)
        self.left_ram()

    def left_ram(self) -> None:
        """Give back the RAM of outgoing chunks that the index has written."""
        gone, self.in_flight = self.in_flight, []
        if not gone:  # it was for a checkpoint: perhaps what was outgoing
            missing = self.index.missing
            gone = [chunk for chunk in self.outgoing if not missing(chunk.positions())]
            self.outgoing = deque(c for c in self.outgoing if missing(c.positions()))
        for chunk in gone:
            self.depth.footprint -= chunk.footprint()
        assert self.depth.footprint >= 0, "more RAM is given back than was taken"

    def give_up(self, job: IndexWrite) -> None:
        self.index.give_up(job)
        self.stays_in_ram()

    def stays_in_ram(self) -> None:
        """Keep outgoing chunks for the next write job, because this one has failed."""
        self.outgoing = deque([*self.in_flight, *self.outgoing])
        self.in_flight = []

    def _seek(self) -> IndexRead:
        """Return the job that finds the ids of messages purged on disk, one segment at a time."""
        self.condemned.sort(key=first_of)
        start, end = self.condemned[0][0], self.condemned[-1][-1] + 1
        job = self.index.read(start, end, LOAD_BYTES, keep_bodies=False)
        job.epoch = -1
        return job

    def sought(self, job: IndexRead) -> list[Run]:
        """Take in the messages purged on the disk that a read job has found. Returns those that
        have bodies in the message store."""
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
        """Move the messages that a read job has brought from delta to q3. Returns the positions
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
        assert delta.count >= 0 and delta.start + delta.count <= delta.end, "delta's range"
        if not delta.count:
            self._delta_is_empty()
        return ranges_of(missing, base)

    def _chunks_of_run(self, run: Run) -> list[Chunk]:
        """Return a run as chunks: the messages before `delivered` are redelivered, the others are
        not."""
        position = run.first
        if position < self.delivered < position + run.count:
            cut = self.delivered - position
            parts = [run.part(0, cut), run.part(cut, run.count)]
            return [chunk for part in parts for chunk in self._chunks_of_run(part)]
        return [
            Chunk(
                run.traits,
                run.contents if run.contents is not None else [],
                run.same_size,
                position,
                position < self.delivered,
                None if run.contents is not None else run.first_id - position,
                run.contents is None,
                None if run.contents is not None else run.sizes,
                run.expiry,
            )
        ]

    # -- bodies from the message store

    def bodies_wanted(self, hungry: bool) -> list[Chunk]:
        wanted: list[Chunk] = []
        if not hungry:
            return wanted
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
        """Split a chunk around missing bodies, whose messages are gone."""
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
        if self.durable and chunk.traits.persistent:
            self.depth.persistent -= len(lost)
        if in_q4:
            self.returned.replace(chunk, pieces)
            return lost
        others = [each for each in self.q3.chunks if each is not chunk]
        self.q3.chunks = deque(sorted([*others, *pieces], key=position_of))
        if not self.q3.count:
            self.q3_is_empty()
        return lost

    def load_worth(self) -> int:
        """Return the most messages that a load brings, estimated from those in q3; at least 1."""
        if not self.q3.chunks:
            return self.betas_min
        first = self.q3.chunks[0]
        each = max(1, first.size() // first.left())
        return max(1, min(self.betas_min, LOAD_BYTES // each))
