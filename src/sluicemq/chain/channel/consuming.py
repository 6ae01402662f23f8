"""The consuming half of a channel: consumers, delivery tags, acknowledgements, windows."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.chain.channel.consumer_timeouts import LookAtOldest, Marks, overdue
from sluicemq.chain.channel.delivery_frames import DeliveryEncoder, got_frames
from sluicemq.chain.channel.type_rules import check_settle
from sluicemq.chain.channel.unacked import Settlement, Source, Unacked, Undoable
from sluicemq.errors import ChannelViolation
from sluicemq.flow.prefetch import Limiter
from sluicemq.queues.commands import ACK, REQUEUE, Settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluicemq.chain.channel.channel_port import ChannelPort
    from sluicemq.chain.channel.transaction_port import TransactionPort
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.flow.credit import Inflow, Outflow
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.traffic import Traffic
    from sluicemq.queues.commands import LinkId
    from sluicemq.queues.consumers import Consumer
    from sluicemq.queues.effects import Deliver, Got


REMEMBERED_MIN: Final = 4
"""Up to so many queues that are gone are remembered."""

TAGS_MAX: Final = 200
SPANS_MAX: Final = 200
"""The most tags that are acknowledged singly, and the most spans of them, in a piece."""

TAG_WORK: Final = 2
"""Units of work that a tag or a span costs."""


class ChannelConsumer:
    """A consumer as its channel sees it, with the encoder of its frames and `inflow`, the channel's
    end of the delivery link from its queue."""

    __slots__ = ("consumer", "encoder", "inflow", "queue", "source", "traffics")

    def __init__(
        self,
        consumer: Consumer,
        queue: Queue,
        source: Source,
        encoder: DeliveryEncoder,
        inflow: Inflow,
        traffics: tuple[Traffic, ...],
    ) -> None:
        self.consumer = consumer
        self.queue = queue
        self.source = source
        self.encoder = encoder
        self.inflow = inflow
        self.traffics = traffics
        """Whose traffic its deliveries are."""


class Unwritten:
    """Deliveries over one link whose frames the socket has not taken yet, as far as the channel
    knows, with their cost."""

    __slots__ = ("cost", "inflow")

    def __init__(self, inflow: Inflow, cost: int) -> None:
        self.inflow = inflow
        self.cost = cost


class Consuming:
    """The consuming half of one channel: its deliveries, and what it still owes queues
    answers for."""

    __deletable__ = ("channel",)

    def __init__(self, channel: ChannelPort) -> None:
        self.channel = channel
        self.vhost_traffic = channel.vhost.traffic
        self.subscriptions: dict[str, ChannelConsumer] = {}
        self.windows: dict[Queue, tuple[Outflow, Inflow]] = {}
        self.windows_max = REMEMBERED_MIN
        """The number of windows from which on those of queues that are gone are forgotten."""
        self.unwritten: deque[Unwritten] = deque()
        """In the order of the deliveries; those in a row over one link are one."""
        self.newest: Unwritten | None = None
        """The last of these; None: the socket has taken everything."""
        self.limiter = Limiter()
        self.prefetch_count = 0
        self.unacked = Unacked()
        self.settlement: type[Settlement] = Settlement
        """Settles deliveries; in a transaction this can be undone."""
        self.transaction: TransactionPort | None = None
        """The transaction, which keeps acknowledgements until the commit; None: there is none."""
        self.marks = Marks()
        self.sources: dict[Queue, Source] = {}
        """The queues that it has consumed or got something from."""
        self.sources_max = REMEMBERED_MIN
        """The number of sources from which on those that are gone are forgotten."""
        self.next_tag = 1

    def subscribe(
        self,
        consumer: Consumer,
        queue: Queue,
        source: Source,
        encoder: DeliveryEncoder,
        inflow: Inflow,
    ) -> None:
        """Take deliveries for this consumer from now on, under its tag."""
        self.subscriptions[consumer.tag] = ChannelConsumer(
            consumer, queue, source, encoder, inflow, self.traffics(queue)
        )

    def window(self, queue: Queue) -> tuple[Outflow, Inflow]:
        """Return both ends of the one delivery link from that queue to this channel, after making
        it if there is none."""
        halves = self.windows.get(queue)
        if halves is None:
            if len(self.windows) >= self.windows_max:
                there = {q: link for q, link in self.windows.items() if not q.machine.deleted}
                self.windows = there
                self.windows_max = 2 * len(there) + REMEMBERED_MIN
            channel = self.channel
            keepers = queue.deliveries, channel.deliveries
            window = channel.reader.window
            halves = channel.services.delivery_link(queue, keepers, channel.name, window)
            self.windows[queue] = halves
        return halves

    def source(self, queue: Queue, link: LinkId) -> Source:
        """Return the Source of deliveries from `queue` over `link`, made if that link is not the
        last one seen."""
        source = self.sources.get(queue)
        if source is None or source.link != link:
            if len(self.sources) >= self.sources_max:
                there = {q: s for q, s in self.sources.items() if not q.machine.deleted}
                self.sources = there
                self.sources_max = 2 * len(there) + REMEMBERED_MIN
            source = self.sources[queue] = Source(queue, link)
        return source

    def deliver(self, deliver: Deliver) -> None:
        """Number the messages, remember those that must be acknowledged, and append the frames to
        what is due to the client."""
        subscription = self.subscriptions[deliver.consumer.tag]
        count = len(deliver.contents)
        first = self.next_tag
        self.next_tag = first + count
        if deliver.run:
            self.unacked.add(first, count, subscription.source, deliver.run)
            for traffic in subscription.traffics:
                traffic.deliver += count
        else:
            for traffic in subscription.traffics:
                traffic.deliver_no_ack += count
        if deliver.redelivered:
            for traffic in subscription.traffics:
                traffic.redeliver += count
        channel = self.channel
        channel.services.counters.delivered += count
        channel.out += subscription.encoder.frames(deliver, first)
        channel.out_cost += deliver.cost
        newest = self.newest
        if newest is not None and newest.inflow is subscription.inflow:
            newest.cost += deliver.cost
        else:
            self.newest = Unwritten(subscription.inflow, deliver.cost)
            self.unwritten.append(self.newest)

    def flushed(self, cost: int) -> None:
        """Give queues back the credit of the oldest deliveries, up to a total `cost` that the
        socket has taken."""
        while cost:
            oldest = self.unwritten[0]
            taken = min(oldest.cost, cost)
            cost -= taken
            oldest.cost -= taken
            if not oldest.cost:
                self.unwritten.popleft()
                if oldest is self.newest:
                    self.newest = None
            oldest.inflow.settle(taken)

    def got(self, got: Got, queue: Queue) -> None:
        """Number the message that basic.get has found, remember it if it must be acknowledged, and
        append its frames to what is due to the client."""
        tag = self.next_tag
        self.next_tag += 1
        channel = self.channel
        if got.link is not None:
            self.unacked.add(tag, 1, self.source(queue, got.link), got.run)
        for traffic in self.traffics(queue):
            if got.link is not None:
                traffic.get += 1
            else:
                traffic.get_no_ack += 1
            traffic.redeliver += got.redelivered
        channel.services.counters.delivered += 1
        channel.out.append(got_frames(got, channel.number, tag, channel.reader.frame_max))

    def got_nothing(self, queue: Queue) -> None:
        """Count a basic.get that has found the queue empty."""
        for traffic in self.traffics(queue):
            traffic.get_empty += 1

    def traffics(self, queue: Queue) -> tuple[Traffic, ...]:
        """Return the traffic counters for messages from a queue: its own, the channel's, and the
        virtual host's."""
        return queue.traffic, self.channel.traffic, self.vhost_traffic

    def ack_run(self, tags: Sequence[int], method_id: int) -> None:
        """Acknowledge these tags one by one, in order. A tag that is not outstanding is refused
        with 406, which blames the method `method_id`."""
        count = len(tags)
        if count == 1:
            if self.transaction is None:
                self.ack_one(tags[0], method_id)
            else:
                self.ack_tags([(tags[0], tags[0])], method_id)
            return
        first = tags[0]
        last = tags[-1]
        in_order = last - first + 1 == count and list(tags) == list(range(first, last + 1))
        if count > TAGS_MAX and (not in_order or self.unacked.has_many(first, last, SPANS_MAX)):
            self.channel.begin_long(self.ack_in_pieces(tags, in_order, method_id), method_id)
        elif in_order:
            self.ack_tags([(first, last)], method_id)
        else:
            self.ack_tags([(tag, tag) for tag in tags], method_id)

    def ack_one(self, tag: int, method_id: int) -> None:
        """Acknowledge one tag, outside a transaction. Raises ChannelViolation (406) when it is not
        outstanding."""
        span = self.unacked.settle_one(tag)
        if span is None:
            raise unknown_tag(tag, method_id)
        channel = self.channel
        channel.spend(TAG_WORK)
        channel.services.counters.acknowledged += 1
        channel.traffic.ack += 1
        self.vhost_traffic.ack += 1
        source = span.source
        source.queue.traffic.ack += 1
        offset = tag - span.first
        source.queue.post(Settle(source.link, [(span.run, offset, offset + 1)], ACK))

    def ack_in_pieces(self, tags: Sequence[int], in_order: bool, method_id: int) -> Iterator[int]:
        """Acknowledge the tags, TAGS_MAX at most in each piece, and yield its work. `in_order` says
        that they are consecutive."""
        for at in range(0, len(tags), TAGS_MAX):
            some = tags[at : at + TAGS_MAX]
            runs = [(some[0], some[-1])] if in_order else [(tag, tag) for tag in some]
            self.ack_tags(runs, method_id)
            yield TAG_WORK * len(some)

    def ack_tags(self, runs: list[tuple[int, int]], method_id: int) -> None:
        """Acknowledge runs of tags, each given by its first and its last. Raises ChannelViolation
        (406) at the first tag that is not outstanding, after acknowledging those before it."""
        settlement = self.settlement()
        unknown = None
        for first, last in runs:
            unknown = self.unacked.settle_run(first, last, settlement)
            if unknown is not None:
                break
        self.channel.spend(TAG_WORK * len(runs))
        self.settle(settlement, ACK)
        if unknown is not None:
            raise unknown_tag(unknown, method_id)

    def acknowledge(self, tag: int, multiple: bool, outcome: int, method_id: int) -> None:
        """Settle `tag`, or with `multiple` everything up to and including it (0: all), for
        basic.ack, nack and reject. `outcome` is ACK, REQUEUE or REJECT. Raises ChannelViolation
        (406) when the tag is not outstanding."""
        if multiple:
            unknown = self.unacked.missing(tag)
            if unknown is None:
                self.channel.begin_long(self.settle_upto(tag, outcome), method_id)
        else:
            settlement = self.settlement()
            unknown = self.unacked.settle_run(tag, tag, settlement)
            self.settle(settlement, outcome)
        if unknown is not None:
            raise unknown_tag(unknown, method_id)

    def settle_upto(self, tag: int, outcome: int) -> Iterator[int]:
        """Settle everything up to and including `tag` (0: all) in pieces, and yield the work of
        each."""
        more = True
        while more:
            settlement = self.settlement()
            more = self.unacked.settle_some(tag, settlement, SPANS_MAX)
            self.settle(settlement, outcome)
            yield TAG_WORK * sum(map(len, settlement.by_source.values()))

    def recover(self, method_id: int, then: Callable[[], None]) -> None:
        """Return everything unacknowledged to its queues in pieces, even in a transaction, then
        call `then`."""
        self.channel.begin_long(self.recover_in_pieces(then), method_id)

    def recover_in_pieces(self, then: Callable[[], None]) -> Iterator[int]:
        more = True
        while more:
            settlement = Settlement()
            more = self.unacked.settle_some(0, settlement, SPANS_MAX)
            self.post(settlement, REQUEUE)
            yield TAG_WORK * sum(map(len, settlement.by_source.values()))
        then()

    def settle(self, settlement: Settlement, outcome: int) -> None:
        """Tell the queues what was settled, with what outcome; in a transaction only at
        the commit."""
        if isinstance(settlement, Undoable):
            assert self.transaction is not None
            self.transaction.keep_settlement(settlement, outcome)
        else:
            self.post(settlement, outcome)

    def post(self, settlement: Settlement, outcome: int) -> None:
        """Tell each queue now which of its messages were settled. A queue that has failed since, or
        now has another link to the channel, ignores it. Raises ConnectionViolation (540) for a
        stream and another outcome than ACK."""
        if outcome != ACK:
            check_settle(source.queue for source in settlement.by_source)
        if outcome != REQUEUE:
            self.channel.services.counters.acknowledged += settlement.count
        if outcome == ACK:
            self.channel.traffic.ack += settlement.count
            self.vhost_traffic.ack += settlement.count
        for source, parts in settlement.by_source.items():
            queue = source.queue
            if outcome == ACK:
                for _, start, end in parts:
                    queue.traffic.ack += end - start
            queue.post(Settle(source.link, parts, outcome))

    def overdue(self, look: LookAtOldest) -> ChannelViolation | None:
        """Return the violation that closes the channel if its oldest delivery is overdue at this
        check, else None."""
        oldest = self.unacked.oldest()
        if oldest is None or not self.marks.look(oldest, self.next_tag, look):
            return None
        return overdue(self.channel.number, look.timeout_ms)

    def release(self) -> None:
        """Drop the reference to the channel, which has had its last turn that matters."""
        if hasattr(self, "channel"):
            del self.channel
        self.transaction = None

    def close(self) -> list[Actor]:
        """Forget the consumers at the end of the channel, and return the queues that
        must be told."""
        queues: dict[Actor, None] = dict.fromkeys([*self.windows, *self.sources])
        self.subscriptions.clear()
        return list(queues)


def unknown_tag(tag: int, method_id: int) -> ChannelViolation:
    """Return the error 406 with which RabbitMQ answers an acknowledgement of a tag that is not
    outstanding."""
    return ChannelViolation(406, f"unknown delivery tag {tag}", 60, method_id)
