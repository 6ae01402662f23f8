"""Checks what clients of several nodes have seen against what was promised them.

    lost         a confirmed message is seen by a consumer of each of its queues, in the end; a
                 transient one only if the queue's node has not ended since; not in queues that
                 are deleted meanwhile; nor those that only mirrors had that were left behind when
                 another went on without a majority
    revived      a message confirmed before its queue was redeclared is not seen in the new queue
    invented     every message seen was published to that queue, is unchanged to the last bit, and
                 not rolled back
    confirms     each number once, and only numbers that were used; a refusal only after an outage
    duplicates   a message comes again only when its holder requeued it or is gone, or its node
                 stops, or after an outage between it and the queue; and flagged then, unless it
                 was in flight to its receiver before an outage, or before the receiver's node hung
                 up to stop, and the others got it flagged
    dead         a message is in its queue or in the grave; in both, or twice, only after an outage,
                 and if it must arrive; lost only after an outage, and if it need not
    streams      each offset has one message for ever, there are no gaps, and messages of one
                 publisher are in order
    order        unflagged messages to one consumer are in the order of their stream; those of a
                 queue with members until an unseen message may have been requeued
    prefetch     a consumer never holds more than its limit

For the clients at a node an outage of a queue is the end of the queue's node, or of the link
between the two nodes, as either of them sees it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sluicemq.sim.nodes.promotions import Promotions
from sluicemq.sim.records import ACKED, BROKEN, ENDED_WELL, OUT, REJECTED, REQUEUED, promise

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.sim.messages import MessageId
    from sluicemq.sim.nodes.plan import NodesPlan, PlannedQueue
    from sluicemq.sim.timeline import Timeline

Standing = tuple[int, int]
"""How often a queue's node has ended, and how often its link to another node has."""
NOT_CONFIRMED, CONFIRMED, REFUSED, ROLLED_BACK = range(4)
FIGURES: Final = (
    "published",
    "confirmed",
    "refused",
    "delivered",
    "redelivered",
    "settled",
    "deletions",
    "read",
    "buried",
    "lost by promotions",
)
NEVER_NS: Final = 1 << 62
"""The time of something that has not happened."""


class Outages:
    """The outages of a run: ended processes by node, and ended links by pair of nodes."""

    def __init__(self) -> None:
        self.ends: Counter[int] = Counter()
        self.links: Counter[frozenset[int]] = Counter()
        self.stopping: set[int] = set()
        """Nodes that have hung up on their clients, because they stop in order. They may leave
        sent bytes unread, and what is in flight to their clients is given back."""

    @property
    def are_none(self) -> bool:
        """Tell whether no process and no link has ended yet."""
        return not (self.ends or self.links)

    @property
    def all_ends(self) -> int:
        """Return the number of processes and links that have ended."""
        return self.ends.total() + self.links.total()

    def standing(self, home: int, node: int) -> Standing:
        """Return the outages of a queue at `home` that the clients at `node` have seen."""
        return self.ends[home], self.links[frozenset((home, node))]


class SentToCluster:
    """One published message: its queues, and the answer to its publisher."""

    __slots__ = ("confirmed_ns", "is_persistent", "queues", "sent_ns", "state")

    def __init__(self, queues: tuple[str, ...], is_persistent: bool, sent_ns: int) -> None:
        self.sent_ns = sent_ns
        self.confirmed_ns = NEVER_NS
        self.queues = queues
        self.is_persistent = is_persistent
        self.state = NOT_CONFIRMED


class ClusterStream:
    """The messages of one channel of one publisher at `node`. `ended` is "", closed or broken."""

    __slots__ = ("confirms", "ended", "name", "node", "number", "sent", "unconfirmed")

    def __init__(self, number: int, name: str, node: int, confirms: bool) -> None:
        self.number = number
        self.name = name
        self.node = node
        self.confirms = confirms
        self.ended = ""
        self.sent: list[SentToCluster] = []
        self.unconfirmed: dict[int, SentToCluster] = {}


class ChannelHolder:
    """One channel of a client at `node`, which holds messages while open."""

    __slots__ = ("ended", "name", "node")

    def __init__(self, name: str, node: int) -> None:
        self.name = name
        self.node = node
        self.ended = ""

    def __repr__(self) -> str:
        return self.name


class BookedConsumer:
    """One consumer on a holder's channel. `limit` is its prefetch, 0 for none. `life` is the lowest
    id that its queue can have."""

    __slots__ = ("began_ns", "held", "holder", "last_of", "life", "limit", "queue", "standing")

    def __init__(
        self,
        holder: ChannelHolder,
        queue: BookedQueue,
        limit: int,
        standing: Standing,
        life: int,
        began_ns: int,
    ) -> None:
        self.holder = holder
        self.began_ns = began_ns
        self.queue = queue
        self.limit = limit
        self.life = life
        self.standing = standing
        """The outages of the queue when it began; deliveries to it may have been in flight for
        long."""
        self.held = 0
        self.last_of: dict[int, int] = {}
        """By stream, the last message that came unflagged."""


