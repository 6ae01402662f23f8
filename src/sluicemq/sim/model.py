"""A queue in its simplest form: one list of messages by position. It runs beside the real one.

`QueueModel` sits between the queue actor and its machine, sees each command that is applied and
each call, with the resulting effects, and does the same to the model. Every difference is a broken
promise: delivered messages are the head of the list, requeued messages go back to their positions,
confirmed messages are durable or gone again, messages that have left are reported as removed, and
the counters are the sums. The model ignores whether a message is in RAM or on disk.

After a recovery the model only knows the positions of messages; it learns each message when it sees
it.
"""

from __future__ import annotations

from bisect import insort
from itertools import groupby
from typing import TYPE_CHECKING, Final

from sluicemq.chain.republish.delayer import Delayer
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.limits import RETURN_BYTES
from sluicemq.model.batch import ENVELOPED, separate
from sluicemq.queues.classic.limits import EXPIRED
from sluicemq.queues.classic.paging import PlainBacking
from sluicemq.queues.classic.priorities import PriorityBacking
from sluicemq.queues.commands import (
    ACK,
    REJECT,
    REQUEUE,
    Cancel,
    Command,
    Configure,
    Consume,
    Delete,
    Down,
    Get,
    Inspect,
    Publish,
    Purge,
    Settle,
)
from sluicemq.queues.effects import (
    Cancelled,
    Confirm,
    Consumed,
    DeadLetter,
    Deleted,
    Deliver,
    Effect,
    Got,
    Inspected,
    Purged,
    Receipt,
    Refuse,
    Remove,
    Write,
)
from sluicemq.sim.history import History
from sluicemq.sim.machine_tap import ENFORCE, SERVE, Tap
from sluicemq.sim.messages import MessageId, id_of_content
from sluicemq.sim.records import promise
from sluicemq.storage.positions import first_of_priority, priority_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluicemq.chain.queue.classic import ClassicShell
    from sluicemq.flow.link import Link
    from sluicemq.kernel.actor import Actor
    from sluicemq.queues.machine import Depth
    from sluicemq.sim.durable_image import DurableImage

ANSWERS: Final[dict[type | str, tuple[type, ...]]] = {
    SERVE: (Deliver, Got, Remove),
    ENFORCE: (Deliver, Got, DeadLetter, Remove),
    Publish: (Write, Confirm),
    Settle: (Remove,),
    Down: (Remove,),
    Get: (Deliver, Got, Refuse, DeadLetter, Remove),
    Inspect: (Deliver, Got, Inspected, Remove),
    Purge: (Deliver, Got, Purged, Remove),
    Delete: (Deliver, Got, Cancelled, Deleted, Refuse, Remove),
    Consume: (Consumed, Refuse),
    Cancel: (Cancelled,),
}
"""The effects that may answer each command or call. A basic.get may wait for the disk, so that its
answer comes with a later one."""


