"""The interface of the backing queue of a classic queue, which holds its ready messages.

`paging.py` has the one of a plain queue, `priorities.py` the one of a queue with priorities. The
machine takes messages and gives them back; the shell submits what the disk is to do. Nothing here
waits: a job that `next_job` gives comes back to `wrote`, `loaded`, `sought` or `give_up`, and one
at a time is under way.

Positions (RabbitMQ's seq ids) never change. Messages are handled by the chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.compiling import mypyc_attr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.classic.unacked_runs import UnackedRun
    from sluicemq.queues.machine import Depth
    from sluicemq.storage.entries import Run
    from sluicemq.storage.positions import Mark
    from sluicemq.storage.queue_index import IndexRead, IndexWrite, QueueIndex

    Out = Callable[[int, int], list[range]]
    """Says which positions of [start, end) are at consumers."""


class Delta:
    """Counts what is on disk only: `count` messages with positions in [start, end), `persistent` of
    them persistent, together `bytes` as far as it is known."""

    __slots__ = ("bytes", "count", "end", "persistent", "references", "start")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Reset to no messages and no range."""
        self.start = self.end = self.count = self.persistent = self.bytes = 0
        self.references = False
        """Bodies in the message store may belong to it."""

    def cover(self, positions: range) -> None:
        """Extend the range to hold these positions, of which there must be some."""
        if not self.count:
            self.start, self.end = positions[0], positions[-1] + 1
        else:
            self.start = min(self.start, positions[0])
            self.end = max(self.end, positions[-1] + 1)

    def facts(self) -> dict[str, int]:
        """Return the range and the counts by name, as backing_queue_status shows them."""
        return {
            "start": self.start,
            "count": self.count,
            "transient": self.count - self.persistent,
            "end": self.end,
        }


