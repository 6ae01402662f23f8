"""A queue's state as its storage sees it (chain/queue/queue_storage.py): the part on the disk.

At most one job of the index is under way: `next_job` and `write` make it, and `wrote`, `give_up`,
`loaded` or `sought` takes it back.
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
    """The part of a queue's state that deals with its files. `deleted`: nothing in it counts any
    more."""

    deleted: bool

    @property
    def index(self) -> QueueIndex:
        """Return the index of the queue's segments."""
        raise NotImplementedError

    @property
    def delivered(self) -> int:
        """Return the position below which every message was delivered at some time; with
        priorities, that of the highest priority with deliveries."""
        raise NotImplementedError

    # -- from RAM to the disk and back

    def needs_disk(self) -> bool:
        """Tell whether there may be anything for `next_job` or `bodies_wanted` to find."""
        raise NotImplementedError

    def hungry(self) -> bool:
        """Tell whether a consumer or basic.get would take a message that is on the disk."""
        raise NotImplementedError

    def next_job(self, hungry: bool, writing: bool) -> IndexWrite | IndexRead | None:
        """Return the disk's next job; None: there is none. `hungry` is the result of that method;
        `writing` False: the disk may only be read."""
        raise NotImplementedError

    def wrote(self, job: IndexWrite) -> None:
        """Take back a finished write job, so that its messages may leave RAM."""
        raise NotImplementedError

    def give_up(self, job: IndexWrite) -> None:
        """Take back a write job that has failed for good: its messages stay in RAM."""
        raise NotImplementedError

    def loaded(self, job: IndexRead) -> list[range]:
        """Take in what a read job has brought. Returns the positions of messages that could not be
        read: they are gone from the queue."""
        raise NotImplementedError

    def sought(self, job: IndexRead) -> list[Run]:
        """Take in what a read job with an epoch below 0 has found. Returns the messages that are
        not needed any more and have bodies in the message store."""
        raise NotImplementedError

    @property
    def is_seeking(self) -> bool:
        """Tell whether there will be more jobs with an epoch below 0, so that the files have to
        stay."""
        raise NotImplementedError

    @property
    def is_paging_out(self) -> bool:
        """Tell whether RAM must become free, and more messages wait to be written than the present
        job writes."""
        raise NotImplementedError

    # -- bodies in the message store

    def is_at_rest(self) -> bool:
        """Tell whether nothing of the queue has to be read, written or deleted now, and no body
        goes to the message store."""
        raise NotImplementedError

    @property
    def to_store_count(self) -> int:
        """Return the number of messages that `take_to_store` would return."""
        raise NotImplementedError

    def take_to_store(self) -> list[Chunk]:
        """Return the transient messages whose bodies the message store must take now; each is
        returned once."""
        raise NotImplementedError

    def bodies_wanted(self, hungry: bool) -> list[Chunk]:
        """Return the chunks whose bodies are needed next, each once until they have come; none
        unless `hungry`."""
        raise NotImplementedError

    def dead_bodies_wanted(self) -> list[Chunk]:
        """Return the chunks whose bodies are needed to republish dead letters, each once."""
        raise NotImplementedError

    def got_bodies(self, chunk: Chunk, contents: dict[int, bytes]) -> list[range]:
        """Take in the bodies of a chunk, by their ids. Returns the positions of messages whose
        bodies were not found: they are gone from the queue."""
        raise NotImplementedError

    # -- checkpoints

    def bound(self, upto: int) -> None:
        """Note that a checkpoint begins to wait for messages below position `upto`."""
        raise NotImplementedError

    def unsaved(self, upto: int, start: int) -> Iterator[tuple[Chunk, bool]]:
        """Give the persistent messages below position `upto` that may be in no segment yet. True
        comes with those in order: of them, messages before `start` are left out."""
        raise NotImplementedError

    def runs_of(self, chunk: Chunk) -> list[Run]:
        """Return the messages of the chunk that are in no segment yet."""
        raise NotImplementedError

    def state(self) -> QueueState:
        """Return the state that a restart needs, once all journal records of the queue
        are durable.
        """
        raise NotImplementedError
