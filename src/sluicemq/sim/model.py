"""A queue as anyone would write it down: one list of messages by position. Run beside the real one.

`Spy` sits where a replicator sits, between the queue actor and its machine, sees each command and
the effects that answer it, and applies the same to the model. Whatever differs is a broken promise:
what is delivered is the head of the list, what is requeued goes back to its position, what is
confirmed is safe, and the counters are the sums.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final

from sluicemq.model.batch import OVERHEAD_BYTES
from sluicemq.queues.commands import (
    Cancel,
    Command,
    Consume,
    Delete,
    Down,
    Get,
    Inspect,
    Publish,
    Purge,
    Receipt,
    Serve,
    Settle,
    Written,
)
from sluicemq.queues.effects import (
    Cancelled,
    Confirm,
    Consumed,
    Deleted,
    Deliver,
    Effect,
    Got,
    Inspected,
    Purged,
    Refuse,
    Write,
)
from sluicemq.queues.ready import position_of
from sluicemq.replication.replicator import Replicator
from sluicemq.sim.history import History, promise
from sluicemq.sim.messages import MessageId, id_of_content

if TYPE_CHECKING:
    from sluicemq.chain.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic import ClassicQueue
    from sluicemq.queues.machine import Depth

DEAL_FIRST: Final = (Serve, Get, Inspect, Purge, Delete)
ANSWERS: Final[dict[type, tuple[type, ...]]] = {
    Publish: (Write, Confirm),
    Written: (Confirm,),
    Get: (Got, Refuse),
    Inspect: (Inspected,),
    Purge: (Purged,),
    Delete: (Cancelled, Deleted, Refuse),
    Consume: (Consumed, Refuse),
    Cancel: (Cancelled,),
}
"""What each command may be answered with, after deliveries."""


class Entry:
    """One message of the queue."""

    __slots__ = ("address", "content", "delivered", "id", "persistent", "position", "share")

    def __init__(self, content: bytes, position: int, batch: Batch) -> None:
        self.id = id_of_content(content)
        self.content = content
        self.position = position
        self.address = batch.address
        self.persistent = batch.persistent
        self.share = OVERHEAD_BYTES + len(content) // batch.copies
        self.delivered = False

    def __lt__(self, other: Entry) -> bool:
        return self.position < other.position


class ModelLot:
    """What one delivery still has out; None: settled."""

    __slots__ = ("channel", "entries")

    def __init__(self, channel: Actor, entries: list[Entry]) -> None:
        self.channel = channel
        self.entries: list[Entry | None] = list(entries)


class SyncedWrites:
    """Which writes are covered by a sync that is over."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.covered: list[Receipt] = []
        self.durable: dict[int, Receipt] = {}

    def sync_begins(self) -> None:
        """All that the store has received until now."""
        self.covered = [receipt for _, receipt in [*self.store.syncing, *self.store.group]]

    def sync_ends(self) -> None:
        self.durable.update((id(receipt), receipt) for receipt in self.covered)
        self.covered = []

    def take(self, receipt: Receipt) -> bool:
        """Is it durable? It is asked for once."""
        return self.durable.pop(id(receipt), None) is not None


