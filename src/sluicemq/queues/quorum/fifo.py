"""The state of a quorum queue, which each member builds from the log: RabbitMQ's rabbit_fifo.

Its inputs are commands, with the index and the time of their entry. Bodies are in the log, not
here. docs/quorum-queues.md says how it works and where it differs from RabbitMQ.

A command costs Python work per batch, not per message: messages that came together, are alike, and
have shared one fate, are one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from sluicemq.kernel.address import ActorAddress
from sluicemq.limits import (
    DIGEST_ENTRIES,
    DIGEST_MESSAGES,
    QUORUM_EXPIRES_MAX,
    QUORUM_LOW_PERCENT,
)
from sluicemq.queues.commands import ACK, REQUEUE, Configure
from sluicemq.queues.quorum.commands import (
    DEAD_LETTER_WORKER,
    UNSENT,
    AddConsumer,
    AddressDown,
    Asked,
    CancelConsumer,
    CompareState,
    ConsumerKey,
    DeleteFifo,
    Enqueue,
    FifoCommand,
    GetMessage,
    NodeRestarted,
    PassTime,
    PurgeQueue,
    RegisterEnqueuer,
    ResumeConsumer,
    SettleDelivered,
    UseQueue,
)
from sluicemq.queues.quorum.dead_letter_queue import (
    DELIVERY_LIMIT,
    EXPIRED,
    MAX_LENGTH,
    NO_ID,
    REJECTED,
)
from sluicemq.queues.quorum.effects import (
    ConsumerActive,
    ConsumerAdded,
    ConsumerGone,
    DeliveredPart,
    Enqueued,
    EnqueueRefused,
    EnqueueRejected,
    EnqueuerRegistered,
    FifoDeleted,
    FifoDelivered,
    FifoEffect,
    FifoRefused,
    MessageGot,
    PublishStatus,
    QueuePurged,
    RowBegins,
    StateDiffers,
)
from sluicemq.queues.quorum.enqueuers import Enqueuers
from sluicemq.queues.quorum.fifo_state import FifoState
from sluicemq.queues.quorum.message_runs import MessageRun, StoredBatch, one_place
from sluicemq.queues.quorum.service_queue import CANCELLED, UP, QueueConsumer, ServiceQueue
from sluicemq.queues.quorum.snapshot import digest_of, pieces_of, restored
from sluicemq.queues.settings import NO_SETTINGS, REJECT_PUBLISH, QueueSettings

MARKS_MAX: Final = 4
"""The most digests that are kept: the leader's comes soon after its entry, or never."""


