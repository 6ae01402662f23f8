"""What clients of several nodes have seen, held against what was promised them.

    lost         a confirmed message is seen by a consumer of each queue it was for, in the end; a
                 transient one only if the queue's node has not ended since
    invented     whatever is seen was published, to the last bit, to the queue it comes from, and
                 not rolled back
    confirms     each number once, and only numbers that were used; a refusal only after an outage
    duplicates   seen again only when the holder gave it back or is gone, or after an outage between
                 it and the queue; and flagged then, unless it was on its way to who gets it before
                 an outage
    order        what one consumer gets unflagged is in the order of its stream; of a queue with
                 members until something may have come back that nobody has seen
    prefetch     a consumer never holds more than its limit

An outage of a queue for the clients at a node is the end of the queue's node, or of the link
between the two, as either of them sees it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sluicemq.sim.records import BROKEN, ENDED_WELL, OUT, REQUEUED, promise

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.sim.messages import MessageId
    from sluicemq.sim.nodes.plan import NodesPlan, PlannedQueue

Standing = tuple[int, int]
"""How often a queue's node has ended, and how often its link to another node has."""
NOT_CONFIRMED, CONFIRMED, REFUSED, ROLLED_BACK = range(4)
FIGURES: Final = ("published", "confirmed", "refused", "delivered", "redelivered", "settled")


class Outages:
    """What has ended in a run: processes by node, and links by pair of nodes."""

    def __init__(self) -> None:
        self.ends: Counter[int] = Counter()
        self.links: Counter[frozenset[int]] = Counter()

    @property
    def are_none(self) -> bool:
        """Tell whether nothing has ended yet."""
        return not (self.ends or self.links)

    @property
    def all_ends(self) -> int:
        """The number of processes and links that have ended."""
        return self.ends.total() + self.links.total()

    def standing(self, home: int, node: int) -> Standing:
        """Return what the clients at `node` have seen of outages of a queue at `home`."""
        return self.ends[home], self.links[frozenset((home, node))]


class SentToCluster:
    """One published message: where it goes and what its publisher has heard."""

    __slots__ = ("is_persistent", "queues", "state")

    def __init__(self, queues: tuple[str, ...], is_persistent: bool) -> None:
        self.queues = queues
        self.is_persistent = is_persistent
        self.state = NOT_CONFIRMED


class ClusterStream:
    """What one channel of one publisher at `node` has sent. `ended` is "", closed or broken."""

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
    """One channel of a client at `node`, which holds messages while it is open."""

    __slots__ = ("ended", "name", "node")

    def __init__(self, name: str, node: int) -> None:
        self.name = name
        self.node = node
        self.ended = ""

    def __repr__(self) -> str:
        return self.name


class BookedConsumer:
    """One consumer on a holder's channel. `limit` is its prefetch, 0 none."""

    __slots__ = ("held", "holder", "last_of", "limit", "queue", "standing")

    def __init__(
        self, holder: ChannelHolder, queue: BookedQueue, limit: int, standing: Standing
    ) -> None:
        self.holder = holder
        self.queue = queue
        self.limit = limit
        self.standing = standing
        """Of the queue when it began. What it gets may have been on its way for long."""
        self.held = 0
        self.last_of: dict[int, int] = {}
        """By stream, the last that came unflagged."""


class BookedDelivery:
    """One message that a consumer has got."""

    __slots__ = ("consumer", "message", "state")

    def __init__(self, message: MessageId, consumer: BookedConsumer) -> None:
        self.message = message
        self.consumer = consumer
        self.state = OUT


class BookedQueue:
    """What clients have seen of one queue."""

    __slots__ = ("home", "is_replicated", "name", "seen", "was_given_back")

    def __init__(self, plan: PlannedQueue) -> None:
        self.name = plan.name
        self.is_replicated = plan.is_replicated
        self.home = 0
        """The node that has it; 0: it is not declared yet."""
        self.seen: dict[MessageId, list[BookedDelivery]] = {}
        self.was_given_back = False
        """Something that was on its way to a consumer may have come back."""