class BookedDelivery:
    """One message delivered to a consumer, flagged as redelivered or not. It `is_disputed` if a
    former master was serving who did not know it yet: it is settled in vain there."""

    __slots__ = ("at_ns", "consumer", "is_disputed", "is_flagged", "message", "state")

    def __init__(
        self,
        message: MessageId,
        consumer: BookedConsumer,
        is_flagged: bool,
        at_ns: int,
        is_disputed: bool,
    ) -> None:
        self.message = message
        self.consumer = consumer
        self.is_flagged = is_flagged
        self.at_ns = at_ns
        self.is_disputed = is_disputed
        self.state = OUT


class BookedQueue:
    """What clients have seen of one queue."""

    __slots__ = (
        "entries",
        "grave",
        "home",
        "is_log",
        "is_mirrored",
        "is_replicated",
        "must_arrive",
        "name",
        "passes",
        "read_to",
        "seen",
        "source",
        "was_given_back",
    )

    def __init__(self, plan: PlannedQueue) -> None:
        self.name = plan.name
        self.is_mirrored = plan.is_mirrored
        self.is_replicated = plan.is_replicated
        self.passes = plan.passes
        self.is_log = plan.is_log
        self.must_arrive = plan.must_arrive
        self.grave: BookedQueue | None = None
        """The queue that gets this one's dead letters."""
        self.source: BookedQueue | None = None
        """The queue whose dead letters come here."""
        self.entries: dict[int, MessageId] = {}
        """The messages of a stream by offset, as far as somebody has read it."""
        self.read_to = 0
        """The offset that a reader of the whole stream has reached."""
        self.home = 0
        """The node that has it; 0 while it is not declared."""
        self.seen: dict[MessageId, list[BookedDelivery]] = {}
        self.was_given_back = False
        """Messages in flight to a consumer may have been requeued."""

    def leads_to(self, grave: BookedQueue) -> None:
        """Note that messages that die in this queue go to that one."""
        self.grave, grave.source = grave, self

    def has_arrived(self, message: MessageId) -> bool:
        """Tell whether a consumer has seen a message; in a queue that dead-letters, whether it was
        acknowledged, or seen in its grave."""
        if self.grave is None:
            return message in self.seen
        is_done = any(each.state == ACKED for each in self.seen.get(message, ()))
        return is_done or message in self.grave.seen

    def keeps(self, sent: SentToCluster) -> bool:
        """Tell whether this queue has such a message on its disk, or on several."""
        is_kept = sent.is_persistent or self.is_replicated or self.is_log
        return is_kept and (self.grave is None or self.grave.keeps(sent))


