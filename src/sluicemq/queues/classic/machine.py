"""The classic queue: a FIFO with consumers, acknowledgements and requeue to position.

The backing queue (`paging.py`) decides whether its ready messages are in RAM or on disk. The chunk
that a run came from is remembered for its traits and state only; its contents are dropped as soon
as the chunk has been taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.compiling import mypyc_attr
from sluicemq.model.batch import footprint, size_of
from sluicemq.model.traits import NO_TRAITS
from sluicemq.queues.classic.chunk import Chunk, same_cost
from sluicemq.queues.classic.delivery_counts import DeliveryCounts
from sluicemq.queues.classic.limits import DELIVERY_LIMIT, REJECTED, Limits
from sluicemq.queues.classic.memory_target import Rates
from sluicemq.queues.classic.pieces import (
    CONSUMER_WORK,
    DEAL_WORK,
    DEALS_MAX,
    MESSAGES_A_UNIT,
    MIXED_SIZES_MAX,
    PART_WORK,
    PIECE_MAX,
    RETURNS_A_UNIT,
    batched,
    work_of,
)
from sluicemq.queues.classic.priorities import backing_queue
from sluicemq.queues.classic.stored_classic import StoredClassic
from sluicemq.queues.classic.unacked_runs import UnackedRun
from sluicemq.queues.commands import (
    ACK,
    FIRST_TERM,
    REQUEUE,
    Cancel,
    Command,
    Configure,
    Consume,
    Delete,
    Down,
    Get,
    Inspect,
    LinkId,
    Publish,
    Purge,
    Settle,
)
from sluicemq.queues.consumers import Consumer, ConsumerGroups, cost_of, shares
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
    Receipt,
    Refuse,
    Remove,
    Write,
)
from sluicemq.queues.machine import Depth
from sluicemq.queues.settings import NO_SETTINGS, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluicemq.kernel.actor import Actor
    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic.deduplication import Deduplication
    from sluicemq.storage.queue_index import QueueIndex


@mypyc_attr(allow_interpreted_subclasses=True)
class ClassicQueue(StoredClassic):
    """The state of one classic queue. `title` is its name in errors: "queue 'q' in vhost '/'";
    `term` distinguishes its lives, each of which begins with what is read back. `is_mirrored`: its
    mirrors have to hear of every message that comes or goes."""

    def __init__(
        self,
        title: str,
        durable: bool,
        queue: Actor,
        index: QueueIndex,
        io_batch: int,
        settings: QueueSettings = NO_SETTINGS,
        term: int = FIRST_TERM,
        deduplication: Deduplication | None = None,
        is_mirrored: bool = False,
    ) -> None:
        self.begin_term(term)
        self.title = title
        self.durable = durable
        self.is_mirrored = is_mirrored
        self.belong_to(queue)
        self.depth = Depth()
        self.rates = Rates()
        self.backing = backing_queue(self.depth, index, io_batch, durable, settings)
        self.waiting: list[Get] = []
        """basic.gets whose message is being read from disk."""
        self.ram_acks = 0
        """Messages in runs whose bodies could leave RAM for the message store."""
        self.unacked_runs: dict[int, UnackedRun] = {}
        self.settling: tuple[int, int, int] | None = None
        """The part that `settle` is working on, until it is credited."""
        self.unacked_runs_of: dict[LinkId, dict[int, UnackedRun]] = {}
        """Unacknowledged runs, by the link of their delivery. A link that has had one stays until
        its channel goes down."""
        self.piece_max = PIECE_MAX
        self.work = 0
        """Units of work that commands have cost since the shell's last look."""
        self.rest: Iterator[int] | None = None
        """The rest of a long command, to be finished before the next one: each step does a piece
        and gives its work."""
        self.next_run = 1
        self.consumers = ConsumerGroups(settings.single_active_consumer)
        self.deals_max = DEALS_MAX
        self.unserved = False
        """The last serving has ended early; a consumer may be able to take the ready messages."""
        self.had_consumer = False
        self.deleted = False
        self.settings = settings
        self.limits = Limits(self)
        self.delivery_counts: DeliveryCounts | None = None
        self.deduplication = deduplication
        """The publishes seen before; None: it takes everything."""
        self.configure(settings)

    def apply(self, command: Command, effects: list[Effect]) -> None:
        assert self.rest is None, "a command before the one before it was done"
        if isinstance(command, Publish):
            self.publish(command, effects)
        elif isinstance(command, Settle):
            self.settle(command, effects)
        elif isinstance(command, Get):
            self.serve(effects)
            self.waiting.append(command)
            self.answer_gets(effects)
        elif isinstance(command, Consume):
            self.consume(command, effects)
        elif isinstance(command, Cancel):
            self.cancel(command, effects)
        elif isinstance(command, Down):
            self.begin(self.down(command, effects))
        elif isinstance(command, Inspect):
            self.serve(effects)
            effects.append(Inspected(command.channel, self.depth.ready, self.depth.consumers))
        elif isinstance(command, Purge):
            self.serve(effects)
            self.begin(self.purge(command.channel, effects))
        elif isinstance(command, Configure):
            self.configure(command.settings)
        else:
            self.delete(command, effects)

    def begin(self, pieces: Iterator[int]) -> None:
        """Do work that may take long; beyond a few pieces it is left to the shell, as `rest`."""
        for work in pieces:
            self.work += work
            if self.work > PART_WORK * self.piece_max:
                self.rest = pieces
                return

    def configure(self, settings: QueueSettings) -> None:
        """Replace the settings from now on. Returns counted under one delivery limit count for
        another."""
        self.settings = settings
        self.limits.configure(settings)
        self.backing.become(settings.lazy)
        limit = settings.delivery_limit
        if self.delivery_counts is not None and limit is None:
            self.begin(self.delivery_counts.end(self.depth))
            self.delivery_counts = None
        elif self.delivery_counts is not None and limit is not None:
            self.delivery_counts.limit = limit
        elif limit is not None:
            self.delivery_counts = DeliveryCounts(limit)

    def publish(self, command: Publish, effects: list[Effect]) -> None:
        """Store a batch at the tail; confirm now what needs no write. A deleted queue accepts and
        drops it: the publisher meant a queue that somebody deleted on purpose."""
        if command.expiry:
            self.limits.saw_expiry(command.expiry)
        if self.deleted:
            if command.confirm:
                count = len(command.batch.contents)
                effects.append(Confirm(command.link, command.first_seq, count))
        elif self.deduplication is not None:
            self.deduplication.publish(command, self, effects)
        else:
            self.take(command, effects)

    def take(self, command: Publish, effects: list[Effect]) -> None:
        if self.limits.has_limit:
            self.limits.publish(command, effects)
        else:
            position = self.store(command.batch, command.expiry)
            self.promise(command.batch, command, position, effects)

    def refuse(self, batch: Batch, effects: list[Effect]) -> None:
        self.limits.refuse(batch, effects)

    def store(self, batch: Batch, expiry: int) -> int:
        count = len(batch.contents)
        depth = self.depth
        depth.ready += count
        depth.ready_bytes += batch.size
        depth.footprint += footprint(batch.contents, batch.same_size, batch.traits.copies)
        if self.durable and batch.traits.persistent:
            depth.persistent += count
        self.rates.published += count
        return self.backing.publish(batch, expiry)

    def promise(self, batch: Batch, command: Publish, position: int, effects: list[Effect]) -> None:
        """Have messages stored from `position` on written and then confirmed, if that makes them
        safer; otherwise confirm them now."""
        count = len(batch.contents)
        if self.is_mirrored or (self.durable and batch.traits.persistent):
            receipt = None
            if command.confirm:
                receipt = Receipt(command.link, command.first_seq, count)
            effects.append(Write(batch, receipt, position, command.expiry))
        elif command.confirm:
            effects.append(Confirm(command.link, command.first_seq, count))

    def serve(self, effects: list[Effect]) -> None:
        """Deal ready messages until RAM has none or no consumer has room; or until the step's work
        is done, and then `unserved` tells that there is more to serve."""
        self.unserved = False
        if self.waiting:
            self.answer_gets(effects)
        consumers, depth = self.consumers, self.depth
        if not (depth.ready and consumers.members):
            return
        backing = self.backing
        deals = self.deals_max
        while depth.ready and (chunk := self.next_chunk()) is not None:
            if chunk.expiry and self.limits.is_overdue(chunk):
                return
            if deals <= 0:
                self.unserved = True
                return
            left = chunk.left()
            cost_each = cost_of(len(chunk.contents[chunk.start]))
            most = deals if chunk.same_size else MIXED_SIZES_MAX
            most = left if left < most else most
            able, each = consumers.able(cost_each, self.queue, most)
            if not able:
                self.unserved = consumers.unasked
                return
            count = each * len(able)
            count = same_cost(chunk, left if left < count else count, cost_each)
            if count < len(able):
                able = able[:count]
            self.deal(chunk, count, able, cost_each, effects)
            consumers.dealt(able, count)
            deals -= len(able)
            self.work += DEAL_WORK * len(able)
            backing.took(chunk, count)
            self.rates.delivered += count

    def next_chunk(self) -> Chunk | None:
        """Return a chunk that can be fetched now; None when there is none. Messages about to be
        paged out may come back for it."""
        backing = self.backing
        chunk = backing.head()
        if chunk is None and backing.has_outgoing and self.hungry() and backing.recall():
            chunk = backing.head()
        return chunk

    def hungry(self) -> bool:
        """Tell whether a basic.get, a limit or a consumer would take a message that is on the
        disk."""
        if self.waiting or (self.needs_tick and self.limits.needs_head()):
            return True
        return self.consumers.count > 0 and bool(self.consumers.able(1, self.queue, 1)[0])

    def deal(
        self, chunk: Chunk, count: int, able: list[Consumer], cost_each: int, effects: list[Effect]
    ) -> None:
        """Give the first `count` messages of the chunk to the consumers in turn."""
        self.depth.ready -= count
        start = chunk.start
        if len(able) == 1:
            contents = chunk.contents[start : start + count]
            self.give(chunk, able[0], contents, chunk.position + start, 1, cost_each, effects)
            return
        for consumer, places in shares(able, range(start, start + count)):
            contents = chunk.contents[places.start : places.stop : places.step]
            first = chunk.position + places.start
            self.give(chunk, consumer, contents, first, places.step, cost_each, effects)

    def give(
        self,
        chunk: Chunk,
        consumer: Consumer,
        contents: list[bytes],
        first: int,
        step: int,
        cost_each: int,
        effects: list[Effect],
    ) -> None:
        """Give messages of the chunk, at every `step`th position from `first` on, to one
        consumer."""
        size = size_of(contents, chunk.same_size)
        self.depth.ready_bytes -= size
        run = 0
        returned = None
        if self.delivery_counts is not None:
            positions = range(first, first + step * len(contents), step)
            returned = self.delivery_counts.of(chunk, positions)
        if consumer.no_ack:
            positions = range(first, first + step * len(contents), step)
            self.release_chunk(chunk, contents, positions, effects)
        else:
            channel = consumer.channel
            link = self.links[channel]
            run = self.open_run(
                UnackedRun(link, channel, consumer, chunk, contents, first, step), size
            )
        cost = consumer.take(len(contents), cost_each)
        traits, redelivered, same_size = chunk.traits, chunk.redelivered, chunk.same_size
        effects.append(
            Deliver(consumer, run, contents, traits, redelivered, cost, returned, same_size)
        )

    def release_chunk(
        self, chunk: Chunk, contents: list[bytes], positions: range, effects: list[Effect]
    ) -> None:
        self.depth.footprint -= footprint(contents, chunk.same_size, chunk.traits.copies)
        base = chunk.id_base
        ids = None
        if base is not None and chunk.in_store:
            ids = range(positions.start + base, positions.stop + base, positions.step)
        self.remove(positions, chunk.traits.persistent, ids, effects)

    def remove(
        self, positions: range, persistent: bool, ids: range | None, effects: list[Effect]
    ) -> None:
        """Have these messages forgotten on the disk, because they have left the queue. `ids` are
        those of their bodies in the message store; None: they have none there."""
        index = self.backing.index
        durable = persistent and self.durable
        if durable:
            self.depth.persistent -= len(positions)
        indexed = False
        if index.segments:
            indexed = index.acknowledge(positions)
        is_told = durable or self.is_mirrored
        if is_told or ids is not None:
            effects.append(Remove(positions, is_told, indexed, ids))
        if self.delivery_counts is not None:
            self.delivery_counts.forget(positions, self.depth)

    def settle(self, command: Settle, effects: list[Effect]) -> None:
        """Acknowledge, requeue or reject parts of unacknowledged runs. A run that is gone with its
        channel is ignored, and so is a run of the same number over another link."""
        self.work += PART_WORK * len(command.parts)
        for self.settling in command.parts:
            number, start, end = self.settling
            self.work += (end - start) // MESSAGES_A_UNIT
            run = self.unacked_runs.get(number)
            if run is None or run.link != command.link:
                continue
            if self.deleted:
                run.take(start, end)
            elif command.outcome == ACK:
                if run.channel is self.queue:
                    self.limits.republished(run, start, end)
                self.acknowledge(run, start, end, effects)
            elif command.outcome == REQUEUE:
                self.work += self.come_back(run, start, end, effects)
            else:
                self.limits.reject(run, start, end, REJECTED, effects)
            self.credit(run, end - start)
            self.settling = None
            if not run.left:
                self.forget_run(number, run)

    def acknowledge(self, run: UnackedRun, start: int, end: int, effects: list[Effect]) -> None:
        count = end - start
        settled = run.take(start, end)
        depth = self.depth
        depth.unacked -= count
        depth.unacked_bytes -= run.size(start, end, settled)
        depth.footprint -= run.footprint(settled)
        self.left_ram(run, count)
        self.rates.ack_out += count
        if self.leaves_traces(run.chunk):
            positions = run.positions[start:end]
            self.remove(positions, run.chunk.traits.persistent, run.ids(positions), effects)

    def leaves_traces(self, chunk: Chunk) -> bool:
        """Tell whether something has to be done about messages of the chunk when they have left the
        queue: they are on a disk, others count them, or hear of them."""
        return (
            (self.durable and chunk.traits.persistent)
            or chunk.id_base is not None
            or self.is_mirrored
            or self.delivery_counts is not None
            or len(self.backing.index.segments) > 0
        )

    def left_ram(self, run: UnackedRun, count: int) -> None:
        """Subtract `count` bodies of a run from those kept in RAM for consumers."""
        if run.sizes is None:
            self.depth.ram_unacked -= count
            if run.chunk.id_base is not None:
                self.ram_acks -= count

    def credit(self, run: UnackedRun, count: int) -> None:
        if run.consumer is not None:
            run.consumer.prefetch.give(count)
            run.consumer.limiter.give(count)
            self.consumers.gave(run.consumer)

    def come_back(self, run: UnackedRun, start: int, end: int, effects: list[Effect]) -> int:
        """Requeue the messages [start, end) of a run; those that have come back too often are
        rejected instead. Returns the cost in units of work."""
        if self.delivery_counts is None:
            return self.give_back(run, start, end)
        work = (end - start) // RETURNS_A_UNIT
        for first, last, too_often in self.delivery_counts.come_back(run, start, end, self.depth):
            if too_often:
                self.limits.reject(run, first, last, DELIVERY_LIMIT, effects)
                work += PART_WORK
            else:
                work += self.give_back(run, first, last)
        return work

    def give_back(self, run: UnackedRun, start: int, end: int) -> int:
        """Make the unsettled messages [start, end) of a run ready again, at their positions.
        Returns the cost in units of work."""
        self.left_ram(run, end - start)
        chunks = run.give_back(start, end)
        size = sum(chunk.size() for chunk in chunks)
        depth = self.depth
        depth.unacked -= end - start
        depth.unacked_bytes -= size
        depth.ready += end - start
        depth.ready_bytes += size
        self.backing.give_back(chunks)
        return PART_WORK * len(chunks)

    def answer_gets(self, effects: list[Effect]) -> None:
        """Answer each waiting basic.get with a message, or that there is none; it goes on waiting
        while a message is being read."""
        while self.waiting:
            channel = self.waiting[0].channel
            chunk = None if self.deleted else self.next_chunk()
            if self.deleted:
                effects.append(Refuse(channel, 404, f"no {self.title}"))
            elif chunk is not None and self.limits.is_overdue(chunk):
                if self.limits.has_room():
                    return  # it leaves in this turn
                effects.append(Got(channel, None, 0, NO_TRAITS, False, 0))
            elif chunk is not None:
                effects.append(self.got(self.waiting[0], chunk, effects))
            elif self.depth.ready:
                return  # it is being read
            else:
                effects.append(Got(channel, None, 0, NO_TRAITS, False, 0))
            del self.waiting[0]

    def got(self, command: Get, chunk: Chunk, effects: list[Effect]) -> Got:
        """Take the first message of the chunk and return the answer to a basic.get with it."""
        contents = [chunk.contents[chunk.start]]
        position = chunk.position + chunk.start
        positions = range(position, position + 1)
        returned = (
            None if self.delivery_counts is None else self.delivery_counts.of(chunk, positions)
        )
        size = len(contents[0])
        self.depth.ready -= 1
        self.depth.ready_bytes -= size
        run = 0
        link = None
        if command.no_ack:
            self.release_chunk(chunk, contents, positions, effects)
        else:
            channel = command.channel
            link = self.link_to(channel)
            run = self.open_run(UnackedRun(link, channel, None, chunk, contents, position), size)
        self.backing.took(chunk, 1)
        if self.limits.expiring:
            self.limits.let_go(effects)  # expired messages behind it do not count any more
        return Got(
            command.channel,
            contents[0],
            run,
            chunk.traits,
            chunk.redelivered,
            self.depth.ready,
            returned,
            link,
        )

    def consume(self, command: Consume, effects: list[Effect]) -> None:
        """Register a consumer, unless the queue is deleted or has an exclusive one; an exclusive
        consumer must be alone."""
        consumer = command.consumer
        consumers = self.consumers
        if self.deleted:  # it was deleted since the channel found it
            effects.append(Refuse(consumer.channel, 404, f"no {self.title}"))
            return
        if consumers.refuses(consumer):
            text = f"{self.title} in exclusive use"
            effects.append(Refuse(consumer.channel, 403, text))
            return
        consumers.add(consumer)
        self.had_consumer = True
        self.depth.consumers = consumers.count
        effects.append(Consumed(consumer, self.link_to(consumer.channel)))

    def cancel(self, command: Cancel, effects: list[Effect]) -> None:
        """Forget a consumer, and tell its channel that it is gone."""
        self.drop(command.consumer)
        effects.append(Cancelled(command.consumer, False))

    def drop(self, consumer: Consumer) -> None:
        """Forget a consumer; what it holds stays unacknowledged."""
        consumer.cancelled = True
        self.consumers.remove(consumer)
        self.depth.consumers = self.consumers.count

    def down(self, command: Down, effects: list[Effect]) -> Iterator[int]:
        """Drop the consumers of a channel that is gone, and requeue its runs in order. Each step
        does a piece and gives its units of work."""
        channel = command.channel
        for some in batched(self.consumers.of(channel), self.piece_max):
            for consumer in some:
                self.drop(consumer)
            yield CONSUMER_WORK * len(some)
        self.waiting = [get for get in self.waiting if get.channel is not channel]
        link = self.links.pop(channel, None)
        unacked_runs = {} if link is None else self.unacked_runs_of.pop(link, {})
        for number, run in unacked_runs.items():
            del self.unacked_runs[number]
            work = work_of(len(run.contents))
            for start, end in () if self.deleted else run.open_parts():
                if command.is_lost:
                    work += self.give_back(run, start, end)
                else:
                    work += self.come_back(run, start, end, effects)
            yield work
        while unacked_runs:  # a million of them must not be freed at once
            for _ in range(min(self.piece_max, len(unacked_runs))):
                unacked_runs.popitem()
            yield self.piece_max

    def purge(self, channel: Actor, effects: list[Effect]) -> Iterator[int]:
        """Drop the ready messages and tell the channel how many. Each step does a piece and gives
        its units of work."""
        count = self.depth.ready
        yield from self.drop_ready(effects)
        effects.append(Purged(channel, count))
        self.answer_gets(effects)

    def drop_ready(self, effects: list[Effect]) -> Iterator[int]:
        """Drop the ready messages: none can be fetched any more from the first step on; freeing the
        rest takes several steps. Each step gives its units of work."""
        depth = self.depth
        backing = self.backing
        chunks, on_disk = backing.clear(self.out_in)
        depth.ready = depth.ready_bytes = depth.ram_messages = 0
        for chunk in chunks:
            base = chunk.id_base
            positions = chunk.positions()
            ids = None
            if base is not None and chunk.in_store:
                ids = range(positions.start + base, positions.stop + base)
            depth.footprint -= chunk.footprint()
            self.remove(positions, chunk.traits.persistent, ids, effects)
            counted = 0 if self.delivery_counts is None else len(positions) // RETURNS_A_UNIT
            yield work_of(len(positions)) + counted
        if self.durable or self.is_mirrored:
            effects.extend(Remove(positions, True, True, None) for positions in on_disk)
        if self.delivery_counts is not None:
            for positions in on_disk:
                yield from self.delivery_counts.forget_in_pieces(positions, depth)
        persistent = 0
        for runs in batched(self.unacked_runs.values(), self.piece_max):
            persistent += sum(run.left for run in runs if run.chunk.traits.persistent)
            yield len(runs)
        depth.persistent = persistent if self.durable and not self.deleted else 0

    def delete(self, command: Delete, effects: list[Effect]) -> None:
        """Delete the queue if the conditions of the command are met; otherwise refuse."""
        self.serve(effects)
        channel = command.channel
        why = command.unmet(self.consumers.count, self.depth.ready)
        if not why:
            self.begin(self.end(channel, effects))
        elif channel is not None:
            effects.append(Refuse(channel, 406, f"{self.title} {why}"))

    def end(self, channel: Actor | None, effects: list[Effect]) -> Iterator[int]:
        """Delete the queue and tell its consumers. Unacknowledged runs stay, without their
        messages: the limits of their channels count them until they are settled. Each step gives
        its units of work."""
        for some in batched([*self.consumers.members], self.piece_max):
            for consumer in some:
                self.drop(consumer)
                effects.append(Cancelled(consumer, True))
            yield CONSUMER_WORK * len(some)
        count = self.depth.ready
        yield from self.drop_ready(effects)
        for run in () if self.deleted else self.unacked_runs.values():
            parts = run.open_parts()
            for start, end in parts:
                positions = run.positions[start:end]
                self.remove(positions, run.chunk.traits.persistent, run.ids(positions), effects)
            run.forget()
            yield PART_WORK * len(parts) + len(run.contents) // MESSAGES_A_UNIT
        self.depth = Depth()
        self.backing.count_in(self.depth)
        self.ram_acks = 0
        self.deleted = True
        self.answer_gets(effects)
        effects.append(Deleted(channel, count))

    # -- RAM

    @property
    def may_page(self) -> bool:
        """Tell whether there is a target, or a conversion, so that `reduce_memory_use` may have
        something to do."""
        return self.backing.target is not None or self.backing.converting

    def reduce_memory_use(self, store_is_full: Callable[[], bool]) -> None:
        """Page out what the target does not permit: pending acknowledgements and ready messages,
        the faster growing ones first. `store_is_full` tells when the message store takes no
        more."""
        backing = self.backing
        if backing.converting:
            backing.convert(store_is_full, self.hungry())
        target = backing.target
        if target is None or self.deleted:
            return
        quota = self.depth.ram_messages + self.ram_acks - target
        if quota > 0:
            rates = self.rates
            growing = rates.ack_in_rate - rates.ack_out_rate
            if growing > rates.published_rate - rates.delivered_rate:
                quota = self.limit_ram_acks(quota, store_is_full)
                backing.alphas_to_betas(quota, store_is_full)
            else:
                quota = backing.alphas_to_betas(quota, store_is_full)
                self.limit_ram_acks(quota, store_is_full)
        backing.betas_to_delta()

    def limit_ram_acks(self, quota: int, store_is_full: Callable[[], bool]) -> int:
        """Free up to `quota` bodies of unacknowledged messages, and perhaps of the rest of a run;
        the newest first, because they are settled last. Returns the rest of the quota."""
        if quota <= 0 or not self.ram_acks:
            return quota
        for run in reversed(self.unacked_runs.values()):
            if run.sizes is None and run.chunk.id_base is not None:
                if not run.in_store and store_is_full():
                    break
                for chunk in [] if run.in_store else run.open_chunks():
                    self.backing.hand_to_store(chunk)
                self.left_ram(run, run.left)
                self.depth.footprint -= run.drop_bodies()
                quota -= run.left
                if quota <= 0 or not self.ram_acks:
                    break
        return quota

    def is_unused(self) -> bool:
        """Tell whether the queue has had a consumer and has none any more, so that an auto-delete
        queue is deleted."""
        return self.had_consumer and not self.consumers.count
