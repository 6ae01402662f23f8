"""holding queue ---everything---> DELAYER ---what is due---> republisher.

An exchange of type x-delayed-message has a queue of its own that no client sees
(routing/delayed.py). Publishes are stored, confirmed and recovered there as in any queue; only
their contents begin with the time, in milliseconds since the epoch, at which they are due. The
delayer consumes that queue: it remembers only when each message is due, and then returns it to the
queue; the queue's next delivery of it is published to the exchange, and acknowledged when it is
safe in the queues it went to. So nothing is lost when the broker is killed; messages republished
just before may come twice.

Bounds: a waiting message is a few numbers here, and an unacknowledged message in the queue (large
bodies leave RAM when it gets tight, and the memory alarm counts the rest). At most DUE_MESSAGES_MAX
of those that are due are returned at a time, and the window of deliveries bounds their bytes.
"""

from __future__ import annotations

import struct
from heapq import heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.amqp import fields as f
from sluicemq.amqp.properties import BasicProperties, headers_of, with_headers
from sluicemq.amqp.types import decode_label, encode_value
from sluicemq.chain.flow_actor import FlowActor
from sluicemq.chain.property_traits import traits_in
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.poison_messages import PLAIN, Place, unmanageable
from sluicemq.chain.queue.republish_messages import Republish, RepublishMessage, SourceGone
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.prefetch import Limiter, Prefetch
from sluicemq.limits import DELAY_LOOK_MS, DELIVERY_WINDOW, DUE_MESSAGES_MAX
from sluicemq.model.batch import Batch, size_of
from sluicemq.model.content import properties_of, with_properties
from sluicemq.model.traits import PERSISTENT, TRANSIENT
from sluicemq.queues.commands import (
    ACK,
    FIRST_TERM,
    REQUEUE,
    Consume,
    LinkId,
    Publish,
    Settle,
)
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.effects import Cancelled, Consumed, Deliver
from sluicemq.routing.delayed import DELAY, delay_ms

if TYPE_CHECKING:
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import EffectivePolicy
    from sluicemq.storage.quarantine import Wanted
    from sluicemq.storage.queue_index import QueueIndex

DUE: Final = struct.Struct(">Q")
"""Before each content."""
DUE_COST: Final = DELIVERY_WINDOW // 2
"""Of the window: when so much that is due is here, it goes on its way before the rest has come."""
Part = tuple[int, int, int]
"""As in Settle: run, start, end."""


class DelayerDue:
    """Tells the delayer that messages may be due; `at_ms` is the time it was asked for, in
    milliseconds since the epoch."""

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms


class Safe:
    """The republisher's message that these parts are safe in the queues they were routed to. `cost`
    is what they took of the window."""

    __slots__ = ("cost", "parts")

    def __init__(self, parts: list[Part], cost: int) -> None:
        self.parts = parts
        self.cost = cost


class HoldingQueue(ClassicShell):
    """Holds the messages of one exchange that are not due yet. No policy applies to it."""

    takes_enveloped = False
    prefix_bytes = DUE.size

    def __init__(
        self,
        vhost: VhostPort,
        definition: QueueDefinition,
        queue_id: int,
        index: QueueIndex,
        exchange: str,
        term: int = FIRST_TERM,
    ) -> None:
        super().__init__(vhost, definition, queue_id, index, term)
        self.title = f"the delayed messages of exchange '{exchange}' in vhost '{vhost.name}'"
        self.exchange = exchange
        self.delayer = Delayer(self, exchange)

    def like(self, queue_id: int, index: QueueIndex) -> HoldingQueue:
        term = self.machine.term + 1
        return HoldingQueue(self.vhost, self.definition, queue_id, index, self.exchange, term)

    def configure(self, policy: EffectivePolicy | None) -> None:
        super().configure(None)

    def suspected(self) -> list[Place | Wanted]:
        return [*super().suspected(), *self.delayer.suspected()]

    def prepared(self, publish: Publish) -> Publish:
        """Return a publish as it is to be stored: each message begins with the time at which it is
        due."""
        now_ms = self.services.world.clock.wall_ms()
        batch = dated(publish.batch, now_ms)
        return super().prepared(Publish(batch, publish.link, publish.first_seq, publish.confirm))