@mypyc_attr(allow_interpreted_subclasses=True)
class Backing:
    """Holds the ready messages of one queue. `depth` gets its figures about RAM, `index` is the
    queue's part on the disk. `delivered`: every position below was given to a consumer at some
    time; with priorities, that of the highest priority that has been delivered."""

    __slots__ = ()

    depth: Depth
    index: QueueIndex
    delivered: int

    # -- in and out

    def publish(self, batch: Batch, expiry: int = 0) -> int:
        """Append a batch at the tail and return its first position; the others follow without gaps.
        `expiry` is in milliseconds since the epoch, 0 when the messages never expire."""
        raise NotImplementedError

    def head(self) -> Chunk | None:
        """Return the chunk with the oldest ready message (of the highest priority), if its bodies
        are in RAM. None when there is no message, or its body has to come from the disk first."""
        raise NotImplementedError

    def first(self) -> Chunk | None:
        """Return the chunk with the oldest ready message (of the highest priority), with or without
        its bodies. None when there is no message, or even its position is on the disk only."""
        raise NotImplementedError

    def took(self, chunk: Chunk, count: int) -> None:
        """Note that the first `count` messages of the `head` have left for a consumer,
        or for good.
        """
        raise NotImplementedError

    def give_back(self, chunks: list[Chunk]) -> None:
        """Make messages that were taken ready again, at their positions. The chunks come from one
        run and are in order."""
        raise NotImplementedError

    def clear(self, out: Out) -> tuple[Iterator[Chunk], list[range]]:
        """Drop all ready messages; positions go on from where they are. Returns the messages known
        in RAM, each chunk once, and the positions of those on the disk only. Chunks are freed as
        the iterator yields them."""
        raise NotImplementedError

    def length(self) -> int:
        """Return the number of ready messages, by counting all parts."""
        raise NotImplementedError

    def in_ram(self) -> Iterable[Chunk]:
        """Yield the chunks whose positions are known in RAM, with or without bodies, except those
        that are `leaving`."""
        raise NotImplementedError

    def count_in(self, depth: Depth) -> None:
        """Count in other counters from now on; there must be no message to be counted."""
        raise NotImplementedError

    # -- out of RAM

    @property
    def target(self) -> int | None:
        """Return how many messages may have their bodies in RAM; None: all of them."""
        raise NotImplementedError

    @target.setter
    def target(self, target: int | None) -> None:
        raise NotImplementedError

    def become(self, lazy: bool) -> None:
        """Keep as little as possible in RAM from now on, or no longer. Messages that are there when
        the queue becomes lazy are paged out by `convert`."""
        raise NotImplementedError

    @property
    def converting(self) -> bool:
        """Tell whether the queue has become lazy, and `convert` has something left to do."""
        raise NotImplementedError

    def convert(self, store_is_full: Callable[[], bool], hungry: bool) -> None:
        """Page out the messages from before the queue became lazy, as far as the message store
        takes them. `hungry`: somebody waits for a message, so those that have come back from the
        disk stay."""
        raise NotImplementedError

    def alphas_to_betas(self, quota: int, store_is_full: Callable[[], bool]) -> int:
        """Page up to `quota` bodies out of RAM, those first that are needed last, until the target
        is met or the message store takes no more. Returns the rest of the quota."""
        raise NotImplementedError

    def betas_to_delta(self) -> None:
        """Move positions from RAM to the disk that exceed the target, in batches that are worth a
        write."""
        raise NotImplementedError

    def hand_to_store(self, chunk: Chunk) -> None:
        """Have the message store take the bodies of a chunk, unless it has them. The chunk need
        not be ready any more."""
        raise NotImplementedError

    def take_to_store(self) -> list[Chunk]:
        """Return the chunks that the message store must take now; each is returned once."""
        raise NotImplementedError

    @property
    def to_store_count(self) -> int:
        """Return how many messages `take_to_store` would give."""
        raise NotImplementedError

    @property
    def has_outgoing(self) -> bool:
        """Tell whether positions have left RAM that no write job has taken up yet."""
        raise NotImplementedError

    def leaving(self) -> Iterable[Chunk]:
        """Yield the chunks that count as on the disk only, and keep their RAM until a write is
        done: outgoing, and in the write job that is under way."""
        raise NotImplementedError

    # -- the disk

    def needs_disk(self) -> bool:
        """Tell whether something is on the disk, on its way there, or without its body. Otherwise
        `next_job` and `bodies_wanted` need not be asked."""
        raise NotImplementedError

    def next_job(self, hungry: bool, writing: bool = True) -> IndexWrite | IndexRead | None:
        """Return the next job of the disk; None when there is none, or one is under way. `hungry`:
        somebody would take more than is in RAM; `writing` False: the disk may be read only."""
        raise NotImplementedError

    def recall(self) -> bool:
        """Bring chunks that are leaving at the head, and are not being written yet, back without
        the disk, when nothing else is in RAM. Returns whether there were any."""
        raise NotImplementedError

    def runs_of(self, chunk: Chunk) -> list[Run]:
        """Return the entries for the index for the part of the chunk that is not on the
        disk yet.
        """
        raise NotImplementedError

    def wrote(self, job: IndexWrite) -> None:
        """Note that a write job is done, one of `next_job` or one that a checkpoint has made of
        `runs_of`: what it wrote needs no RAM any more, if it was leaving."""
        raise NotImplementedError

    def give_up(self, job: IndexWrite) -> None:
        """Note that a write job has failed for good: what it was to write stays in RAM."""
        raise NotImplementedError

    def loaded(self, job: IndexRead, out: Out) -> list[range]:
        """Take the messages that a read job has brought for the head; `out` tells which positions
        are at consumers. Returns the positions that could not be read: they are still in the counts
        of `depth`, and nowhere else. Returns none if the queue was cleared since."""
        raise NotImplementedError

    @property
    def is_seeking(self) -> bool:
        """Tell whether the bodies of messages that were dropped on the disk are still to be found,
        so that its files have to stay."""
        raise NotImplementedError

    def sought(self, job: IndexRead) -> list[Run]:
        """Take what a read job with an epoch below 0 has found: it was about messages that were
        dropped while they were on the disk only. Returns those that have bodies in the message
        store, which nobody needs any more."""
        raise NotImplementedError

    def bodies_wanted(self, hungry: bool) -> list[Chunk]:
        """Return the chunks whose bodies are needed next from the message store, each once until
        they have come; none unless somebody is `hungry`."""
        raise NotImplementedError

    def got_bodies(self, chunk: Chunk, contents: dict[int, bytes]) -> list[range]:
        """Take the bodies of a chunk, by their ids. Returns the positions of those that were not
        found, which are gone; none, if the chunk is not here any more."""
        raise NotImplementedError

    # -- checkpoints, restarts

    def bound(self, upto: int) -> None:
        """Note that a checkpoint begins to wait for messages below position `upto`; with
        priorities, in each row for those published before now."""
        raise NotImplementedError

    def bound_at(self, position: int, upto: int) -> int:
        """Return the end, exclusive, of what that checkpoint waits for in the row of `position`."""
        raise NotImplementedError

    def unsaved(self, upto: int, start: int) -> Iterator[tuple[Chunk, bool]]:
        """Give the persistent messages below position `upto` that the index may not have yet. True
        comes with those that were never fetched: they are in order, and those before `start` are
        left out."""
        raise NotImplementedError

    def marks(self, size: int, unacked_runs: Iterable[UnackedRun]) -> list[Mark]:
        """Return how far each row of positions has come, that of priority 0 first. `size`: bytes of
        all messages of the queue; `unacked_runs`: those that are out."""
        raise NotImplementedError

    def recover(self, marks: Sequence[Mark]) -> int:
        """Begin with what the index has, as of these marks: all of it is on the disk. Returns how
        many messages that is."""
        raise NotImplementedError

    def restore(self, chunk: Chunk) -> None:
        """Take messages without their bodies, behind all others of their row, when nothing has been
        published to that since it was recovered."""
        raise NotImplementedError

    # -- for users

    @property
    def delta(self) -> Delta:
        """Return the counts of what is on the disk only; with priorities the sums, without a
        range."""
        raise NotImplementedError

    @property
    def disk_reads(self) -> int:
        """Return how many messages' bodies were read from the disk since the queue began."""
        raise NotImplementedError

    @property
    def disk_writes(self) -> int:
        """Return how many messages were written for want of RAM, to the index or to the message
        store, since the queue began."""
        raise NotImplementedError

    def info(self) -> dict[str, object]:
        """Return backing_queue_status, as RabbitMQ names things, less the rates."""
        raise NotImplementedError
