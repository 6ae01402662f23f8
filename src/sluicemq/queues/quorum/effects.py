"""The effects of a quorum queue. They come out on every member; each makes those for its own node
real.

An effect names messages by the index of their entry in the log and by their places in it, from 0
on; the bodies are found there.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from sluicemq.kernel.address import ActorAddress
from sluicemq.queues.quorum.commands import ConsumerKey


class DeliveredPart(NamedTuple):
    """Messages of the entry at `entry` of the log, with the ids from `first_id` on, in the order of
    `places`. Each has come back `returns` times in a way that counts; `redelivered`: they were
    delivered before."""

    first_id: int
    entry: int
    places: range
    returns: int
    redelivered: bool


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


class Enqueued(NamedTuple):
    """Tells the sender that so many messages from `first_seq` on are safe."""

    sender: ActorAddress
    first_seq: int
    messages: int


class EnqueueRejected(NamedTuple):
    """Tells the sender that so many messages from `first_seq` on were rejected, because the queue
    was full."""

    sender: ActorAddress
    first_seq: int
    messages: int


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


class FifoDelivered(NamedTuple):
    """Delivers messages to a consumer. `is_again`: the consumer has asked for them again, and drops
    those that it has."""

    consumer: ConsumerKey
    parts: list[DeliveredPart]
    is_again: bool = False


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


class RowBegins(NamedTuple):
    """Tells that the next effects come from the row `number` of an asker, applied for the first
    time."""

    asker: ActorAddress
    number: int


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