class Spy(Replicator):
    """Takes the place of a queue's replicator, hands everything on, and watches."""

    def __init__(
        self, inner: Replicator, machine: ClassicQueue, name: str, book: History, disk: SyncedWrites
    ) -> None:
        self.inner = inner
        self.machine = machine
        self.name = name
        self.book = book
        self.disk = disk
        self.ready: list[Entry] = []
        self.lots: dict[int, ModelLot] = {}
        self.next_position = 0
        self.writes: dict[int, list[MessageId]] = {}
        self.deleted = False
        self.senders: dict[Actor, None] = {}
        """Who published here, since somebody last cleared this."""

    def submit(self, command: Command, effects: list[Effect]) -> None:
        """See Replicator."""
        before = len(effects)
        self.inner.submit(command, effects)
        if isinstance(command, Publish):
            self.senders[command.sender] = None
        self.watch(command, effects[before:])

    def watch(self, command: Command, effects: list[Effect]) -> None:
        """Do the same to the model; compare. Some commands deal first, then answer."""
        if isinstance(command, DEAL_FIRST):
            delivers = [each for each in effects if isinstance(each, Deliver)]
            self.serve(delivers)
            effects = effects[len(delivers) :]
        for effect in effects:
            allowed = ANSWERS.get(type(command), ())
            promise(isinstance(effect, allowed), self.name, "answers", command, "with", effect)
        if isinstance(command, Publish):
            self.publish(command, effects)
        elif isinstance(command, Settle):
            self.settle(command)
        elif isinstance(command, Written):
            self.written(command, effects)
        elif isinstance(command, Down):
            for number in [n for n, lot in self.lots.items() if lot.channel is command.channel]:
                lot = self.lots.pop(number)
                if not self.deleted:
                    self.requeue(lot.entries)
        elif isinstance(command, Get | Inspect | Purge | Delete):
            self.answer(effects[-1])

    def answer(self, answer: Effect) -> None:
        """Is it true?"""
        if isinstance(answer, Got):
            self.get(answer)
        elif isinstance(answer, Inspected):
            self.is_depth(answer.ready, "inspected")
        elif isinstance(answer, Purged):
            self.is_depth(answer.count, "purged")
            self.ready.clear()
        elif isinstance(answer, Deleted):
            self.is_depth(answer.count, "deleted")
            self.ready.clear()
            self.deleted = True

    def is_depth(self, count: int, word: str) -> None:
        promise(count == len(self.ready), self.name, word, count, "of", len(self.ready))

    def publish(self, command: Publish, effects: list[Effect]) -> None:
        """To the tail; what must be written is safe later, the rest now."""
        batch = command.batch
        ids = [id_of_content(content) for content in batch.contents]
        if not self.deleted:
            for message, content in zip(ids, batch.contents, strict=True):
                self.book.accept(self.name, message)
                self.ready.append(Entry(content, self.next_position, batch))
                self.next_position += 1
        writes = self.machine.durable and batch.persistent and not self.deleted
        if writes:
            (write,) = effects
            assert isinstance(write, Write)
            wanted = command.first_seq > 0
            promise((write.receipt is not None) == wanted, self.name, "receipt of", ids)
            if write.receipt is not None:
                self.writes[id(write.receipt)] = ids
        else:
            for message in ids:
                self.book.make_safe(self.name, message)
            if command.first_seq:
                (confirm,) = effects
                self.is_confirm(confirm, command.sender, command.first_seq, len(ids))
            else:
                promise(not effects, self.name, "answers an unconfirmed publish with", effects)

    def is_confirm(self, effect: Effect, sender: Actor, first_seq: int, count: int) -> None:
        """Is this the confirm that is due?"""
        assert isinstance(effect, Confirm)
        right = (effect.channel, effect.first_seq, effect.count) == (sender, first_seq, count)
        promise(right, self.name, "confirms", effect.first_seq, "not", first_seq)

    def written(self, command: Written, effects: list[Effect]) -> None:
        """Each receipt was asked for once and is covered by a sync."""
        promise(len(effects) == len(command.receipts), self.name, "confirms", effects)
        for receipt, effect in zip(command.receipts, effects, strict=True):
            ids = self.writes.pop(id(receipt), None)
            promise(ids is not None, self.name, "hears twice of", receipt.first_seq)
            promise(self.disk.take(receipt), self.name, "hears before the sync of", ids)
            for message in ids or ():
                self.book.make_safe(self.name, message)
            self.is_confirm(effect, receipt.sender, receipt.first_seq, receipt.count)

    def serve(self, delivers: list[Deliver]) -> None:
        """What is dealt out is the head of the list, to each consumer in order."""
        count = sum(len(deliver.contents) for deliver in delivers)
        promise(count <= len(self.ready), self.name, "deals", count, "of", len(self.ready))
        head = {entry.id: entry for entry in self.ready[:count]}
        del self.ready[:count]
        for deliver in delivers:
            entries = []
            last = -1
            for content in deliver.contents:
                entry = head.pop(id_of_content(content), None)
                promise(entry is not None, self.name, "deals what is not its head")
                assert entry is not None
                promise(entry.position > last, self.name, "deals", entry.id, "out of order")
                last = entry.position
                self.compare(entry, content, deliver.address, deliver.redelivered)
                entries.append(entry)
            self.hand_out(deliver.lot, deliver.channel, deliver.consumer.no_ack, entries)

    def compare(self, entry: Entry, content: bytes, address: bytes, redelivered: bool) -> None:
        """Is the message what was published, and flagged if it was out before?"""
        promise(content == entry.content, self.name, "changes", entry.id)
        promise(address == entry.address, self.name, "readdresses", entry.id)
        promise(redelivered == entry.delivered, self.name, "flags", entry.id, redelivered)
        entry.delivered = True

    def hand_out(self, lot: int, channel: Actor, no_ack: bool, entries: list[Entry]) -> None:
        """Remember what is out."""
        promise((lot == 0) == no_ack, self.name, "lot", lot, "for no-ack", no_ack)
        if lot:
            promise(lot not in self.lots, self.name, "uses lot", lot, "twice")
            self.lots[lot] = ModelLot(channel, entries)

    def get(self, answer: Got) -> None:
        """The head, if there is one."""
        if answer.content is None:
            promise(not self.ready, self.name, "claims to be empty with", len(self.ready))
            return
        promise(bool(self.ready), self.name, "gives what it has not")
        entry = self.ready.pop(0)
        self.compare(entry, answer.content, answer.address, answer.redelivered)
        self.is_depth(answer.ready, "has left")
        self.hand_out(answer.lot, answer.channel, answer.lot == 0, [entry])

    def settle(self, command: Settle) -> None:
        """Parts of lots that are out, each once. What is given back to a deleted queue is gone."""
        for number, start, end in command.parts:
            lot = self.lots.get(number)
            if lot is None:
                promise(False, self.name, "is asked to settle lot", number, "which is not out")
                continue
            part = lot.entries[start:end]
            there = None not in part and len(part) == end - start > 0
            promise(there, self.name, "settles", start, end, "of lot", number)
            lot.entries[start:end] = [None] * (end - start)
            if command.requeue and not self.deleted:
                self.requeue(part)
            if not any(lot.entries):
                del self.lots[number]

    def requeue(self, entries: list[Entry | None]) -> None:
        """Each back to its position."""
        for entry in entries:
            if entry is not None:
                insort(self.ready, entry)

    # -- the whole state

    def compare_depth(self) -> None:
        """The running counters are the sums."""
        if self.deleted:
            return
        depth: Depth = self.machine.depth
        out = [e for lot in self.lots.values() for e in lot.entries if e is not None]
        both = [*self.ready, *out]
        kept = sum(e.persistent for e in both) if self.machine.durable else 0
        counted = {
            "ready": len(self.ready),
            "unacked": len(out),
            "ready_bytes": sum(len(e.content) for e in self.ready),
            "unacked_bytes": sum(len(e.content) for e in out),
            "footprint": sum(e.share for e in both),
            "persistent": kept,
        }
        for word, value in counted.items():
            told = getattr(depth, word)
            promise(told == value, self.name, "counts", word, told, "not", value)

    def compare_contents(self) -> None:
        """The machine's list is the model's, message by message; so are its lots."""
        if self.deleted:
            return
        ready = self.machine.ready
        back = sorted([*ready.returned, *ready.unsorted], key=position_of)
        there = [
            (chunk.position + index, chunk.contents[index])
            for chunk in [*back, *ready.chunks]
            for index in range(chunk.start, len(chunk.contents))
        ]
        here = [(entry.position, entry.content) for entry in self.ready]
        promise(there == here, self.name, "holds", len(there), "ready, which are not the model's")
        promise(list(self.machine.lots) == list(self.lots), self.name, "has other lots")
        for number, lot in self.machine.lots.items():
            entries = self.lots[number].entries
            contents = [entry and entry.content for entry in entries]
            promise(lot.contents == contents, self.name, "lot", number, "differs")