def dated(batch: Batch, now_ms: int) -> Batch:
    """Return the same messages, each with the time before it at which it is due, counted from
    `now_ms`, in milliseconds since the epoch."""
    known: dict[bytes, bytes] = {}
    contents: list[bytes] = []
    for content in batch.contents:
        raw = properties_of(content)
        due = known.get(raw)
        if due is None:
            headers = BasicProperties.decode(raw).headers
            due = known[raw] = DUE.pack(now_ms + delay_ms(headers))
        contents.append(due + content)
    return Batch(
        batch.traits,
        PERSISTENT if batch.traits.persistent else TRANSIENT,
        contents,
        size_of(contents, batch.same_size),
        batch.same_size,
        batch.first_id,
    )


class DueMessage(NamedTuple):
    """A message whose time has come. Sorted, they are in order of time, then of delivery by the
    queue."""

    due_ms: int
    serial: int
    part: Part
    cost: int
    deliver: Deliver
    content: bytes


class Delayer(FlowActor):
    """The one consumer of a holding queue, which republishes its messages when they are due."""

    kind = "delayer"
    is_vital = False

    def __init__(self, queue: HoldingQueue, exchange: str) -> None:
        services = queue.services
        super().__init__(services.scheduler, services.world.clock)
        self.clock = services.world.clock
        self.queue = queue
        self.exchange = exchange
        self.name = f"delayed messages of exchange {exchange}"
        self.deliveries = GateKeeper(services.world.clock)
        window, self.inflow = services.delivery_link(
            queue, (queue.deliveries, self.deliveries), self.name
        )
        self.republisher = queue.vhost.republisher(self, self.name)
        self.waiting: list[tuple[int, int, int]] = []
        """A heap: when a message is due, its run, its place there."""
        self.returning = 0
        """Messages given back to the queue, which it will deliver again."""
        self.gave_back_ms = 0
        self.due: list[DueMessage] = []
        self.due_cost = 0
        self.republishing: list[DueMessage] = []
        """What is being handed to the republisher."""
        self.serial = 0
        self.looks_at_ms = 0
        """When the next DelayerDue comes; 0: there is none under way. Later ones count no more."""
        self.gone = False
        self.link: LinkId | None = None
        """What the queue delivers over; None: it has not heard of the consumer."""
        consumer = Consumer(self, "", False, True, 0, Prefetch(0), Limiter(), window, {})
        queue.post(Consume(consumer))

    def receive(self, message: object) -> None:
        """Take deliveries of the queue, calls of the clock, what is safe, and grants."""
        if isinstance(message, Deliver):
            self.take(message)
        elif isinstance(message, DelayerDue):
            if message.at_ms == self.looks_at_ms:
                self.looks_at_ms = 0
        elif isinstance(message, Safe):
            self.inflow.settle(message.cost)
            self.settle(message.parts, ACK)
        elif isinstance(message, Cancelled):
            self.close()
        elif isinstance(message, Consumed):
            self.link = message.link
        else:
            super().receive(message)

    def settle(self, parts: list[Part], outcome: int) -> None:
        """Settle these parts at the queue; `outcome` is ACK or REQUEUE."""
        assert self.link is not None, "a delivery before its consumer"
        self.queue.post(Settle(self.link, parts, outcome))

    def take(self, deliver: Deliver) -> None:
        """Remember when the messages of a delivery are due, or keep those that are due already."""
        now_ms = self.clock.wall_ms()
        count = len(deliver.contents)
        cost_each = deliver.cost // count
        kept_cost = 0
        if deliver.redelivered:
            self.returning = max(0, self.returning - count)
        for index, content in enumerate(deliver.contents):
            due_ms: int = DUE.unpack_from(content)[0]
            if due_ms <= now_ms:
                part = (deliver.run, index, index + 1)
                self.serial += 1
                self.due.append(DueMessage(due_ms, self.serial, part, cost_each, deliver, content))
                kept_cost += cost_each
            else:
                heappush(self.waiting, (due_ms, deliver.run, index))
        self.due_cost += kept_cost
        self.inflow.settle(deliver.cost - kept_cost)

    def turn_ended(self) -> None:
        """Republish due messages, once all of them are here; then return the next ones, or ask to
        be woken."""
        if self.gone:
            return
        now_ms = self.clock.wall_ms()
        if self.returning and now_ms - self.gave_back_ms >= DELAY_LOOK_MS:
            self.returning = 0  # what has not come by then is lost
        if self.due and (not self.returning or self.due_cost >= DUE_COST):
            self.republish()
        if not self.returning:
            self.give_back(now_ms)
        if self.returning:
            self.wake_at(now_ms + DELAY_LOOK_MS, now_ms)
        elif self.waiting:
            self.wake_at(self.waiting[0][0], now_ms)

    def give_back(self, now_ms: int) -> None:
        """Return at most DUE_MESSAGES_MAX messages that are due at `now_ms` to the queue; they come
        back with their contents."""
        waiting = self.waiting
        parts: list[Part] = []
        while waiting and waiting[0][0] <= now_ms and len(parts) < DUE_MESSAGES_MAX:
            _, run, index = heappop(waiting)
            parts.append((run, index, index + 1))
        if parts:
            self.returning = len(parts)
            self.gave_back_ms = now_ms
            self.settle(parts, REQUEUE)

    def wake_at(self, due_ms: int, now_ms: int) -> None:
        """Check again at `due_ms` or sooner, because the clock may be set; both times are in
        milliseconds since the epoch."""
        due_ms = min(due_ms, now_ms + DELAY_LOOK_MS)
        if not self.looks_at_ms or due_ms < self.looks_at_ms:
            self.looks_at_ms = due_ms
            self.clock.call_after(due_ms - now_ms, self, DelayerDue(due_ms))

    def republish(self) -> None:
        """Pass due messages to the republisher, in order of time. Consecutive ones with the same
        traits go together."""
        due = self.republishing = sorted(self.due)
        self.due = []
        self.due_cost = 0
        for (persistent, ttl_ms, channel_number), some in groupby(due, key=traits_and_channel):
            same = list(some)
            safe = Safe([each.part for each in same], sum(each.cost for each in same))
            letters = list(map(letter_of, same))
            self.republisher.post(
                Republish(self.exchange, letters, channel_number, persistent, safe, ttl_ms)
            )
        self.republishing = []

    def suspected(self) -> list[Place]:
        """Return, after a fault, the messages of which no letters can be made, or that cannot be
        routed."""
        found = self.republisher.suspected()
        due = self.republishing
        if due:
            plain = due[0]._replace(content=DUE.pack(0) + PLAIN)
            found += [due[each].part[:2] for each in unmanageable(lettered, due, plain)]
        return found

    def faulted(self, error: Exception) -> None:
        """Stop, and treat a fault here as one of its queue."""
        self.go_deaf()
        self.close()
        self.queue.faulted(error)

    def close(self) -> None:
        """Stop, because the exchange is deleted, and its messages with it."""
        self.gone = True
        self.waiting.clear()
        self.due.clear()
        self.inflow.detach()
        self.republisher.post(SourceGone())


def traits_and_channel(due: DueMessage) -> tuple[bool, int | None, int]:
    """Return what messages must have in common to be republished together: persistence, time to
    live in milliseconds or None, and channel number."""
    traits = traits_in(properties_of(due.content[DUE.size :]), None)
    return traits.persistent, traits.ttl_ms, due.deliver.traits.channel_number


def lettered(due: DueMessage) -> object:
    """Do everything that is done with a due message, to find out whether that fails."""
    return traits_and_channel(due), letter_of(due)


def letter_of(due: DueMessage) -> RepublishMessage:
    """Return a message as it goes to the exchange again: with a negative delay, which is none."""
    content = due.content[DUE.size :]
    raw = properties_of(content)
    delay = delay_ms(BasicProperties.decode(raw).headers)
    table = f.fields_of(headers_of(raw))
    if delay:
        table = f.replaced(table, DELAY.encode(), encode_value(-delay))
    envelope = due.deliver.traits.envelope
    key, _ = decode_label(envelope, 1 + envelope[0], len(envelope))
    traits = traits_in(raw, None)
    content = with_properties(content, with_headers(raw, f.table_of(table)))
    return RepublishMessage(content, (key, *traits.further_keys), priority=traits.priority)