class ClusterBook:
    """What clients know of all publishers and queues of a run."""

    def __init__(self, plan: NodesPlan, outages: Outages, changes: Callable[[], int]) -> None:
        self.outages = outages
        self.changes = changes
        """How often groups have had another leader, or other members."""
        self.is_calm = False
        """Nothing has gone wrong yet, and all nodes are there."""
        self.streams: list[ClusterStream] = []
        self.queues = {each.name: BookedQueue(each) for each in plan.queues}
        self.figures = dict.fromkeys(FIGURES, 0)

    # -- publishing

    def stream(self, name: str, node: int, confirms: bool) -> ClusterStream:
        """Begin the record of one channel of one publisher."""
        stream = ClusterStream(len(self.streams), name, node, confirms)
        self.streams.append(stream)
        return stream

    def publish(
        self, stream: ClusterStream, queues: tuple[str, ...], is_persistent: bool
    ) -> MessageId:
        """Note a message that is about to be sent."""
        self.figures["published"] += 1
        sent = SentToCluster(queues, is_persistent)
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
            stream.unconfirmed.pop(each).state = state
        self.figures["refused" if refused else "confirmed"] += len(tags)

    # -- consuming

    def consumer(self, holder: ChannelHolder, name: str, limit: int) -> BookedConsumer:
        """Begin the record of a consumer of the queue of that name."""
        queue = self.queues[name]
        return BookedConsumer(holder, queue, limit, self._standing(queue, holder.node))

    def _standing(self, queue: BookedQueue, node: int) -> Standing:
        """Return what the clients at `node` have seen of outages of a queue: of a quorum queue
        those of all nodes and leaders are, and changes of members."""
        if queue.is_replicated:
            return self.outages.all_ends, self.changes()
        return self.outages.standing(queue.home, node)

    def deliver(
        self, message: MessageId | None, consumer: BookedConsumer, redelivered: bool
    ) -> BookedDelivery:
        """Note that a client has received a message, and check that it may."""
        holder, queue = consumer.holder, consumer.queue
        promise(message is not None, holder, "receives what nobody sent, from", queue.name)
        assert message is not None
        number, sequence = message
        known = number < len(self.streams) and sequence < len(self.streams[number].sent)
        promise(known, holder, "receives", message, "which was not sent yet")
        sent = self.streams[number].sent[sequence]
        promise(queue.name in sent.queues, message, "comes from", queue.name)
        promise(sent.state != ROLLED_BACK, message, "comes, and was rolled back")
        before = queue.seen.setdefault(message, [])
        is_late = consumer.standing != self._standing(consumer.queue, holder.node)
        for earlier in before if not is_late else ():  # it may have been on its way for long
            self._may_come_again(message, earlier, consumer)
        if before:
            promise(
                redelivered or is_late, message, "comes again to", holder, "without being flagged"
            )
        elif redelivered:
            may = queue.was_given_back or not (self.is_calm and self.outages.are_none)
            promise(may, message, "is flagged, but nobody can have had it")
        is_shuffled = queue.is_replicated and (queue.was_given_back or not self.is_calm)
        if not (redelivered or is_shuffled):
            last = consumer.last_of.get(number, -1)
            promise(last < sequence, holder, "gets", message, "after", last)
            consumer.last_of[number] = sequence
        self.figures["delivered"] += 1
        self.figures["redelivered"] += redelivered
        delivery = BookedDelivery(message, consumer)
        before.append(delivery)
        consumer.held += 1
        held, limit = consumer.held, consumer.limit
        promise(not 0 < limit < held, holder, "holds", held, "with prefetch", limit)
        return delivery

    def _may_come_again(
        self, message: MessageId, earlier: BookedDelivery, to: BookedConsumer
    ) -> None:
        consumer = earlier.consumer
        holder = consumer.holder
        standing = self._standing(consumer.queue, holder.node)
        if earlier.state == REQUEUED or consumer.standing != standing:
            return
        where = f"{message} comes from {to.queue.name} to {to.holder}"
        if earlier.state == OUT:
            promise(bool(holder.ended), where, "while", holder, "holds it")
        else:
            promise(holder.ended == BROKEN, where, "after", holder, "acknowledged it")

    def settle(self, delivery: BookedDelivery, state: str) -> None:
        """Note that the client sends ack or nack."""
        assert delivery.state == OUT
        delivery.state = state
        delivery.consumer.held -= 1
        self.figures["settled"] += 1

    def give_back(self, queue: BookedQueue) -> None:
        """Note that what is on its way to a consumer goes back to the queue."""
        queue.was_given_back = True

    # -- the end

    def all_is_well(self) -> None:
        """Check that whatever had to be seen has been seen, for everything is drained."""
        for stream in self.streams:
            for sequence, sent in enumerate(stream.sent):
                for name in sent.queues:
                    queue = self.queues[name]
                    if self._must_be_seen(stream, sent, queue):
                        message = stream.number, sequence
                        promise(message in queue.seen, message, "is lost in", name)

    def _must_be_seen(self, stream: ClusterStream, sent: SentToCluster, queue: BookedQueue) -> bool:
        """Tell whether a message cannot be gone: it was confirmed, or nothing has ended that could
        have taken it along."""
        if sent.state == CONFIRMED and (sent.is_persistent or queue.is_replicated):
            return True
        if queue.is_replicated:
            return False
        if sent.state == ROLLED_BACK:
            return False
        is_sound = not self.outages.ends[queue.home]
        is_near = queue.home == stream.node and stream.ended == ENDED_WELL
        return is_sound and (sent.state == CONFIRMED or is_near)
