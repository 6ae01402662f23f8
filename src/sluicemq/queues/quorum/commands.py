"""What the members of a quorum queue agree on, by value: channels by their addresses, consumers by
address and tag. `command_codec.py` has them in bytes; beside these there is `Configure`.

A command says nothing of time: an entry of the log has the time its leader gave it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from sluicemq.kernel.address import NOBODY, ActorAddress
from sluicemq.queues.commands import Configure

if TYPE_CHECKING:
    from sluicemq.model.batch import Batch


class ConsumerKey(NamedTuple):
    """Names a consumer: the address of its channel, and its tag there. Messages that a channel has
    got one by one (basic.get) are those of a consumer with the tag ""."""

    channel: ActorAddress
    tag: str


UNSENT: Final = 3
"""An outcome beside ACK, REQUEUE and REJECT: the consumer has not been sent the messages that it
was dealt. They come back as if they had never been."""

DEAD_LETTER_WORKER: Final = ConsumerKey(NOBODY, "")
"""Who settles dead letters that must arrive: the leader's own publisher."""


class RegisterEnqueuer(NamedTuple):
    """Begins the row of what `sender` enqueues, whose next number is 1. Said again it changes
    nothing; an address that has ended once is refused for good."""

    sender: ActorAddress


class Enqueue:
    """Asks the queue to take a batch. `first_seq` is the sender's number of its first message, 1 or
    more; the sender has heard what became of all below `heard_seq`. `sizes` are the bytes of each
    body, None: each has `size` bytes. `ttl_ms` is what the messages' property says, in
    milliseconds, None: nothing. `batch` has the bodies, None where the log has them: the state
    never looks at it."""

    __slots__ = ("batch", "count", "first_seq", "heard_seq", "sender", "size", "sizes", "ttl_ms")

    def __init__(
        self,
        sender: ActorAddress,
        first_seq: int,
        count: int,
        size: int,
        sizes: list[int] | None = None,
        ttl_ms: int | None = None,
        heard_seq: int = 1,
        batch: Batch | None = None,
    ) -> None:
        assert first_seq > 0 and count > 0, "messages are numbered from 1 on"
        self.sender = sender
        self.first_seq = first_seq
        self.heard_seq = heard_seq
        self.count = count
        self.size = size
        self.sizes = sizes
        self.ttl_ms = ttl_ms
        self.batch = batch


class AddConsumer(NamedTuple):
    """Adds a consumer, which may hold `prefetch` messages, 0: as many as any may. `no_ack` and
    `arguments`, a table of AMQP 0-9-1 in bytes, are remembered for people: who needs no
    acknowledgements is given them by its channel. A consumer that is there stays as it is."""

    consumer: ConsumerKey
    prefetch: int = 0
    priority: int = 0
    exclusive: bool = False
    no_ack: bool = False
    arguments: bytes = bytes(4)


class CancelConsumer(NamedTuple):
    """Removes a consumer, which gets no more; what was delivered to it stays unacknowledged."""

    consumer: ConsumerKey


class SettleDelivered(NamedTuple):
    """Says that a consumer is done with messages that it was delivered: those with the ids in each
    (start, end), `end` exclusive. `outcome` is ACK, REQUEUE, REJECT or UNSENT; ids that are settled
    already are passed over."""

    consumer: ConsumerKey
    ids: tuple[tuple[int, int], ...]
    outcome: int


class ResumeConsumer(NamedTuple):
    """Asks for everything a consumer has not settled, from the id `next_id` on, because the link
    was lost that it was delivered over."""

    consumer: ConsumerKey
    next_id: int


class GetMessage(NamedTuple):
    """Asks for one message, as basic.get does, or for the news that there is none."""

    channel: ActorAddress
    no_ack: bool


class PurgeQueue(NamedTuple):
    """Drops the ready messages; those that are unacknowledged stay."""

    channel: ActorAddress


class DeleteFifo(NamedTuple):
    """Deletes the queue: with `if_unused` unless it has a consumer, with `if_empty` unless it has a
    ready message. `channel` None: the broker itself asks."""

    channel: ActorAddress | None
    if_unused: bool = False
    if_empty: bool = False


class AddressDown(NamedTuple):
    """Says that a channel is gone: what it held comes back, and nothing is heard of its address
    again. `is_lost`: the node or the link to it is, so that no consumer is to blame."""

    channel: ActorAddress
    is_lost: bool = False


class NodeRestarted(NamedTuple):
    """Says that a node is in the life `incarnation`: all addresses of its earlier lives are gone as
    those of a lost node are."""

    node: int
    incarnation: int


class UseQueue(NamedTuple):
    """Says that somebody has declared the queue again, so that it is not unused (x-expires)."""


class CompareState(NamedTuple):
    """Says what the digest of the leader's state was when the entry at the index `entry` began, so
    that a member of which it was another one notices that it has gone wrong."""

    entry: int
    digest: bytes


class PassTime(NamedTuple):
    """Says nothing but that time has passed: what is due by the time of its entry is done."""


class Asked(NamedTuple):
    """Begins an entry: what follows in it is the row `number` of what `asker` has asked for, who
    speaks for the channels of one node. Rows are numbered from 1 on. After a change of leader the
    asker sends again what it has not seen applied, so that a row may come twice, but not behind a
    later one. What has come before is passed over."""

    asker: ActorAddress
    number: int


FifoCommand: TypeAlias = (
    RegisterEnqueuer
    | Enqueue
    | AddConsumer
    | CancelConsumer
    | SettleDelivered
    | ResumeConsumer
    | GetMessage
    | PurgeQueue
    | DeleteFifo
    | AddressDown
    | NodeRestarted
    | UseQueue
    | PassTime
    | CompareState
    | Asked
    | Configure
)
