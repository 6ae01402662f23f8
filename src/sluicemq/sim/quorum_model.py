"""Between a quorum queue and its state: sees each command that is applied, and its effects.

Another model checks the state itself (tests/unit/queues/fifo_model.py). This one checks that
nothing is applied before it is durable; that messages are those that were sent, in order, and enter
only while there is room; that a dead letter leaves when it is safe elsewhere; and that a node
rebuilds from the disk the state that the node before it had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.machine import Replicated
from sluicemq.queues.commands import ACK
from sluicemq.queues.quorum.commands import (
    DEAD_LETTER_WORKER,
    Enqueue,
    FifoCommand,
    SettleDelivered,
)
from sluicemq.queues.quorum.effects import (
    DeadLettered,
    Enqueued,
    EnqueueRejected,
    FifoDelivered,
    FifoEffect,
)
from sluicemq.queues.quorum.entry_content import EntryContent
from sluicemq.queues.settings import REJECT_PUBLISH
from sluicemq.sim.messages import MessageId, id_of_content
from sluicemq.sim.model import apart
from sluicemq.sim.records import promise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluicemq.chain.queue.quorum.shell import QuorumShell
    from sluicemq.sim.durable_image import DurableImage
    from sluicemq.sim.history import History


class QuorumRecords:
    """What is known of the quorum queues of a run over all lives of the node, by their ids."""

    def __init__(self) -> None:
        self.applied: dict[int, int] = {}
        """The index of the last entry applied in any life."""
        self.messages: dict[int, dict[tuple[int, int], MessageId]] = {}
        """The messages by entry, and by place in it."""
        self.states: dict[int, tuple[int, bytes]] = {}
        """Index and digest of the state at the end of a life, until the next life has reached that
        index."""
        self.compared = 0
        """The number of states that were equal in the next life."""


class SeenFifo(Replicated[FifoCommand, FifoEffect]):
    """Stands between a queue's replicator and its state, so that the model sees every applied
    command."""

    def __init__(self, model: QuorumModel) -> None:
        self.model = model

    def entered(self, index: int, stamp_ms: int) -> None:
        self.model.entered(index, stamp_ms)

    def apply(self, command: FifoCommand, effects: list[FifoEffect]) -> None:
        self.model.apply(command, effects)

    def entry_ended(self, effects: list[FifoEffect]) -> None:
        self.model.entry_ended(effects)


class QuorumModel:
    """Watches the state of one quorum queue in one life."""

    def __init__(
        self, queue: QuorumShell, book: History, durable_image: DurableImage, records: QuorumRecords
    ) -> None:
        self.queue = queue
        self.fifo = queue.fifo
        self.name = queue.name
        self.book = book
        self.durable_image = durable_image
        self.records = records
        self.messages = records.messages.setdefault(queue.id, {})
        self.is_new = False
        """The present entry is applied for the first time in the run."""
        self.dead: dict[int, MessageId] = {}
        """Dead letters in flight that must arrive, by their ids."""
        self.expiries: dict[int, int] = {}
        """When the messages of an entry expire, according to the queue's settings in this life."""
        self.catch_up()
        queue.replicator.machine = SeenFifo(self)

    def catch_up(self) -> None:
        """Learn the messages of entries that were applied before anybody looked: a fault may leave
        such entries."""
        applied = self.records.applied.get(self.queue.id, 0)
        bodies = self.queue.bodies
        for entries in (bodies.stored, bodies.fresh) if applied < self.fifo.index else ():
            for index, content in entries.items():
                if applied < index <= self.fifo.index:
                    ids = ids_of(content)
                    self.messages.update({(index, place): ids[place] for place in ids})
        self.records.applied[self.queue.id] = max(applied, self.fifo.index)

    # -- from one life to the next

    def remember(self) -> None:
        """Note the state at the end of this life, if it is not within an entry. A life that ended
        before it reached the state of the life before does not count."""
        replicator = self.queue.replicator
        is_within = replicator._left or replicator.current is not None or replicator.waiting
        if self.fifo.index and not is_within and self.queue.id not in self.records.states:
            self.records.states[self.queue.id] = self.fifo.index, self.fifo.digest()

    def compare(self) -> None:
        """Check that the state is the same as at the end of the life before, which applied nothing
        else."""
        index, digest = self.records.states.pop(self.queue.id)
        at = self.fifo.index
        promise(at == index, self.name, "has forgotten what is behind entry", at, "of", index)
        promise(self.fifo.digest() == digest, self.name, "is another after a restart, at", index)
        self.records.compared += 1

    # -- entries

    def entered(self, index: int, stamp_ms: int) -> None:
        """Check that an entry may begin now, and note it."""
        queue_id, records = self.queue.id, self.records
        expected = records.states.get(queue_id)
        if expected is not None and index > expected[0]:
            self.compare()
        self.is_new = index > records.applied.get(queue_id, 0)
        if self.is_new:
            records.applied[queue_id] = index
            if index > self.queue.replicator.former_index:
                self.durable_image.look()
                durable = self.durable_image.has_entry(queue_id, index)
                promise(durable, self.name, "applies entry", index, "before its sync")
        self.fifo.entered(index, stamp_ms)

    def apply(self, command: FifoCommand, effects: list[FifoEffect]) -> None:
        """Apply a command, and check its effects."""
        place, before = self.fifo.place, len(effects)
        count = self.fifo.messages.count + self.fifo.dead_letters.count
        was_deleted = self.fifo.is_deleted
        self.fifo.apply(command, effects)
        if not self.is_new or was_deleted:
            return
        seen = effects[before:]
        if isinstance(command, Enqueue):
            self.enqueued(command, place, seen, count)
        elif isinstance(command, SettleDelivered):
            self.settled(command)
        self.served(seen)
        self.limited()

    def entry_ended(self, effects: list[FifoEffect]) -> None:
        """Do what follows from an entry, and check its effects."""
        before = len(effects)
        self.fifo.entry_ended(effects)
        if self.is_new:
            self.served(effects[before:])

    def served(self, seen: Sequence[FifoEffect]) -> None:
        """Check what consumers are dealt, and note dead letters."""
        self.delivered([each for each in seen if isinstance(each, FifoDelivered)])
        for effect in seen:
            if isinstance(effect, DeadLettered) and effect.must_arrive:
                self.died(effect)

    def enqueued(
        self, command: Enqueue, place: int, effects: Sequence[FifoEffect], count: int
    ) -> None:
        """Note the messages taken from a batch whose first message is at `place`. The queue had
        `count` messages before."""
        settings = self.fifo.settings
        most = settings.max_length if settings.overflow == REJECT_PUBLISH else None
        content = self.queue.replicator.raft.member.log.entry_at(self.fifo.index).data
        assert isinstance(content, EntryContent)
        ids = ids_of(content)
        if settings.message_ttl_ms is not None:
            expiry = self.fifo.now_ms + max(1, settings.message_ttl_ms)
            self.expiries[self.fifo.index] = expiry
        for effect in effects:
            if isinstance(effect, EnqueueRejected):
                promise(settings.has_limit, self.name, "takes no message, and has no limit")
            elif isinstance(effect, Enqueued):
                promise(most is None or count <= most, self.name, "takes one more than", count)
                first = place + effect.first_seq - command.first_seq
                for at in range(first, first + effect.messages):
                    message = self.messages[self.fifo.index, at] = ids[at]
                    self.book.accept(self.name, message)
                    self.book.make_safe(self.name, message)

    def settled(self, command: SettleDelivered) -> None:
        """Note dead letters that leave the queue, and check that they are safe elsewhere."""
        if command.consumer == DEAD_LETTER_WORKER and command.outcome == ACK:
            for start, end in command.ids:
                for id_ in range(start, end):
                    message = self.dead.pop(id_, None)
                    if message is not None:
                        self.book.bury(self.name, message)

    def died(self, effect: DeadLettered) -> None:
        """Note dead letters that are being published."""
        for part in effect.parts:
            for id_, place in enumerate(part.places, part.first_id):
                self.dead[id_] = self.messages[part.entry, place]

    def delivered(self, effects: Sequence[FifoDelivered]) -> None:
        """Check that delivered messages have not expired, and go to the active consumer if only one
        may be active."""
        consumers = self.fifo.consumers
        for effect in effects:
            active = consumers.active
            right = active is not None and active.key == effect.consumer
            alone = consumers.single_active
            promise(right or not alone, self.name, "serves one that should wait")
            for part in effect.parts:
                late = 0 < self.expiries.get(part.entry, 0) <= self.fifo.now_ms
                promise(not late, self.name, "deals after its time", part.entry, part.places)

    def limited(self) -> None:
        """Check that the queue is within its limit, unless it rejects publishes."""
        fifo = self.fifo
        most = fifo.settings.max_length
        if most is not None and fifo.settings.overflow != REJECT_PUBLISH:
            promise(fifo.messages.count <= most, self.name, "has", fifo.messages.count, "of", most)


def ids_of(content: EntryContent) -> dict[int, MessageId]:
    """Return the messages of an entry by their places in it."""
    found: dict[int, MessageId] = {}
    for first, _, batch in content.batches():
        messages = apart(batch.traits.envelope, batch.contents)
        found.update(enumerate([id_of_content(content) for _, content in messages], first))
    return found
