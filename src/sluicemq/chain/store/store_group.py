"""The messages that the message store gathers for one group of the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.store.group_commit import Append
from sluicemq.chain.store.messages import Collect, Written
from sluicemq.storage.entries import Run, encode_ack, encode_deliver, encode_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluicemq.chain.store.checkpoints import Checkpoints
    from sluicemq.chain.store.messages import StoreClient, StoreRemove, StoreWrite
    from sluicemq.queues.effects import Receipt
    from sluicemq.storage.journal import Journal
    from sluicemq.storage.message_files import MessageFiles
    from sluicemq.storage.message_writes import MessageWrites


class StoreGroup(Append):
    """A quantum of the messages that the message store gathers for the journal. A group of the
    journal has all quanta that there are, in their order, or one if it has appends to logs.
    `closed` is called with it when its group of the journal is closed: later messages are for
    another one. `unclosed` are the quanta that are still open.

    Until it is closed, a write whose messages have left their queue again can be taken out of it
    (`MessageStore.overtake`). `bodies` are the files of durable bodies.
    """

    __slots__ = (
        "acks",
        "bodies",
        "bodies_job",
        "bytes",
        "checkpoints",
        "closed",
        "collect",
        "delivered",
        "gone_bodies",
        "is_gathered",
        "journal",
        "places",
        "unclosed",
        "writes",
    )

    def __init__(
        self,
        journal: Journal,
        checkpoints: Checkpoints,
        bodies: MessageFiles,
        closed: Callable[[StoreGroup], None],
        unclosed: list[StoreGroup],
    ) -> None:
        super().__init__(urgent=False)
        self.journal = journal
        self.checkpoints = checkpoints
        self.bodies = bodies
        self.closed = closed
        self.unclosed = unclosed
        self.writes: list[StoreWrite] = []
        self.places: dict[tuple[StoreClient, int], StoreWrite] = {}
        """The writes by where they begin, less those that were overtaken."""
        self.acks: dict[StoreClient, list[range]] = {}
        self.delivered: dict[StoreClient, int] = {}
        self.collect: list[StoreRemove] = []
        self.gone_bodies: list[int] = []
        """Ids of bodies that nobody needs any more when this group is durable."""
        self.bodies_job: MessageWrites | None = None
        self.bytes = 0
        self.is_gathered = False
        """It is among what waits for the journal's next groups."""

    @property
    def quantum_bytes(self) -> int:
        return 1 + self.bytes

    def is_empty(self) -> bool:
        """Tell whether nothing has come yet."""
        return not (self.writes or self.acks or self.collect or self.gone_bodies)

    def entries(self, parts: list[bytes]) -> None:
        """Close the group, and add its entries to `parts`: writes before acknowledgements."""
        self.closed(self)
        journal = self.journal
        for write in self.writes:
            if not write.cancelled:
                run = run_of(write)
                encode_run(parts, run)
                journal.mark(run.queue, run.first + run.count)
        for queue, ranges in self.acks.items():
            encode_ack(parts, queue.id, ranges)
            encode_deliver(parts, queue.id, self.delivered[queue])
            journal.mark(queue.id, 0)
            self.touch(queue)

    def before(self) -> MessageWrites | None:
        """Return the job that writes large bodies, None if there are none: all of them, or those of
        this quantum when others are left for later groups of the journal."""
        ids = self.body_ids() if self.unclosed else None
        self.bodies_job = self.bodies.take_job(ids)
        return self.bodies_job

    def body_ids(self) -> Iterator[int]:
        """Yield the ids of the large bodies to which its entries refer."""
        for write in self.writes:
            if not write.cancelled:
                yield from body_ids_of(write)

    def touch(self, queue: StoreClient) -> None:
        """Have the next checkpoint look at this queue, if that is not noted yet."""
        if queue not in self.checkpoints.touched:
            self.checkpoints.touch(queue)

    def appended(self) -> None:
        """Tell the queues that their messages are durable, in the order of writing, and release
        bodies that nobody needs any more."""
        if self.bodies_job is not None:
            self.bodies.finished(self.bodies_job)
        by_queue: dict[StoreClient, list[Receipt]] = {}
        for write in self.writes:
            self.touch(write.queue)
            if write.receipt is not None and not write.cancelled:
                by_queue.setdefault(write.queue, []).append(write.receipt)
        for queue, receipts in by_queue.items():
            queue.post(Written(receipts))
        if self.gone_bodies:
            self.bodies.remove(self.gone_bodies)
        for removed in self.collect:
            removed.queue.post(Collect(removed.empty))


def body_ids_of(write: StoreWrite) -> range:
    """Return the ids of the messages of a write whose bodies are in files; none if they are not."""
    first_id = write.batch.first_id
    return range(first_id, first_id + len(write.batch.contents)) if first_id else range(0)


def run_of(write: StoreWrite) -> Run:
    """Return the journal's entry for a write."""
    batch = write.batch
    contents = batch.contents
    count = len(contents)
    sizes = [len(contents[0])] * count if batch.same_size else list(map(len, contents))
    return Run(
        queue=write.queue.id,
        first=write.position,
        step=1,
        count=count,
        traits=batch.traits,
        same_size=batch.same_size,
        contents=None if batch.first_id else contents,
        sizes=sizes,
        first_id=batch.first_id,
        expiry=write.expiry,
    )
