"""The state of a queue as its storage sees it (chain/queue/queue_storage.py): what is on the disk.

At most one job of the index is under way: `next_job` and `write` make it, and it is handed back to
`wrote`, `give_up`, `loaded` or `sought`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.storage.checkpoint import QueueState
    from sluicemq.storage.entries import Run
    from sluicemq.storage.queue_index import IndexRead, IndexWrite, QueueIndex


class Stored:
    """The part of a queue's state that has to do with its files. `deleted`: nothing in it counts
    any more."""

    deleted: bool

    @property
    def index(self) -> QueueIndex:
        """What of the queue is in its segments."""
        raise NotImplementedError

    @property
    def delivered(self) -> int:
        """Every position below this one was delivered at some time; with priorities, of those of
        the highest one that was."""
        raise NotImplementedError

    # -- from RAM to the disk and back

    def needs_disk(self) -> bool:
        """Is there anything for `next_job` or `bodies_wanted` to find?"""
        raise NotImplementedError

    def hungry(self) -> bool:
        """Would somebody take a message that is on the disk?"""
        raise NotImplementedError

    def next_job(self, hungry: bool, writing: bool) -> IndexWrite | IndexRead | None:
        """What the disk is to do next; None: nothing. `hungry` is what the method of that name has
        said; `writing` False: the disk may be read only."""
        raise NotImplementedError

    def wrote(self, job: IndexWrite) -> None:
        """A write job is done."""
        raise NotImplementedError

    def give_up(self, job: IndexWrite) -> None:
        """A write job has failed for good: what it was to write stays in RAM."""
        raise NotImplementedError

    def loaded(self, job: IndexRead) -> list[range]:
        """A read job is done. Returns the positions of messages that could not be read: they are
        gone from the queue."""
        raise NotImplementedError

    def sought(self, job: IndexRead) -> list[Run]:
        """A read job with an epoch below 0 is done. Returns what nobody needs any more and has
        bodies in the message store."""
        raise NotImplementedError

    @property
    def is_seeking(self) -> bool:
        """There will be more of those jobs, so the files have to stay."""
        raise NotImplementedError

    @property
    def is_paging_out(self) -> bool:
        """RAM must become free, and more of the queue waits to be written than the job under way
        writes."""
        raise NotImplementedError

    # -- bodies in the message store

    @property
    def to_store_count(self) -> int:
        """How many messages `take_to_store` would give."""
        raise NotImplementedError

    def take_to_store(self) -> list[Chunk]:
        """Transient bodies that the message store must take now."""
        raise NotImplementedError

    def bodies_wanted(self, hungry: bool) -> list[Chunk]:
        """Chunks whose bodies are needed next for whom is `hungry`; each once."""
        raise NotImplementedError

    def dead_bodies_wanted(self) -> list[Chunk]:
        """Chunks whose bodies are needed to republish what is dead; each once."""
        raise NotImplementedError

    def got_bodies(self, chunk: Chunk, contents: dict[int, bytes]) -> list[range]:
        """Bodies have come, by their ids. Returns the positions of messages whose bodies were not
        found: they are gone from the queue."""
        raise NotImplementedError

    # -- checkpoints

    def bound(self, upto: int) -> None:
        """A checkpoint begins to wait for what is below position `upto`."""
        raise NotImplementedError

    def unsaved(self, upto: int, start: int) -> Iterator[tuple[Chunk, bool]]:
        """Persistent messages below position `upto` that may be in no segment yet. True comes with
        those that are in order: of them, those before `start` are left out."""
        raise NotImplementedError

    def runs_of(self, chunk: Chunk) -> list[Run]:
        """What of the chunk is in no segment yet."""
        raise NotImplementedError

    def state(self) -> QueueState:
        """What a restart has to know, when everything that was said of the queue is durable."""
        raise NotImplementedError
