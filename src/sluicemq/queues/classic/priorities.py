"""The backing queue of a queue with priorities: one for each priority, over one index and one disk.

Each level is a plain backing queue (`paging.py`) with a row of positions of its own
(`storage/positions.py`), so a position tells the level. Messages are fetched from the highest level
that has any: while its head is being read from disk the lower ones wait, as in RabbitMQ. Paging out
begins with the lowest. A level exists from its first message on.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from sluicemq.queues.classic.backing import Backing, Delta
from sluicemq.queues.classic.paging import PlainBacking
from sluicemq.storage.positions import Mark, first_of_priority, priority_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic.backing import Out
    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.classic.unacked_runs import UnackedRun
    from sluicemq.queues.machine import Depth
    from sluicemq.queues.settings import QueueSettings
    from sluicemq.storage.entries import Run
    from sluicemq.storage.queue_index import IndexRead, IndexWrite, QueueIndex


class PriorityBacking(Backing):
    """The ready messages of one queue in levels from 0 to `highest`; a message of a higher priority
    counts as `highest`."""

    def __init__(
        self, depth: Depth, index: QueueIndex, io_batch: int, durable: bool, highest: int
    ) -> None:
        self.depth = depth
        self.index = index
        self.io_batch = io_batch
        self.durable = durable
        self.highest = highest
        self.levels: dict[int, PlainBacking] = {}
        self.occupied = 0
        """A bit for each level that may have ready messages."""
        self.delivered = 0
        """The highest position that was given to a consumer, plus one."""
        self.bounds: dict[int, int] = {}
        """By level, the end of what the checkpoint under way waits for."""
        self.lazy = False
        self._target: int | None = None

    def level(self, priority: int) -> PlainBacking:
        """Return the level of a priority, made when it is first needed."""
        level = self.levels.get(priority)
        if level is None:
            level = PlainBacking(self.depth, self.index, self.io_batch, self.durable)
            level.next_position = first_of_priority(priority)
            level.lazy = self.lazy
            level.target = self._target
            self.levels[priority] = level
            self.levels = dict(sorted(self.levels.items()))
        return level

    def level_of(self, chunk: Chunk) -> PlainBacking:
        """Return the level that a chunk is on, or was on before it was taken."""
        return self.levels[priority_at(chunk.position)]

    def top(self) -> PlainBacking | None:
        """Return the highest level that has a message, to fetch from it; None when there is
        none."""
        while self.occupied:
            priority = self.occupied.bit_length() - 1
            level = self.levels[priority]
            if level.length():
                return level
            self.occupied ^= 1 << priority
        return None

    # -- settings

    def become(self, lazy: bool) -> None:
        self.lazy = lazy
        for level in self.levels.values():
            level.become(lazy)

    @property
    def converting(self) -> bool:
        return any(level.converting for level in self.levels.values())

    def convert(self, store_is_full: Callable[[], bool], hungry: bool) -> None:
        """Page out messages from before the queue became lazy, the lowest level first."""
        for level in self.levels.values():
            if level.converting:
                level.convert(store_is_full, hungry)

    @property
    def target(self) -> int | None:
        """Return how many messages of all levels together may have their bodies in RAM; None: all
        of them."""
        return self._target

    @target.setter
    def target(self, target: int | None) -> None:
        self._target = target
        for level in self.levels.values():
            level.target = target

    def count_in(self, depth: Depth) -> None:
        self.depth = depth
        for level in self.levels.values():
            level.count_in(depth)

    # -- in and out

    def publish(self, batch: Batch, expiry: int = 0) -> int:
        priority = min(batch.properties.priority, self.highest)
        self.occupied |= 1 << priority
        return self.level(priority).publish(batch, expiry)

    def head(self) -> Chunk | None:
        top = self.top()
        return None if top is None else top.head()

    def first(self) -> Chunk | None:
        top = self.top()
        return None if top is None else top.first()

    def took(self, chunk: Chunk, count: int) -> None:
        level = self.level_of(chunk)
        level.took(chunk, count)
        self.delivered = max(self.delivered, level.delivered)

    def give_back(self, chunks: list[Chunk]) -> None:
        """Make taken messages ready again. They come from one run, so they have one level."""
        if chunks:
            priority = priority_at(chunks[0].position)
            assert priority == priority_at(chunks[-1].position), "a run of two priorities"
            self.occupied |= 1 << priority
            self.levels[priority].give_back(chunks)

    def clear(self, out: Out) -> tuple[Iterator[Chunk], list[range]]:
        gone: list[Iterator[Chunk]] = []
        on_disk: list[range] = []
        for level in self.levels.values():
            chunks, positions = level.clear(out)
            gone.append(chunks)
            on_disk += positions
        self.occupied = 0
        return chain.from_iterable(gone), on_disk

    def in_ram(self) -> Iterable[Chunk]:
        """Give the chunks whose positions are known in RAM by level, the lowest first."""
        for level in self.levels.values():
            yield from level.in_ram()

    # -- out of RAM

    def alphas_to_betas(self, quota: int, store_is_full: Callable[[], bool]) -> int:
        """Move bodies out of RAM, those of the lowest level first. Returns what is left of the
        quota."""
        for level in self.levels.values():
            quota = level.alphas_to_betas(quota, store_is_full)
        return quota

    def betas_to_delta(self) -> None:
        """Move positions out of RAM, those of the lowest level first."""
        for level in self.levels.values():
            level.betas_to_delta()

    def hand_to_store(self, chunk: Chunk) -> None:
        self.level_of(chunk).hand_to_store(chunk)

    def take_to_store(self) -> list[Chunk]:
        return [chunk for level in self.levels.values() for chunk in level.take_to_store()]

    @property
    def to_store_count(self) -> int:
        return sum(level.to_store_count for level in self.levels.values())

    # -- the disk

    @property
    def has_outgoing(self) -> bool:
        return any(level.has_outgoing for level in self.levels.values())

    def leaving(self) -> Iterable[Chunk]:
        return [chunk for level in self.levels.values() for chunk in level.leaving()]

    @property
    def is_seeking(self) -> bool:
        return any(level.is_seeking for level in self.levels.values())

    @property
    def delta(self) -> Delta:
        """Return the sums of what only the disk has of all levels, without a range."""
        delta = Delta()
        for level in self.levels.values():
            delta.count += level.delta.count
            delta.persistent += level.delta.persistent
            delta.bytes += level.delta.bytes
        return delta

    @property
    def disk_reads(self) -> int:
        return sum(level.disk_reads for level in self.levels.values())

    @property
    def disk_writes(self) -> int:
        return sum(level.disk_writes for level in self.levels.values())

    def needs_disk(self) -> bool:
        return any(level.needs_disk() for level in self.levels.values())

    def next_job(self, hungry: bool, writing: bool = True) -> IndexWrite | IndexRead | None:
        """Return the disk's next job. The level to fetch from is loaded; the lowest level is
        written first."""
        top = self.top()
        job = None if top is None else top.next_job(hungry, writing=False)
        for level in self.levels.values():
            job = job or level.next_job(False, writing)
        return job

    def recall(self) -> bool:
        top = self.top()
        return top is not None and top.recall()

    def runs_of(self, chunk: Chunk) -> list[Run]:
        return self.level_of(chunk).runs_of(chunk)

    def wrote(self, job: IndexWrite) -> None:
        self.index.wrote(job)
        for level in self.levels.values():
            level.left_ram()

    def give_up(self, job: IndexWrite) -> None:
        self.index.give_up(job)
        for level in self.levels.values():
            level.stays_in_ram()

    def sought(self, job: IndexRead) -> list[Run]:
        return self.levels[priority_at(job.start)].sought(job)

    def loaded(self, job: IndexRead, out: Out) -> list[range]:
        return self.levels[priority_at(job.start)].loaded(job, out)

    def bodies_wanted(self, hungry: bool) -> list[Chunk]:
        top = self.top()
        return [] if top is None else top.bodies_wanted(hungry)

    def got_bodies(self, chunk: Chunk, contents: dict[int, bytes]) -> list[range]:
        return self.level_of(chunk).got_bodies(chunk, contents)

    # -- checkpoints

    def bound(self, upto: int) -> None:
        """Note for each level the end of what the checkpoint waits for: later messages do not
        count, whatever their position."""
        self.bounds = {
            priority: min(upto, level.next_position) for priority, level in self.levels.items()
        }

    def bound_at(self, position: int, upto: int) -> int:
        """Return the end of what the checkpoint waits for, on the level of a position; 0 when that
        level did not exist when the checkpoint began."""
        return self.bounds.get(priority_at(position), 0)

    def unsaved(self, upto: int, start: int) -> Iterator[tuple[Chunk, bool]]:
        """Give messages that may be in no segment yet, level by level, so that positions rise."""
        for priority, level in self.levels.items():
            yield from level.unsaved(self.bounds.get(priority, 0), start)

    def marks(self, size: int, unacked_runs: Iterable[UnackedRun]) -> list[Mark]:
        """Return a mark for each level. Level 0 always has one, with the bytes that the others do
        not have."""
        self.level(0)
        sizes = {priority: level.size() for priority, level in self.levels.items()}
        for run in unacked_runs:
            sizes[priority_at(run.positions[0])] += sum(each.size() for each in run.open_chunks())
        sizes[0] = max(0, size - sum(sizes.values()) + sizes[0])
        return [
            mark
            for priority, level in self.levels.items()
            for mark in level.marks(sizes[priority], ())
        ]

    def recover(self, marks: Sequence[Mark]) -> int:
        count = 0
        for mark in marks:
            ready = self.level(mark.priority).recover([mark])
            if ready:
                self.occupied |= 1 << mark.priority
            self.delivered = max(self.delivered, mark.delivered)
            count += ready
        return count

    def restore(self, chunk: Chunk) -> None:
        priority = priority_at(chunk.position)
        self.occupied |= 1 << priority
        self.level(priority).restore(chunk)

    # -- for users

    def info(self) -> dict[str, object]:
        """Return RabbitMQ's figures for such a queue: the sums of all levels, and the messages on
        each."""
        levels = self.levels
        lengths = {
            str(priority): levels[priority].length() if priority in levels else 0
            for priority in range(self.highest + 1)
        }
        given = (level.next_position - first_of_priority(p) for p, level in levels.items())
        return {
            "mode": "lazy" if self.lazy else "default",
            "priority_lengths": lengths,
            "q1": sum(level.q1.count for level in levels.values()),
            "q2": sum(level.q2.count for level in levels.values()),
            "delta": self.delta.facts(),
            "q3": sum(level.q3.count for level in levels.values()),
            "q4": sum(level.q4.count for level in levels.values()),
            "len": sum(lengths.values()),
            "target_ram_count": "infinity" if self._target is None else self._target,
            "next_seq_id": sum(given),
        }

    def length(self) -> int:
        return sum(level.length() for level in self.levels.values())


def backing_queue(
    depth: Depth, index: QueueIndex, io_batch: int, durable: bool, settings: QueueSettings
) -> Backing:
    """Create the backing queue for these settings: one with priorities if the highest priority is 1
    or more, else a plain one."""
    if settings.max_priority:
        return PriorityBacking(depth, index, io_batch, durable, settings.max_priority)
    return PlainBacking(depth, index, io_batch, durable)
