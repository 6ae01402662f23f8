"""A classic queue as its storage sees it: the messages in its files, and those lost there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.compiling import mypyc_attr
from sluicemq.queues.classic.chunk import within
from sluicemq.queues.classic.local_calls import LocalCalls
from sluicemq.queues.classic.stored import Stored
from sluicemq.storage.checkpoint import QueueState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.storage.entries import Run
    from sluicemq.storage.positions import Mark
    from sluicemq.storage.queue_index import IndexRead, IndexWrite, QueueIndex


@mypyc_attr(allow_interpreted_subclasses=True)
class StoredClassic(LocalCalls, Stored):
    """A classic queue as its storage sees it. The backing queue does most of this; here messages
    are counted, and lost ones leave the queue."""

    def hungry(self) -> bool:
        raise NotImplementedError

    @property
    def index(self) -> QueueIndex:
        return self.backing.index

    @property
    def delivered(self) -> int:
        return self.backing.delivered

    # -- from RAM to the disk and back

    def needs_disk(self) -> bool:
        return self.backing.needs_disk()

    def next_job(self, hungry: bool, writing: bool) -> IndexWrite | IndexRead | None:
        return self.backing.next_job(hungry, writing)

    def wrote(self, job: IndexWrite) -> None:
        self.backing.wrote(job)

    def give_up(self, job: IndexWrite) -> None:
        self.backing.give_up(job)

    def loaded(self, job: IndexRead) -> list[range]:
        return self.lose(self.backing.loaded(job, self.out_in))

    def sought(self, job: IndexRead) -> list[Run]:
        return self.backing.sought(job)

    @property
    def is_seeking(self) -> bool:
        return self.backing.is_seeking

    @property
    def is_paging_out(self) -> bool:
        backing = self.backing
        return backing.target is not None and not self.deleted and backing.has_outgoing

    # -- bodies in the message store

    def is_at_rest(self) -> bool:
        backing = self.backing
        return not (
            backing.to_store_count
            or backing.index.has_empty
            or self.limits.pending_dead_letters
            or backing.needs_disk()
        )

    @property
    def to_store_count(self) -> int:
        return self.backing.to_store_count

    def take_to_store(self) -> list[Chunk]:
        return self.backing.take_to_store()

    def bodies_wanted(self, hungry: bool) -> list[Chunk]:
        return self.backing.bodies_wanted(hungry)

    def dead_bodies_wanted(self) -> list[Chunk]:
        return self.limits.bodies_wanted()

    def got_bodies(self, chunk: Chunk, contents: dict[int, bytes]) -> list[range]:
        if chunk in self.limits.reading:
            return self.limits.got_bodies(chunk, contents)
        return self.lose(self.backing.got_bodies(chunk, contents))

    def out_in(self, start: int, end: int) -> list[range]:
        """Return the positions of [start, end) that consumers have, as ascending ranges."""
        out: list[range] = []
        for run in self.unacked_runs.values():
            if run.positions[-1] >= start and run.positions[0] < end:
                parts = [run.positions[first:last] for first, last in run.open_parts()]
                out += [part for part in (within(each, start, end) for each in parts) if part]
        return out

    def lose(self, lost: list[range]) -> list[range]:
        """Remove these positions from the queue, because they cannot be read. Returns the same
        positions."""
        for positions in lost:
            self.depth.ready -= len(positions)
            self.backing.index.acknowledge(positions)
            if self.delivery_counts is not None:
                self.delivery_counts.forget(positions, self.depth)
        return lost

    # -- checkpoints, restarts

    def bound(self, upto: int) -> None:
        self.backing.bound(upto)

    def unsaved(self, upto: int, start: int = 0) -> Iterator[tuple[Chunk, bool]]:
        """Give messages that may be in no segment yet, wherever they are; a run is taken as a
        whole. Those that wait in q4 to q1 and were never fetched are in order."""
        if self.deleted:
            return
        backing = self.backing
        for run in self.unacked_runs.values():
            first = run.positions[0]
            if run.chunk.traits.persistent and first < backing.bound_at(first, upto):
                yield from ((chunk, False) for chunk in run.open_chunks())
        yield from backing.unsaved(upto, start)

    def runs_of(self, chunk: Chunk) -> list[Run]:
        return self.backing.runs_of(chunk)

    def marks(self) -> list[Mark]:
        """Return the positions that a restart needs, the mark of priority 0 first."""
        size = self.depth.ready_bytes + self.depth.unacked_bytes
        return self.backing.marks(size, self.unacked_runs.values())

    def state(self) -> QueueState:
        depth = self.depth
        mark, *others = self.marks()
        return QueueState(
            self.index.queue_id,
            mark.next,
            mark.delivered,
            self.index.states(),
            depth.ready_bytes + depth.unacked_bytes,
            others,
        )

    def restore(self, chunk: Chunk) -> None:
        """Make messages of an earlier life ready, behind all others of their row; their bodies have
        to be read. `recover` is called before."""
        assert not chunk.bodies, "restored with bodies"
        self.depth.ready += chunk.left()
        self.depth.ready_bytes += chunk.size()
        if chunk.expiry:
            self.limits.saw_expiry()
        self.backing.restore(chunk)

    def recover(self, marks: Sequence[Mark], expiring: bool) -> None:
        """Begin with the results of a restart; the marks are those of all priorities. `expiring`:
        some messages may expire."""
        if expiring:
            self.limits.saw_expiry()
        self.depth.ready = self.depth.persistent = self.backing.recover(marks)
        self.depth.ready_bytes = self.backing.delta.bytes