def apart(envelope: bytes, contents: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Return envelope and content of each message, wherever the envelopes are."""
    if envelope == ENVELOPED:
        return [separate(content) for content in contents]
    return [(envelope, content) for content in contents]


def kept_size(of_batch: bytes, envelope: bytes, content: bytes) -> int:
    """Return the bytes that the queue counts for a message."""
    return len(content) + (len(envelope) if of_batch == ENVELOPED else 0)


class Entry:
    """One message of the queue; its `content` is None until it was seen. `size` is what the queue
    counts for it, including the envelope if its batch was ENVELOPED."""

    __slots__ = (
        "content",
        "delivered",
        "envelope",
        "expiry",
        "id",
        "persistent",
        "position",
        "returns",
        "size",
    )

    def __init__(
        self, content: bytes | None, position: int, envelope: bytes, persistent: bool
    ) -> None:
        self.id: MessageId | None = None
        self.content = content
        self.size = 0
        self.position = position
        self.envelope = envelope
        self.persistent = persistent
        self.delivered = False
        self.expiry: int | None = None
        """None when it is no longer known."""
        self.returns = 0

    def __lt__(self, other: Entry) -> bool:
        """Tell whether it is delivered before the other."""
        here, there = priority_at(self.position), priority_at(other.position)
        return here > there if here != there else self.position < other.position


class ModelRun:
    """The unacknowledged messages of one delivery; None stands for a settled message."""

    __slots__ = ("channel", "entries")

    def __init__(self, channel: Actor, entries: list[Entry]) -> None:
        self.channel = channel
        self.entries: list[Entry | None] = list(entries)


class QueueModel(Tap):
    """Runs a model beside a queue: it sees the commands and effects of the queue's machine, and
    compares them with the model."""

    def __init__(self, queue: ClassicShell, book: History, durable_image: DurableImage) -> None:
        super().__init__(queue.machine)
        self.queue_id = queue.id
        self.name = queue.name
        self.prefix = queue.prefix_bytes
        """Bytes that the queue puts before each content."""
        self.book = book
        self.durable_image = durable_image
        self.unacked_runs: dict[int, ModelRun] = {}
        self.writes: dict[int, tuple[range, list[MessageId]]] = {}
        """Positions and ids by receipt."""
        self.fresh: set[int] = set()
        """Positions of messages that came since the machine last looked at the time: these may be
        delivered once though they have expired in flight."""
        self.gets: list[Actor] = []
        self.early: tuple[Got | None, Entry | None] = (None, None)
        """A basic.get whose answer is still to come, and the message in it."""
        self.left: dict[int, Entry] = {}
        """Messages that left the queue for good by the command being watched."""
        self.deleted = False
        self.senders: dict[Actor, None] = {}
        """Publishers to this queue since this was last cleared."""
        self.handed_over = 0
        """Bodies that went to the message store since then to free RAM, or came as dead letters:
        their publisher waits for credit only when a whole run has passed."""
        self.highest = queue.settings.max_priority or 0
        self.next_positions: dict[int, int] = {}
        """The next positions by priority."""
        self.ready: list[Entry] = []
        for mark in queue.machine.marks():
            self.next_positions[mark.priority] = mark.next
            first = first_of_priority(mark.priority)
            for positions in queue.machine.backing.index.live_in(first, mark.next):
                for at in positions:
                    entry = Entry(None, at, b"", True)
                    entry.delivered = at < mark.delivered
                    insort(self.ready, entry)
        self.recovered = bool(self.ready)
        self.there = {entry.position: entry for entry in self.ready}
        """All messages, ready or unacknowledged, by position."""

    def id_of(self, content: bytes) -> MessageId:
        """Return the id of the message with that content."""
        return id_of_content(content[self.prefix :])

    def handed_to_store(self, count: int) -> None:
        self.handed_over += count

    def published(self, command: Publish) -> None:
        """Note the publisher, and how much it has published."""
        sender = command.link.sender
        if isinstance(sender, Republisher):
            self.handed_over += len(command.batch.contents)
        else:
            self.senders[sender] = None

    def watch(self, command: Command | str, effects: list[Effect]) -> None:
        """Apply the command to the model, and compare."""
        for effect in effects:
            allowed = ANSWERS.get(command if isinstance(command, str) else type(command), ())
            promise(isinstance(effect, allowed), self.name, "answers", command, "with", effect)
        if isinstance(command, Publish):
            self.publish(command, effects)
        elif isinstance(command, Configure):
            self.configure()
        elif isinstance(command, Settle):
            self.settle(command)
        elif isinstance(command, Down):
            self.gets = [channel for channel in self.gets if channel is not command.channel]
            for number in [
                n for n, run in self.unacked_runs.items() if run.channel is command.channel
            ]:
                run = self.unacked_runs.pop(number)
                if not self.deleted:
                    self.requeue(run.entries)
        else:
            if isinstance(command, Get):
                self.gets.append(command.channel)
            self.answers(effects)
        if command == ENFORCE:
            self.fresh.clear()
        self.compare_removed(effects)

    def configure(self) -> None:
        """Apply the settings. Without a delivery limit nobody counts requeues."""
        if self.machine.settings.delivery_limit is None:
            for entry in self.there.values():
                entry.returns = 0

    def answers(self, effects: list[Effect]) -> None:
        """Check deliveries, and answers to questions, in order."""
        delivers: list[Deliver] = []
        for at, effect in enumerate(effects):
            if isinstance(effect, DeadLetter) and not delivers:
                self.take_early(effects[at:])
            if isinstance(effect, Deliver):
                delivers.append(effect)
            elif not isinstance(effect, Remove):
                self.serve(delivers)
                delivers = []
                self.answer(effect)
        self.serve(delivers)

    def take_early(self, effects: list[Effect]) -> None:
        """Make the message of a basic.get unacknowledged before messages behind it die; its answer
        is checked later, with the rest."""
        got = next((each for each in effects if isinstance(each, Got)), None)
        if got is None or got.content is None or got is self.early[0] or not self.ready:
            return
        ((_, content),) = apart(got.traits.envelope, [got.content])
        head = self.ready[0]
        run = self.machine.unacked_runs.get(got.run)
        is_head = head.id == self.id_of(content)
        if head.content is None and run is not None:  # it was read back, and not seen since
            is_head = head.position in run.positions
        if is_head:
            self.early = (got, self.ready.pop(0))

    def answer(self, answer: Effect) -> None:
        """Check the effect that answers a command."""
        if isinstance(answer, Got):
            self.answers_get(answer.channel)
            self.get(answer)
        elif isinstance(answer, Inspected):
            self.is_depth(answer.ready, "inspected")
        elif isinstance(answer, Purged):
            self.is_depth(answer.count, "purged")
            self.drop(self.ready)
        elif isinstance(answer, Deleted):
            self.is_depth(answer.count, "deleted")
            self.drop(self.ready)
            if not self.deleted:
                for run in self.unacked_runs.values():
                    self.drop(run.entries)
            self.deleted = True
        elif isinstance(answer, DeadLetter):
            self.die(answer)
        elif isinstance(answer, Refuse) and self.machine.deleted and self.gets:
            self.answers_get(answer.channel)

    def die(self, letter: DeadLetter) -> None:
        """Check dead letters. Expired and excess messages are the head of the list, and
        unacknowledged from now on; rejected messages are unacknowledged already."""
        count = len(letter.contents)
        known = self.unacked_runs.get(letter.run)
        entries = self.ready[:count] if known is None else [e for e in known.entries if e]
        messages = apart(letter.traits.envelope, letter.contents)
        promise(len(entries) == count, self.name, "buries", count, "of", len(entries))
        for index, (entry, (envelope, content)) in enumerate(zip(entries, messages, strict=True)):
            if entry.content is None:
                self.learn(entry, content, envelope)
                entry.size = kept_size(letter.traits.envelope, envelope, content)
            promise(content == entry.content, self.name, "buries another than", entry.id)
            if known is None:
                self.must_go(entry, letter.reason, len(self.ready) - index)
                entry.delivered = True
        if known is None:
            del self.ready[:count]
            self.unacked_runs[letter.run] = ModelRun(self.machine.queue, entries)

    def must_go(self, entry: Entry, reason: str, length: int) -> None:
        """Check that a message had to die: it has expired, or the queue is too long."""
        if reason == EXPIRED:
            old = entry.expiry is None or 0 < entry.expiry <= self.machine.limits.now_ms
            promise(old, self.name, "buries too early", entry.id)
        else:
            settings = self.machine.settings
            most = settings.max_length
            too_many = most is not None and length > most
            large = settings.max_length_bytes is not None  # it goes by an estimate
            promise(too_many or large, self.name, "has room for", entry.id)

    def answers_get(self, channel: Actor) -> None:
        """Check that each basic.get is answered once, in order."""
        promise(bool(self.gets) and self.gets[0] is channel, self.name, "answers no basic.get")
        del self.gets[0]

    def drop(self, entries: list[Entry] | list[Entry | None]) -> None:
        """Remove entries from the queue for good; None among them is skipped."""
        for entry in entries:
            if entry is not None:
                self.leave(entry)
        if entries is self.ready:
            self.ready = []

    def leave(self, entry: Entry) -> None:
        """Remove one entry from the queue for good."""
        del self.there[entry.position]
        self.left[entry.position] = entry

    def compare_removed(self, effects: list[Effect]) -> None:
        """Check that messages that left are removed from the disk once, if a restart would bring
        them back. Purged messages on disk are removed without being listed."""
        removed: list[int] = []
        for effect in effects:
            if isinstance(effect, Remove) and effect.durable:
                removed += effect.positions
        kept = [at for at, entry in self.left.items() if self.is_kept(entry)]
        missing = set(kept).difference(removed)
        promise(not missing, self.name, "does not say that it removes", *sorted(missing))
        invented = set(removed).difference(self.left)
        promise(not invented, self.name, "removes what is still there:", *sorted(invented))
        promise(len(removed) == len(set(removed)), self.name, "removes twice of", *sorted(removed))
        self.left = {}

    def is_kept(self, entry: Entry) -> bool:
        """Tell whether the entry survives a restart."""
        return self.machine.durable and entry.persistent

    def is_depth(self, count: int, word: str) -> None:
        promise(count == len(self.ready), self.name, word, count, "of", len(self.ready))

    def publish(self, command: Publish, effects: list[Effect]) -> None:
        """Append to the tail; messages that must be written are safe later, the others now."""
        batch = command.batch
        messages = apart(batch.traits.envelope, batch.contents)
        ids = [self.id_of(content) for _, content in messages]
        level = min(batch.properties.priority, self.highest)
        first = at = self.next_positions.get(level, first_of_priority(level))
        if not self.deleted:
            for message, (envelope, content) in zip(ids, messages, strict=True):
                self.book.accept(self.name, message)
                entry = Entry(content, at, envelope, batch.traits.persistent)
                entry.id = message
                entry.size = kept_size(batch.traits.envelope, envelope, content)
                entry.expiry = command.expiry
                insort(self.ready, entry)
                self.there[entry.position] = entry
                self.fresh.add(at)
                at += 1
            self.next_positions[level] = at
        writes = self.machine.durable and batch.traits.persistent and not self.deleted
        if writes:
            (write,) = effects
            assert isinstance(write, Write)
            promise(write.position == first, self.name, "writes", write.position, "not", first)
            wanted = command.confirm
            promise((write.receipt is not None) == wanted, self.name, "receipt of", ids)
            if write.receipt is not None:
                self.writes[id(write.receipt)] = (range(first, at), ids)
        else:
            for message in ids:
                self.book.make_safe(self.name, message)
            if command.confirm:
                (confirm,) = effects
                self.is_confirm(confirm, command.link, command.first_seq, len(ids))
            else:
                promise(not effects, self.name, "answers an unconfirmed publish with", effects)

    def is_confirm(self, effect: Effect, link: Link, first_seq: int, count: int) -> None:
        """Check that an effect is the next confirm that is due."""
        assert isinstance(effect, Confirm)
        right = (effect.link, effect.first_seq, effect.count) == (link, first_seq, count)
        promise(right and effect.channel is link.sender, self.name, "tells somebody else")
        promise(right, self.name, "confirms", effect.first_seq, "not", first_seq)

    def written(self, receipts: Sequence[Receipt], effects: list[Effect]) -> None:
        """Check a report of written messages: each was asked for once, and is durable, or has left
        again."""
        promise(len(effects) == len(receipts), self.name, "confirms", effects)
        self.durable_image.look()
        for receipt, effect in zip(receipts, effects, strict=True):
            known = self.writes.pop(id(receipt), None)
            promise(known is not None, self.name, "hears twice of", receipt.first_seq)
            assert known is not None
            for position, message in zip(*known, strict=True):
                if position in self.there:
                    durable = self.durable_image.has(self.queue_id, position)
                    promise(durable, self.name, "hears before the sync of", message)
                self.book.make_safe(self.name, message)
            self.is_confirm(effect, receipt.link, receipt.first_seq, receipt.count)

    def serve(self, delivers: list[Deliver]) -> None:
        """Check that deliveries are the head of the list, to each consumer in order."""
        count = sum(len(deliver.contents) for deliver in delivers)
        promise(count <= len(self.ready), self.name, "deals", count, "of", len(self.ready))
        head = {entry.position: entry for entry in self.ready[:count]}
        del self.ready[:count]
        self.recognise(head, delivers)
        known: dict[MessageId | None, list[int]] = {}
        for entry in head.values():
            known.setdefault(entry.id, []).append(entry.position)
        for deliver in sorted(delivers, key=lambda each: not each.run):
            alone = self.machine.consumers.single_active
            waits = alone and deliver.consumer is not delivers[0].consumer
            promise(not waits, self.name, "serves one that should wait")
            entries = []
            turn: Entry | None = None
            for index, message in enumerate(apart(deliver.traits.envelope, deliver.contents)):
                envelope, content = message
                copies = known.get(self.id_of(content), [])
                promise(bool(copies), self.name, "deals what is not its head")
                if len(copies) > 1:
                    self.put_first(copies, head, deliver, index)
                entry = head[copies.pop(0)]
                promise(turn is None or turn < entry, self.name, "deals", entry.id, "out of order")
                turn = entry
                self.compare(entry, content, envelope, deliver.redelivered)
                entries.append(entry)
            self.hand_out(deliver.run, deliver.channel, deliver.consumer.no_ack, entries)

    def put_first(
        self, copies: list[int], head: dict[int, Entry], deliver: Deliver, index: int
    ) -> None:
        """Choose which copy of a message that has died twice is delivered. A no-ack delivery does
        not name its position; the copies differ in their headers."""
        if deliver.run:
            position = self.machine.unacked_runs[deliver.run].positions[index]
            promise(position in copies, self.name, "deals what is not its head")
        else:
            _, content = apart(deliver.traits.envelope, deliver.contents)[index]
            same = [at for at in copies if head[at].content in (content, None)]
            promise(bool(same), self.name, "changes", head[copies[0]].id)
            position = same[0]
        copies.remove(position)
        copies.insert(0, position)

    def recognise(self, head: dict[int, Entry], delivers: list[Deliver]) -> None:
        """Learn messages of the head that are delivered for the first time since the restart.
        No-ack deliveries do not name positions; it does not matter, because those messages leave.
        """
        unknown = {at: entry for at, entry in head.items() if entry.content is None}
        if not unknown:
            return
        known = {entry.id for entry in head.values() if entry.content is not None}
        for deliver in sorted(delivers, key=lambda each: not each.run):
            run = self.machine.unacked_runs[deliver.run].positions if deliver.run else None
            for index, message in enumerate(apart(deliver.traits.envelope, deliver.contents)):
                envelope, content = message
                if run is not None:
                    position = run[index]
                elif unknown and self.id_of(content) not in known:
                    position = next(iter(unknown))
                else:
                    continue
                entry = unknown.pop(position, None)
                if entry is not None:
                    self.learn(entry, content, envelope)
                    entry.size = kept_size(deliver.traits.envelope, envelope, content)

    def learn(self, entry: Entry, content: bytes, envelope: bytes) -> None:
        """Note content and envelope of an entry that was not seen before."""
        entry.content = content
        entry.id = self.id_of(content)
        entry.envelope = envelope

    def compare(self, entry: Entry, content: bytes, envelope: bytes, redelivered: bool) -> None:
        """Check that a message is the published one, and is flagged if it was delivered before."""
        promise(content == entry.content, self.name, "changes", entry.id)
        promise(envelope == entry.envelope, self.name, "changes the envelope of", entry.id)
        late = 0 < (entry.expiry or 0) < self.machine.limits.now_ms
        promise(
            not late or entry.position in self.fresh, self.name, "delivers after its time", entry.id
        )
        promise(redelivered == entry.delivered, self.name, "flags", entry.id, redelivered)
        entry.delivered = True

    def hand_out(self, run: int, channel: Actor, no_ack: bool, entries: list[Entry]) -> None:
        """Note the entries of one delivery as unacknowledged; without acknowledgements
        they leave.
        """
        promise((run == 0) == no_ack, self.name, "run", run, "for no-ack", no_ack)
        if run:
            promise(run not in self.unacked_runs, self.name, "uses run", run, "twice")
            self.unacked_runs[run] = ModelRun(channel, entries)
        else:
            for entry in entries:
                self.leave(entry)

    def get(self, answer: Got) -> None:
        """Check the answer to basic.get: the head, if there is one."""
        if answer.content is None:
            promise(not self.ready, self.name, "claims to be empty with", len(self.ready))
            return
        early = self.early[1] if self.early[0] is answer else None
        promise(bool(self.ready or early), self.name, "gives what it has not")
        entry = early or self.ready.pop(0)
        ((envelope, content),) = apart(answer.traits.envelope, [answer.content])
        if entry.content is None:
            self.learn(entry, content, envelope)
            entry.size = kept_size(answer.traits.envelope, envelope, content)
        self.compare(entry, content, envelope, answer.redelivered)
        self.is_depth(answer.ready, "has left")
        self.hand_out(answer.run, answer.channel, answer.run == 0, [entry])

    def settle(self, command: Settle) -> None:
        """Settle parts of unacknowledged deliveries, each once. Messages requeued to a deleted
        queue are gone."""
        for number, start, end in command.parts:
            run = self.unacked_runs.get(number)
            if run is None:
                promise(False, self.name, "is asked to settle run", number, "which is not out")
                continue
            part = run.entries[start:end]
            there = None not in part and len(part) == end - start > 0
            promise(there, self.name, "settles", start, end, "of run", number)
            run.entries[start:end] = [None] * (end - start)
            sends_on = run.channel is self.machine.queue or isinstance(run.channel, Delayer)
            if sends_on and command.outcome == ACK:
                self.bury(part)
            if not self.deleted:
                if command.outcome == REQUEUE:
                    self.requeue(part)
                elif command.outcome == REJECT and self.machine.limits.dead_letters:
                    self.rejected(part)
                else:
                    self.drop(part)
            if not any(run.entries):
                del self.unacked_runs[number]

    def bury(self, entries: list[Entry | None]) -> None:
        """Note that entries were dead-lettered, and are elsewhere now."""
        for entry in entries:
            if entry is not None and entry.id is not None:
                self.book.bury(self.name, entry.id)

    def rejected(self, entries: list[Entry | None]) -> None:
        """Let rejected entries wait for being dead-lettered, in a run of their own."""
        number = next(n for n in self.machine.unacked_runs if n not in self.unacked_runs)
        self.unacked_runs[number] = ModelRun(
            self.machine.queue, [e for e in entries if e is not None]
        )

    def requeue(self, entries: list[Entry | None]) -> None:
        """Put each entry back at its position, unless it was requeued too often."""
        for too_often, some in groupby(entries, self.comes_back):
            if too_often is None:
                continue
            known = [entry for entry in some if entry is not None]
            if not too_often:
                for entry in known:
                    insort(self.ready, entry)
            elif self.machine.limits.dead_letters:
                self.rejected([*known])
            else:
                self.drop([*known])

    def comes_back(self, entry: Entry | None) -> bool | None:
        """Tell whether an entry may be requeued once more; False when it was too often, None when
        it is settled."""
        if entry is None:
            return None
        limit = self.machine.settings.delivery_limit
        entry.returns += limit is not None
        return limit is not None and entry.returns > limit

    # -- the whole state

    def compare_depth(self) -> None:
        """Check that the running counters are the sums."""
        if self.deleted or self.machine.rest is not None:
            return
        depth: Depth = self.machine.depth
        out = [e for run in self.unacked_runs.values() for e in run.entries if e is not None]
        counted = {
            "ready": len(self.ready),
            "unacked": len(out),
            "persistent": sum(map(self.is_kept, self.there.values())),
            "footprint": self.footprint(),
            "ram_unacked": sum(
                run.left for run in self.machine.unacked_runs.values() if run.sizes is None
            ),
            "ram_messages": sum(c.left() for c in self.machine.backing.in_ram() if c.bodies),
        }
        if all(entry.content is not None for entry in self.there.values()) and (
            not self.recovered or not self.machine.backing.delta.count
        ):  # a message acknowledged shortly before a crash may still count in delta
            counted["ready_bytes"] = sum(e.size for e in self.ready)
            counted["unacked_bytes"] = sum(e.size for e in out)
        for word, value in counted.items():
            reported = getattr(depth, word)
            promise(reported == value, self.name, "counts", word, reported, "not", value)
        promise(len(self.there) == len(self.ready) + len(out), self.name, "has lost count")

    def footprint(self) -> int:
        """Return how many bytes the machine has in RAM, recounted."""
        backing = self.machine.backing
        chunks = [*backing.in_ram(), *backing.leaving()]
        total: int = sum(chunk.footprint() for chunk in chunks)
        for run in self.machine.unacked_runs.values():
            total += run.footprint([body for body in run.contents if body is not None])
        if self.machine.settings.delivery_limit is not None:
            total += RETURN_BYTES * sum(entry.returns > 0 for entry in self.there.values())
        return total

    def compare_contents(self) -> None:
        """Check that the machine and the model have the same messages at the same positions, and
        the same unacknowledged ones."""
        if self.deleted or self.machine.rest is not None:
            return
        backing = self.machine.backing
        there: dict[int, bytes | None] = {}
        for chunk in backing.in_ram():
            contents: list[bytes | None] = [None] * chunk.left()
            if chunk.bodies:
                contents = [content for _, content in apart(chunk.traits.envelope, chunk.rest())]
            there.update(zip(chunk.positions(), contents, strict=True))
        paged = self.paged() - there.keys()
        promise(len(paged) == backing.delta.count, self.name, "counts delta", backing.delta.count)
        there.update(dict.fromkeys(paged))
        here = sorted(entry.position for entry in self.ready)
        promise(sorted(there) == here, self.name, "holds", sorted(there), "the model", here)
        for entry in self.ready:
            content = there[entry.position]
            same = None in (content, entry.content) or content == entry.content
            promise(same, self.name, "has another message at", entry.position)
        self.compare_unacked_runs()

    def paged(self) -> set[int]:
        """Return the positions of delta: on disk, or being written, and not unacknowledged."""
        backing = self.machine.backing
        assert isinstance(backing, PlainBacking | PriorityBacking)
        levels = [backing] if isinstance(backing, PlainBacking) else backing.levels.values()
        found: set[int] = set()
        for level in levels:
            delta = level.delta
            if delta.count:
                for positions in level.index.live_in(delta.start, delta.end):
                    found.update(positions)
                for chunk in level.leaving():
                    found.update(chunk.positions())
        for run in self.machine.unacked_runs.values():
            for start, end in run.open_parts():
                found.difference_update(run.positions[start:end])
        return found

    def compare_unacked_runs(self) -> None:
        """Compare the unacknowledged messages with the machine's."""
        promise(
            self.machine.unacked_runs.keys() == self.unacked_runs.keys(),
            self.name,
            "has other runs",
        )
        for number, run in self.machine.unacked_runs.items():
            entries = self.unacked_runs[number].entries
            positions = [entry and entry.position for entry in entries]
            out = [
                None if content is None else at
                for at, content in zip(run.positions, run.contents, strict=True)
            ]
            promise(out == positions, self.name, "run", number, "differs")
            if run.sizes is None:
                wanted = [entry.content for entry in entries if entry is not None]
                bodies = [body for body in run.contents if body is not None]
                contents = [content for _, content in apart(run.chunk.traits.envelope, bodies)]
                promise(contents == wanted, self.name, "run", number, "has other bodies")