class Fifo(FifoState):
    """The state of one quorum queue. `title` is its name in errors: "queue 'q' in vhost '/'"."""

    def __init__(self, title: str, settings: QueueSettings = NO_SETTINGS) -> None:
        super().__init__(settings)
        self.title = title
        self.place = 0
        """The place of the next message in the present entry."""
        self.is_repeat = False
        """The present row was applied before, so its commands are skipped."""
        self.marks: dict[int, bytes] = {}
        """Digests of the state at the beginning of some of the last entries, the first of each
        DIGEST_ENTRIES, by their indexes. They are no part of the state."""
        self.audience = 0
        """The node whose channels hear of what they have published and are delivered; 0: each
        node's. Other members tell theirs, and an effect that nobody hears is work for nothing."""
        self.configure(settings)

    # -- what is applied

    def entered(self, index: int, stamp_ms: int) -> None:
        """Begin an entry, as in Replicated. The places of messages are counted anew in each."""
        if index // DIGEST_ENTRIES != self.index // DIGEST_ENTRIES:
            pieces = pieces_of(self) if self.is_small else ()
            self.marks[index] = digest_of((*self.figures(), *pieces))
            for old in [*self.marks][:-MARKS_MAX]:
                del self.marks[old]
        super().entered(index, stamp_ms)
        self.place = 0
        self.is_repeat = False
        self.used_ms = self.used_ms or self.now_ms

    def apply(self, command: FifoCommand, effects: list[FifoEffect]) -> None:
        assert self.index, "a command of no entry"
        if self.is_repeat and not isinstance(command, Asked):
            if isinstance(command, Enqueue):
                self.place += command.count
            return
        if self.is_deleted:
            self.answer_deleted(command, effects)
            return
        HANDLERS[type(command)](self, command, effects)
        if (self.has_limit or self.rejects) and not self.is_deleted:
            self.serve(effects)  # what consumers can take counts for no limit
            self.limit(effects)

    def entry_ended(self, effects: list[FifoEffect]) -> None:
        """Deal messages to consumers, and hand over dead letters, once for all commands of the
        entry."""
        if self.is_deleted:
            return
        self.serve(effects)
        if self.dead_letters.has_some:
            self.dead_letters.hand_over(effects)

    def answer_deleted(self, command: FifoCommand, effects: list[FifoEffect]) -> None:
        """Answer for a deleted queue: publishes are confirmed and dropped, because the queue was
        deleted on purpose; other requests are refused."""
        if isinstance(command, Enqueue):
            effects.append(Enqueued(command.sender, command.first_seq, command.count))
        elif isinstance(command, RegisterEnqueuer):
            effects.append(EnqueuerRegistered(command.sender, 1, rejects=False))
        elif isinstance(command, AddConsumer):
            self.refuse(command.consumer.channel, 404, f"no {self.title}", effects)
        elif isinstance(command, GetMessage | PurgeQueue):
            self.refuse(command.channel, 404, f"no {self.title}", effects)
        elif isinstance(command, DeleteFifo) and command.channel is not None:
            effects.append(FifoDeleted(command.channel, 0))
        elif isinstance(command, Asked):
            self.asked(command, effects)

    def refuse(
        self, channel: ActorAddress, code: int, text: str, effects: list[FifoEffect]
    ) -> None:
        effects.append(FifoRefused(channel, code, text))

    # -- enqueueing

    def register(self, command: RegisterEnqueuer, effects: list[FifoEffect]) -> None:
        enqueuer = self.enqueuers.register(command.sender)
        next_seq = 0 if enqueuer is None else enqueuer.next_seq
        effects.append(EnqueuerRegistered(command.sender, next_seq, self.rejects))

    def enqueue(self, command: Enqueue, effects: list[FifoEffect]) -> None:
        """Take the new messages of a batch, and answer for all of it."""
        sender, first_seq, count = command.sender, command.first_seq, command.count
        first = self.place
        self.place += count
        enqueuer = self.enqueuers.members.get(sender)
        if enqueuer is None:
            effects.append(EnqueueRefused(sender, first_seq, 0))
            return
        enqueuer.heard(min(command.heard_seq, enqueuer.next_seq))
        next_seq = enqueuer.next_seq
        if first_seq > next_seq:
            effects.append(EnqueueRefused(sender, first_seq, next_seq))
            return
        end = first_seq + count
        if first_seq < next_seq:
            for start, stop, is_taken in enqueuer.answers(first_seq, min(end, next_seq)):
                answer = Enqueued if is_taken else EnqueueRejected
                effects.append(answer(sender, start, stop - start))
            if end <= next_seq:
                return
        skip = next_seq - first_seq
        if self.rejects:
            enqueuer.reject(next_seq, end)
            effects.append(EnqueueRejected(sender, next_seq, end - next_seq))
            return
        enqueuer.next_seq = end
        self.store(command, first + skip, skip)
        if self.is_heard(sender):
            effects.append(Enqueued(sender, next_seq, end - next_seq))

    def is_heard(self, address: ActorAddress) -> bool:
        """Tell whether effects for that address are wanted here."""
        return not self.audience or address.node == self.audience

    def store(self, command: Enqueue, first: int, skip: int) -> None:
        """Put a batch's messages at the tail, except for the first `skip`. Those of an entry that
        are alike become one batch: the consumers share it in fewer runs."""
        ttl_ms = command.ttl_ms
        queue_ttl_ms = self.settings.message_ttl_ms
        if queue_ttl_ms is not None and (ttl_ms is None or queue_ttl_ms < ttl_ms):
            ttl_ms = queue_ttl_ms
        expiry = 0 if ttl_ms is None else self.now_ms + max(1, ttl_ms)
        index, size, sizes = self.index, command.size, command.sizes
        if sizes is not None and skip:
            sizes = sizes[skip:]
        count = command.count - skip
        assert count > 0, "nothing is stored"
        fresh = self.messages.fresh
        if fresh and sizes is None and fresh[-1].is_continued(index, first, size, expiry):
            self.messages.lengthen(fresh[-1], count)
            return
        self.messages.enqueue(StoredBatch(index, first, count, size, sizes, expiry))

    # -- serving

    def serve(self, effects: list[FifoEffect]) -> None:
        """Drop expired messages at the head, and deal messages to consumers, until there are none
        or no consumer may hold more. If too many expire at once, nothing behind them is dealt, and
        `due_ms` is now."""
        messages, consumers = self.messages, self.consumers
        now_ms = self.now_ms
        expires = QUORUM_EXPIRES_MAX
        dealt: dict[QueueConsumer, list[DeliveredPart]] = {}
        able: list[QueueConsumer] = []
        room = turn = 0
        while messages.count:
            run = messages.next()
            assert run is not None, "what is counted is there"
            if 0 < run.batch.expiry <= now_ms:
                if not expires:
                    break
                expires -= 1
                whole = messages.take(run, len(run.places))
                self.dead_letters.die(whole, EXPIRED, messages)
                continue
            if turn == room:
                consumers.dealt(able, turn)
                able, each = consumers.able(messages.count)
                room, turn = each * len(able), 0
                if not room:
                    break
            count = min(len(run.places), room - turn)
            self.deal(messages.take(run, count), able, turn, dealt)
            turn += count
        consumers.dealt(able, turn)
        for consumer, parts in dealt.items():
            effects.append(FifoDelivered(consumer.key, parts))

    def deal(
        self,
        run: MessageRun,
        able: list[QueueConsumer],
        turn: int,
        dealt: dict[QueueConsumer, list[DeliveredPart]],
    ) -> None:
        """Give the messages of a run to these consumers, one each in turn, after `turn` messages
        before them."""
        step = len(able)
        batch, places, returns, redelivered = run.batch, run.places, run.returns, run.redelivered
        reason = run.reason
        index = batch.index
        own, part = places, run
        count = len(places)
        start: int = places.start
        stride: int = places.step
        audience = self.audience
        for at in range(min(step, count)):
            consumer = able[(turn + at) % step]
            if step > 1:
                own = one_place(start + at * stride) if count <= step else places[at::step]
                part = MessageRun(batch, own, returns, redelivered, reason)
            first_id = consumer.next_id
            consumer.next_id = first_id + len(own)
            out = consumer.checked_out
            out.add(first_id, part)
            assert out.count <= consumer.prefetch, "more than it may hold"
            if audience and consumer.node != audience:
                continue
            delivered = DeliveredPart(first_id, index, own, returns, redelivered)
            parts = dealt.get(consumer)
            if parts is None:
                dealt[consumer] = [delivered]
            else:
                parts.append(delivered)

    def get(self, command: GetMessage, effects: list[FifoEffect]) -> None:
        """Give one message to a channel; consumers with room are served first."""
        self.used_ms = self.now_ms
        self.serve(effects)
        messages = self.messages
        run = messages.next()
        if run is None or 0 < run.batch.expiry <= self.now_ms:
            effects.append(MessageGot(command.channel, None, messages.count))
            return
        run = messages.take(run, 1)
        first_id = NO_ID
        if command.no_ack:
            messages.release(run)
        else:
            holder = self.consumers.holder(ConsumerKey(command.channel, ""))
            first_id = holder.next_id
            holder.next_id += 1
            holder.checked_out.add(first_id, run)
        part = DeliveredPart(first_id, run.batch.index, run.places, run.returns, run.redelivered)
        effects.append(MessageGot(command.channel, part, messages.count))

    # -- settling

    def settle(self, command: SettleDelivered, effects: list[FifoEffect]) -> None:
        """Settle messages of a consumer, which gives it room again."""
        consumer = self.consumers.members.get(command.consumer)
        if consumer is None:
            if command.consumer == DEAD_LETTER_WORKER:
                for start, end in command.ids:
                    has_arrived = command.outcome != REQUEUE
                    self.dead_letters.settle(start, end, has_arrived, self.messages)
            return
        for start, end in command.ids:
            runs = consumer.checked_out.take(start, end)
            if command.outcome == ACK:
                for run in runs:
                    self.messages.release(run)
            elif command.outcome == REQUEUE:
                self.give_back(runs, counts=True)
            elif command.outcome == UNSENT:
                for run in runs:
                    self.messages.give_back(run)
            else:
                for run in runs:
                    self.dead_letters.die(run, REJECTED, self.messages)
        self.consumers.gained(consumer)
        self.consumers.tidy(consumer)

    def give_back(self, runs: Iterable[MessageRun], counts: bool) -> None:
        """Put messages back, behind those that came back before. If it `counts`, those that have
        come back too often die."""
        limit = self.settings.delivery_limit
        for was in runs:
            run = MessageRun(was.batch, was.places, was.returns + counts, redelivered=True)
            if counts and limit is not None and 0 <= limit < run.returns:
                self.dead_letters.die(run, DELIVERY_LIMIT, self.messages)
            else:
                self.messages.give_back(run)

    def resume(self, command: ResumeConsumer, effects: list[FifoEffect]) -> None:
        """Deliver again what a consumer has not settled and not seen."""
        if command.consumer == DEAD_LETTER_WORKER:
            self.dead_letters.resume(command.next_id, effects)
            return
        consumer = self.consumers.members.get(command.consumer)
        if consumer is None:
            effects.append(ConsumerGone(command.consumer, by_broker=True))
            return
        parts = [
            DeliveredPart(first_id, run.batch.index, run.places, run.returns, run.redelivered)
            for first_id, run in consumer.checked_out.since(command.next_id)
        ]
        if parts:
            effects.append(FifoDelivered(consumer.key, parts, is_again=True))

    # -- consumers

    def consume(self, command: AddConsumer, effects: list[FifoEffect]) -> None:
        """Add a consumer, unless an exclusive one is in the way."""
        key = command.consumer
        consumer = self.consumers.members.get(key)
        if consumer is None or consumer.status == CANCELLED:
            if self.consumers.refuses(command):
                text = f"{self.title} in exclusive use"
                self.refuse(key.channel, 403, text, effects)
                return
            consumer = self.consumers.add(command)
        effects.append(ConsumerAdded(key, consumer.next_id, consumer.status == UP))

    def cancel(self, command: CancelConsumer, effects: list[FifoEffect]) -> None:
        consumer = self.consumers.members.get(command.consumer)
        if consumer is not None and consumer.status != CANCELLED:
            self.used_ms = self.now_ms
            self.succeed(self.consumers.cancel(consumer), effects)
        effects.append(ConsumerGone(command.consumer, by_broker=False))

    def succeed(self, successor: QueueConsumer | None, effects: list[FifoEffect]) -> None:
        if successor is not None:
            effects.append(ConsumerActive(successor.key))

    def down(self, command: AddressDown, effects: list[FifoEffect]) -> None:
        self.end(command.channel, counts=not command.is_lost, effects=effects)
        self.enqueuers.end(command.channel)

    def restarted(self, command: NodeRestarted, effects: list[FifoEffect]) -> None:
        """Clean up after earlier lives of a node."""
        self.enqueuers.restarted(command.node, command.incarnation)
        for address in dict.fromkeys(key.channel for key in self.consumers.members):
            if address.node == command.node and self.enqueuers.is_earlier(address):
                self.end(address, counts=False, effects=effects)

    def end(self, address: ActorAddress, counts: bool, effects: list[FifoEffect]) -> None:
        """Remove the consumers of a channel, and put back what it held."""
        for consumer in self.consumers.of(address):
            if consumer.status != CANCELLED:
                self.used_ms = self.now_ms
            runs = consumer.checked_out.take_all()
            self.succeed(self.consumers.cancel(consumer), effects)
            self.give_back(runs, counts)
        self.consumers.forget(address)

    # -- the queue itself

    def purge(self, command: PurgeQueue, effects: list[FifoEffect]) -> None:
        effects.append(QueuePurged(command.channel, self.messages.purge()))

    def delete(self, command: DeleteFifo, effects: list[FifoEffect]) -> None:
        """Delete the queue, on conditions."""
        unmet = ""
        if command.if_unused and self.consumers.is_used:
            unmet = "in use"
        elif command.if_empty and self.messages.count:
            unmet = "not empty"
        if not unmet:
            self.disappear(command.channel, effects)
        elif command.channel is not None:
            self.refuse(command.channel, 406, f"{self.title} {unmet}", effects)

    def disappear(self, channel: ActorAddress | None, effects: list[FifoEffect]) -> None:
        """Delete the queue with all that it has."""
        count = self.messages.purge()
        self.dead_letters.forget(self.messages)
        for consumer in [*self.consumers.members.values()]:
            for run in consumer.checked_out.take_all():
                self.messages.release(run)
            if consumer.status != CANCELLED:
                effects.append(ConsumerGone(consumer.key, by_broker=True))
        self.consumers = ServiceQueue()
        self.enqueuers = Enqueuers()
        self.is_deleted = True
        assert not self.messages.taken and not self.messages.out, "a message outlives its queue"
        effects.append(FifoDeleted(channel, count))

    def use(self, command: UseQueue, effects: list[FifoEffect]) -> None:
        self.used_ms = self.now_ms

    def asked(self, command: Asked, effects: list[FifoEffect]) -> None:
        self.is_repeat = not self.askers.is_new(command.asker, command.number)
        if not self.is_repeat and self.is_heard(command.asker):
            effects.append(RowBegins(command.asker, command.number))

    def compare(self, command: CompareState, effects: list[FifoEffect]) -> None:
        """Report if this state differed from the leader's, as far as that is known."""
        if self.marks.get(command.entry, command.digest) != command.digest:
            effects.append(StateDiffers(command.entry))

    def pass_time(self, command: PassTime, effects: list[FifoEffect]) -> None:
        """Delete the queue if it was unused for too long."""
        expires_ms = self.settings.expires_ms
        if expires_ms is None or self.consumers.is_used:
            return
        if self.now_ms >= self.used_ms + expires_ms:
            self.disappear(None, effects)

    def reconfigure(self, command: Configure, effects: list[FifoEffect]) -> None:
        self.configure(command.settings)

    # -- limits

    def limit(self, effects: list[FifoEffect]) -> None:
        """Enforce the queue's limits: drop from the head, or reject what comes from now on."""
        if self.settings.overflow != REJECT_PUBLISH:
            self.drop_head()
        rejects = self.is_full()
        if rejects != self.rejects:
            self.rejects = rejects
            effects.append(PublishStatus(rejects))

    def drop_head(self) -> None:
        """Let messages at the head die until the rest is within the limits, or as many runs as one
        command may: then `due_ms` is now."""
        messages = self.messages
        for _ in range(QUORUM_EXPIRES_MAX):
            run = messages.next()
            if run is None:
                return
            count = self.excess(run)
            if not count:
                return
            self.dead_letters.die(messages.take(run, count), MAX_LENGTH, messages)

    def excess(self, run: MessageRun) -> int:
        """Return how many of the run's messages, which are the first ones, are too
        many; 0 to all.
        """
        settings, messages = self.settings, self.messages
        count = 0
        if settings.max_length is not None:
            count = min(len(run.places), max(0, messages.count - settings.max_length))
        if settings.max_length_bytes is not None:
            over = messages.bytes - settings.max_length_bytes
            if over > 0:
                count = max(count, run.batch.covering(run.places, over))
        return count

    def is_full(self) -> bool:
        """Tell whether the queue rejects: it begins when the limits are exceeded, and ends at four
        fifths of them (RabbitMQ's soft limit). Dead letters count."""
        settings, messages = self.settings, self.messages
        if settings.overflow != REJECT_PUBLISH:
            return False
        count = messages.count + self.dead_letters.count
        size = messages.bytes + self.dead_letters.bytes
        percent = QUORUM_LOW_PERCENT if self.rejects else 100
        return exceeds(count, settings.max_length, percent) or exceeds(
            size, settings.max_length_bytes, percent
        )

    @property
    def due_ms(self) -> int | None:
        """Return when the leader must let time pass, in milliseconds since the epoch: messages
        expire then, or work is left (then it is at most `now_ms`). None: at no time."""
        due: list[int] = []
        if self.is_deleted:
            return None
        run = self.messages.next()
        if run is not None:
            if run.batch.expiry:
                due.append(run.batch.expiry)
            if self.settings.overflow != REJECT_PUBLISH and self.excess(run):
                due.append(self.now_ms)
        if self.settings.expires_ms is not None and not self.consumers.is_used:
            due.append(self.used_ms + self.settings.expires_ms)
        return min(due, default=None)

    # -- the whole state

    def snapshot(self) -> Iterator[bytes]:
        return pieces_of(self)

    def restore(self, pieces: Iterable[bytes]) -> None:
        was = restored(pieces)
        self.index = was.index
        self.now_ms = was.now_ms
        self.settings = was.settings
        self.has_limit = was.has_limit
        self.messages = was.messages
        self.consumers = was.consumers
        self.enqueuers = was.enqueuers
        self.askers = was.askers
        self.dead_letters = was.dead_letters
        self.rejects = was.rejects
        self.used_ms = was.used_ms
        self.is_deleted = was.is_deleted

    def addresses(self) -> dict[ActorAddress, None]:
        """Return the addresses of all that enqueue, consume or hold messages."""
        return {
            **dict.fromkeys(self.enqueuers.members),
            **dict.fromkeys(key.channel for key in self.consumers.members),
        }

    def digest(self) -> bytes:
        """Return 16 bytes that members share after the same entry, and that differ if one has gone
        wrong. It costs as much as a snapshot."""
        return digest_of(pieces_of(self))

    @property
    def is_small(self) -> bool:
        """Tell whether a digest of the whole state is quickly made."""
        messages, consumers = self.messages, self.consumers.members
        return messages.count + messages.out + len(consumers) <= DIGEST_MESSAGES

    def figures(self) -> Iterator[bytes]:
        """Give facts about the state that are cheap even if it is large: its sizes, and how far
        each enqueuer and consumer is."""
        messages, dead = self.messages, self.dead_letters
        numbers = [
            *(self.index, self.now_ms, self.used_ms, self.rejects, self.is_deleted),
            *(messages.count, messages.bytes, messages.out, messages.out_bytes, len(dead.pending)),
        ]
        yield repr(numbers).encode()
        for address, enqueuer in self.enqueuers.members.items():
            yield repr((*address, enqueuer.next_seq, enqueuer.heard_seq)).encode()
        for key, consumer in self.consumers.members.items():
            yield repr((*key.channel, key.tag, consumer.next_id, consumer.status)).encode()

    def live(self) -> Iterator[tuple[int, Sequence[range]]]:
        return ((index, places) for index, places, _ in self.live_bytes())

    def live_bytes(self) -> Iterator[tuple[int, Sequence[range], int]]:
        """Give the same as `live`, each item with the bytes of its messages' bodies."""
        return self.messages.live(self.runs_out())

    @property
    def released(self) -> int:
        """Return the index up to which no entry is needed any more, in constant time."""
        first = self.messages.first_index
        return first - 1 if first else self.index


def exceeds(number: int, limit: int | None, percent: int) -> bool:
    """Tell whether the number is above so many percent of the limit; None: there is none."""
    return limit is not None and number > limit * percent // 100


HANDLERS: Final[dict[type, Callable[[Fifo, Any, list[FifoEffect]], None]]] = {
    RegisterEnqueuer: Fifo.register,
    Enqueue: Fifo.enqueue,
    AddConsumer: Fifo.consume,
    CancelConsumer: Fifo.cancel,
    SettleDelivered: Fifo.settle,
    ResumeConsumer: Fifo.resume,
    GetMessage: Fifo.get,
    PurgeQueue: Fifo.purge,
    DeleteFifo: Fifo.delete,
    AddressDown: Fifo.down,
    NodeRestarted: Fifo.restarted,
    UseQueue: Fifo.use,
    PassTime: Fifo.pass_time,
    CompareState: Fifo.compare,
    Asked: Fifo.asked,
    Configure: Fifo.reconfigure,
}