class ClusterBook:
    """What clients know about all publishers and queues of a run."""

    def __init__(
        self,
        plan: NodesPlan,
        timeline: Timeline,
        outages: Outages,
        changes: Callable[[], int],
        births: dict[int, int],
        promotions: Promotions,
        is_disputed: Callable[[str], bool],
    ) -> None:
        self.timeline = timeline
        self.is_disputed = is_disputed
        """Tells whether a mirrored queue has a master who does not know that another one leads."""
        self.outages = outages
        self.changes = changes
        """How often groups have had another leader or other members."""
        self.births = births
        """When queues were declared, by their ids; later ids are higher."""
        self.promotions = promotions
        self.is_calm = False
        """No fault has happened yet, and all nodes are up."""
        self.may_lag = plan.bounds is not None
        """A node may get what it lacks by a snapshot, whatever happens; what nobody was sent of
        that returns to its queue."""
        self.streams: list[ClusterStream] = []
        self.queues = {each.name: BookedQueue(each) for each in plan.queues}
        for each in plan.queues:
            if each.grave:
                self.queues[each.name].leads_to(self.queues[each.grave])
        self.figures = dict.fromkeys(FIGURES, 0)

    # -- publishing

    def stream(self, name: str, node: int, confirms: bool) -> ClusterStream:
        """Begin the record of one publisher's channel."""
        stream = ClusterStream(len(self.streams), name, node, confirms)
        self.streams.append(stream)
        return stream

    def publish(
        self, stream: ClusterStream, queues: tuple[str, ...], is_persistent: bool
    ) -> MessageId:
        """Note a message that is about to be sent."""
        self.figures["published"] += 1
        sent = SentToCluster(queues, is_persistent, self.timeline.now_ns)
        stream.sent.append(sent)
        if stream.confirms:
            stream.unconfirmed[len(stream.sent)] = sent
        return stream.number, len(stream.sent) - 1

    def answer(self, stream: ClusterStream, tag: int, multiple: bool, state: int) -> None:
        """Check that a number may be confirmed, or refused."""
        promise(tag in stream.unconfirmed, stream.name, "is told again, or untimely, of", tag)
        refused = state == REFUSED
        promise(not (refused and self.is_calm), stream.name, "is refused", tag)
        tags = [each for each in stream.unconfirmed if each <= tag] if multiple else [tag]
        for each in tags:
            self.answered(stream.unconfirmed.pop(each), state)
        self.figures["refused" if refused else "confirmed"] += len(tags)

    def answered(self, sent: SentToCluster, state: int) -> None:
        """Note the outcome of a message."""
        sent.state = state
        if state == CONFIRMED:
            sent.confirmed_ns = self.timeline.now_ns

    # -- consuming

    def consumer(self, holder: ChannelHolder, name: str, limit: int, life: int) -> BookedConsumer:
        """Begin the record of a consumer of the queue of that name, with that id or a later one."""
        queue = self.queues[name]
        standing = self._standing(queue, holder.node)
        return BookedConsumer(holder, queue, limit, standing, life, self.timeline.now_ns)

    def _standing(self, queue: BookedQueue, node: int) -> Standing:
        """Return the outages of a queue that the clients at `node` have seen: for a quorum queue
        those of all nodes and leaders, and changes of members; the same for a queue that is
        redeclared, because its node is unknown."""
        if queue.is_replicated or queue.passes:
            return self.outages.all_ends, self.changes()
        return self.outages.standing(queue.home, node)

    def deliver(
        self, message: MessageId | None, consumer: BookedConsumer, redelivered: bool
    ) -> BookedDelivery:
        """Note that a client has received a message, and check that it may."""
        holder, queue = consumer.holder, consumer.queue
        message, sent = self._sent(message, queue)
        number, sequence = message
        born_ns = self.births.get(consumer.life, 0)
        promise(sent.confirmed_ns >= born_ns, message, "is from an earlier life of", queue.name)
        before = queue.seen.setdefault(message, [])
        is_late = consumer.standing != self._standing(consumer.queue, holder.node)
        copies = self._may_have_copies(queue)
        elsewhere = () if queue.source is None else queue.source.seen.get(message, ())
        if not (is_late or copies):  # it may have been in flight for long
            for earlier in (*before, *elsewhere):
                self._may_come_again(message, earlier, consumer)
            buried = queue.grave is not None and message in queue.grave.seen
            is_left = holder.node in self.outages.stopping
            promise(is_left or not buried, message, "comes from", queue.name, "and has died there")
        if before and not copies:
            may = redelivered or is_late or self._were_hidden(before)
            may = may or all(self._overtook(each, consumer) for each in before)
            promise(may, message, "comes again to", holder, "without being flagged")
        elif redelivered and not before:
            may = queue.was_given_back or not (self.is_calm and self.outages.are_none)
            promise(may, message, "is flagged, but nobody can have had it")
        returns = queue.was_given_back or self.may_lag or not self.is_calm
        is_shuffled = queue.is_replicated and returns
        if not (redelivered or is_shuffled or queue.source is not None):
            last = consumer.last_of.get(number, -1)
            promise(last < sequence, holder, "gets", message, "after", last)
            consumer.last_of[number] = sequence
        self.figures["delivered"] += 1
        self.figures["redelivered"] += redelivered
        self.figures["buried"] += queue.source is not None
        is_disputed = queue.is_mirrored and self.is_disputed(queue.name)
        now_ns = self.timeline.now_ns
        delivery = BookedDelivery(message, consumer, redelivered, now_ns, is_disputed)
        before.append(delivery)
        consumer.held += 1
        limit = consumer.limit
        if is_late and queue.is_mirrored:  # what it has of former masters counts no longer there
            ends, changes = self._standing(queue, holder.node)
            limit *= 1 + ends - consumer.standing[0] + changes - consumer.standing[1]
        promise(not 0 < limit < consumer.held, holder, "holds", consumer.held, "of", limit)
        return delivery

    def _sent(
        self, message: MessageId | None, queue: BookedQueue
    ) -> tuple[MessageId, SentToCluster]:
        """Return the published message that a queue delivers, after checking that the queue may
        have it."""
        promise(message is not None, "nobody has sent what comes from", queue.name)
        assert message is not None
        number, sequence = message
        known = number < len(self.streams) and sequence < len(self.streams[number].sent)
        promise(known, message, "comes from", queue.name, "and was not sent yet")
        sent = self.streams[number].sent[sequence]
        first = queue.source or queue
        promise(first.name in sent.queues, message, "comes from", queue.name)
        promise(sent.state != ROLLED_BACK, message, "comes, and was rolled back")
        return message, sent

    def read(self, name: str, offset: int, message: MessageId | None) -> None:
        """Check a message that a client has read at that offset of a stream."""
        queue = self.queues[name]
        message, _ = self._sent(message, queue)
        known = queue.entries.setdefault(offset, message)
        promise(known == message, name, "has", message, "at", offset, "and no more", known)
        queue.seen.setdefault(message, [])
        self.figures["read"] += 1

    def _may_have_copies(self, queue: BookedQueue) -> bool:
        """Tell whether a message may have died twice, because its queue did not hear that it was
        safe, so that it is in the queue and the grave, or twice in the grave."""
        dying = queue.source or queue
        is_smooth = self.is_calm and self.outages.are_none
        return dying.grave is not None and dying.must_arrive and not is_smooth

    def _may_come_again(
        self, message: MessageId, earlier: BookedDelivery, to: BookedConsumer
    ) -> None:
        consumer = earlier.consumer
        holder = consumer.holder
        standing = self._standing(consumer.queue, holder.node)
        is_buried = earlier.state == REJECTED and to.queue.source is consumer.queue
        if earlier.state == REQUEUED or is_buried or consumer.standing != standing:
            return
        if holder.node in self.outages.stopping or self._overtook(earlier, to):
            return
        if earlier.is_disputed:
            return
        where = f"{message} comes from {to.queue.name} to {to.holder}"
        if earlier.state == OUT:
            promise(bool(holder.ended), where, "while", holder, "holds it")
        else:
            promise(holder.ended == BROKEN, where, "after", holder, "acknowledged it")

    def _were_hidden(self, deliveries: list[BookedDelivery]) -> bool:
        """Tell whether all of these may have been made by a master left behind, and not have been
        known to the mirror that went on."""
        may_have_hidden = self.promotions.may_have_hidden
        return all(
            may_have_hidden(each.consumer.queue.name, each.consumer.began_ns, each.at_ns)
            for each in deliveries
        )

    def _overtook(self, earlier: BookedDelivery, to: BookedConsumer) -> bool:
        """Tell whether a delivery may have been dealt after the one that `to` gets now: that was in
        flight when the node of `to` hung up, so it was given back, and dealt again with the flag.
        """
        return earlier.is_flagged and to.holder.node in self.outages.stopping

    def settle(self, delivery: BookedDelivery, state: str) -> None:
        """Note that the client sends ack or nack."""
        assert delivery.state == OUT
        delivery.state = state
        delivery.consumer.held -= 1
        self.figures["settled"] += 1

    def give_back(self, queue: BookedQueue) -> None:
        """Note that messages in flight to a consumer are requeued."""
        queue.was_given_back = True

    # -- the end

    def all_is_well(self) -> None:
        """Check that every message that had to be seen has been seen, now that everything is
        drained."""
        for queue in self.queues.values():
            self._has_no_gaps(queue)
        for stream in self.streams:
            for sequence, sent in enumerate(stream.sent):
                for name in sent.queues:
                    queue = self.queues[name]
                    has_arrived = queue.has_arrived((stream.number, sequence))
                    if self._must_be_seen(stream, sent, queue) and not has_arrived:
                        where = (stream.number, sequence), "is lost in", name
                        promise(self._may_be_left(sent, name), *where)
                        self.figures["lost by promotions"] += 1

    def _may_be_left(self, sent: SentToCluster, queue: str) -> bool:
        """Tell whether a confirmed message may have been left behind with mirrors of its queue."""
        is_confirmed = sent.state == CONFIRMED
        times = sent.sent_ns, sent.confirmed_ns
        return is_confirmed and self.promotions.may_have_lost(queue, *times)

    def _has_no_gaps(self, queue: BookedQueue) -> None:
        last: dict[int, int] = {}
        for expected, (offset, (number, sequence)) in enumerate(sorted(queue.entries.items())):
            promise(offset == expected, queue.name, "has nothing at", expected)
            promise(last.get(number, -1) < sequence, queue.name, "is out of order at", offset)
            last[number] = sequence

    def _must_be_seen(self, stream: ClusterStream, sent: SentToCluster, queue: BookedQueue) -> bool:
        """Tell whether a message cannot be lost: it was confirmed, or nothing has ended that could
        have lost it."""
        is_smooth = self.is_calm and self.outages.are_none
        if queue.passes or not (queue.must_arrive or is_smooth):
            return False
        if sent.state == CONFIRMED and queue.keeps(sent):
            return True
        if queue.is_replicated or queue.grave is not None:
            return False
        if sent.state == ROLLED_BACK:
            return False
        is_sound = not self.outages.ends[queue.home]
        is_near = queue.home == stream.node and stream.ended == ENDED_WELL
        return is_sound and (sent.state == CONFIRMED or is_near)
