"""The effects of a quorum queue. They come out on every member; each makes those for its own node
real.

An effect names messages by the index of their entry in the log and by their places in it, from 0
on; the bodies are found there.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from sluicemq.kernel.address import ActorAddress
from sluicemq.queues.by_value import ByValue
from sluicemq.queues.quorum.commands import ConsumerKey


class DeliveredPart(ByValue):
    """Messages of the entry at `entry` of the log, with the ids from `first_id` on, in the order of
    `places`. Each has come back `returns` times in a way that counts; `redelivered`: they were
    delivered before."""

    __slots__ = ("entry", "first_id", "places", "redelivered", "returns")

    def __init__(
        self, first_id: int, entry: int, places: range, returns: int, redelivered: bool
    ) -> None:
        self.first_id = first_id
        self.entry = entry
        self.places = places
        self.returns = returns
        self.redelivered = redelivered

    def values(self) -> tuple[object, ...]:
        return self.first_id, self.entry, self.places, self.returns, self.redelivered

    @property
    def end_id(self) -> int:
        """Return the id behind the last one."""
        return self.first_id + len(self.places)

    def behind(self, count: int) -> DeliveredPart:
        """Return the part without its first `count` messages."""
        first_id, places = self.first_id + count, self.places[count:]
        return DeliveredPart(first_id, self.entry, places, self.returns, self.redelivered)

    def with_id(self, first_id: int) -> DeliveredPart:
        """Return the same messages with other ids."""
        return DeliveredPart(first_id, self.entry, self.places, self.returns, self.redelivered)


class DeadPart(NamedTuple):
    """Dead letters of the entry at `entry` that died for `reason`, after `returns` returns that
    count; the ids are from `first_id` on, in the order of `places`."""

    first_id: int
    entry: int
    places: range
    returns: int
    reason: str


class EnqueuerRegistered(NamedTuple):
    """Answers RegisterEnqueuer: the sender's next message has the number `next_seq`; 0: the address
    has ended, and is refused. `rejects`: the queue is full and takes none now."""

    sender: ActorAddress
    next_seq: int
    rejects: bool


class PublishAnswer(ByValue):
    """Answers the sender for so many messages from `first_seq` on."""

    __slots__ = ("first_seq", "messages", "sender")

    def __init__(self, sender: ActorAddress, first_seq: int, messages: int) -> None:
        self.sender = sender
        self.first_seq = first_seq
        self.messages = messages

    def values(self) -> tuple[object, ...]:
        return self.sender, self.first_seq, self.messages


class Enqueued(PublishAnswer):
    """Tells the sender that these messages are safe."""

    __slots__ = ()


class EnqueueRejected(PublishAnswer):
    """Tells the sender that these messages were rejected, because the queue was full."""

    __slots__ = ()


class EnqueueRefused(NamedTuple):
    """Tells the sender that a batch was ignored because the one before it has not come: everything
    has to be sent again from `expected_seq` on; 0: the sender is not registered."""

    sender: ActorAddress
    first_seq: int
    expected_seq: int


class PublishStatus(NamedTuple):
    """Tells all enqueuers that the queue has become full and rejects, or takes messages again."""

    rejects: bool


class ConsumerAdded(NamedTuple):
    """Answers AddConsumer: the next delivery has the id `next_id`. `is_active` False: another
    consumer is the single active one."""

    consumer: ConsumerKey
    next_id: int
    is_active: bool


class ConsumerActive(NamedTuple):
    """Tells that a consumer has become the single active one."""

    consumer: ConsumerKey


class ConsumerGone(NamedTuple):
    """Tells that a consumer gets no further delivery. `by_broker`: no client has cancelled it."""

    consumer: ConsumerKey
    by_broker: bool


class FifoDelivered(ByValue):
    """Delivers messages to a consumer. `is_again`: the consumer has asked for them again, and drops
    those that it has."""

    __slots__ = ("consumer", "is_again", "parts")

    def __init__(
        self, consumer: ConsumerKey, parts: list[DeliveredPart], is_again: bool = False
    ) -> None:
        self.consumer = consumer
        self.parts = parts
        self.is_again = is_again

    def values(self) -> tuple[object, ...]:
        return self.consumer, self.parts, self.is_again

    def __hash__(self) -> int:
        return hash((self.consumer, *self.parts, self.is_again))


class MessageGot(NamedTuple):
    """Answers GetMessage; `part` None: there is none. `ready` counts the messages left; the id is
    -1 when no acknowledgement is due."""

    channel: ActorAddress
    part: DeliveredPart | None
    ready: int


class QueuePurged(NamedTuple):
    """Answers PurgeQueue with the number of messages that were dropped."""

    channel: ActorAddress
    messages: int


class FifoDeleted(NamedTuple):
    """Answers DeleteFifo with the number of ready messages dropped, and ends the group. `channel`
    None: no channel has asked, or the queue was unused for too long."""

    channel: ActorAddress | None
    messages: int


class FifoRefused(NamedTuple):
    """Answers a command that cannot be carried out: `code` and `text` become an error of the
    channel."""

    channel: ActorAddress
    code: int
    text: str


class DeadLettered(NamedTuple):
    """Republishes dead letters. `must_arrive`: they stay in the queue until DEAD_LETTER_WORKER has
    settled them; otherwise they have left it."""

    parts: list[DeadPart]
    must_arrive: bool
    is_again: bool = False


class RowBegins(ByValue):
    """Tells that the next effects come from the row `number` of an asker, applied for the first
    time."""

    __slots__ = ("asker", "number")

    def __init__(self, asker: ActorAddress, number: int) -> None:
        self.asker = asker
        self.number = number

    def values(self) -> tuple[object, ...]:
        return self.asker, self.number


class StateDiffers(NamedTuple):
    """Tells that this member's state differed from the leader's when the entry at the index `entry`
    began."""

    entry: int


FifoEffect: TypeAlias = (
    EnqueuerRegistered
    | Enqueued
    | EnqueueRejected
    | EnqueueRefused
    | PublishStatus
    | ConsumerAdded
    | ConsumerActive
    | ConsumerGone
    | FifoDelivered
    | MessageGot
    | QueuePurged
    | FifoDeleted
    | FifoRefused
    | DeadLettered
    | RowBegins
    | StateDiffers
)
