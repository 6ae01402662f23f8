"""The commands of a quorum queue's log, by value: they name channels by their addresses, consumers
by address and tag. `command_codec.py` encodes them; in addition there is `Configure`.

A command has no time: the entry of the log has the time that its leader gave it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.address import NOBODY, ActorAddress
from sluicemq.queues.by_value import ByValue
from sluicemq.queues.commands import Configure

if TYPE_CHECKING:
    from sluicemq.model.batch import Batch


class ConsumerKey(NamedTuple):
    """The name of a consumer: the address of its channel, and its tag there. Messages that a
    channel gets by basic.get belong to a consumer with the tag ""."""

    channel: ActorAddress
    tag: str


UNSENT: Final = 3
"""An outcome beside ACK, REQUEUE and REJECT: the consumer was not sent the messages that it was
dealt. They return as if undelivered."""

DEAD_LETTER_WORKER: Final = ConsumerKey(NOBODY, "")
"""The consumer that settles dead letters that must arrive: the leader's own publisher."""


class RegisterEnqueuer(NamedTuple):
    """Registers `sender`, whose next message has the number 1. Repeated, it changes nothing; an
    address that has ended is refused for good."""

    sender: ActorAddress


@mypyc_attr(acyclic=True)
class Enqueue:
    """Asks the queue to take a batch. `first_seq` is the sender's number of its first message, 1 or
    more; the sender has the answers for all messages below `heard_seq`. `sizes` are the bytes of
    each body; None: each has `size` bytes. `ttl_ms` is the messages' expiration in milliseconds;
    None: they have none. `batch` has the bodies, None where the log has them: the state never looks
    at it."""

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
    `arguments`, an encoded table of AMQP 0-9-1, are kept for users to see: the consumer's node
    acknowledges for one without acknowledgements. A consumer that exists stays as it is."""

    consumer: ConsumerKey
    prefetch: int = 0
    priority: int = 0
    exclusive: bool = False
    no_ack: bool = False
    arguments: bytes = bytes(4)


class CancelConsumer(NamedTuple):
    """Removes a consumer, which gets no more; its deliveries stay unacknowledged."""

    consumer: ConsumerKey


@mypyc_attr(acyclic=True)
class SettleDelivered(ByValue):
    """Settles messages that a consumer was delivered: those with the ids in each (start, end),
    `end` exclusive. `outcome` is ACK, REQUEUE, REJECT or UNSENT; settled ids are ignored."""

    __slots__ = ("consumer", "ids", "outcome")

    def __init__(
        self, consumer: ConsumerKey, ids: tuple[tuple[int, int], ...], outcome: int
    ) -> None:
        self.consumer = consumer
        self.ids = ids
        self.outcome = outcome

    def values(self) -> tuple[object, ...]:
        return self.consumer, self.ids, self.outcome


class ResumeConsumer(NamedTuple):
    """Asks to deliver a consumer's unsettled messages again, from the id `next_id` on, because the
    link of their delivery was lost."""

    consumer: ConsumerKey
    next_id: int


class GetMessage(NamedTuple):
    """Asks for one message, as basic.get does; the queue may be empty."""

    channel: ActorAddress
    no_ack: bool


class PurgeQueue(NamedTuple):
    """Drops the ready messages; the unacknowledged ones stay."""

    channel: ActorAddress


class DeleteFifo(NamedTuple):
    """Deletes the queue: with `if_unused` unless it has a consumer, with `if_empty` unless it has a
    ready message. `channel` None: the broker itself asks."""

    channel: ActorAddress | None
    if_unused: bool = False
    if_empty: bool = False


class AddressDown(NamedTuple):
    """Ends the address of a channel that is gone: what it held comes back. `is_lost`: its node or
    the link to it is lost, so that no consumer is to blame."""

    channel: ActorAddress
    is_lost: bool = False


class NodeRestarted(NamedTuple):
    """Ends all addresses of a node's lives before `incarnation`, like those of a lost node."""

    node: int
    incarnation: int


class UseQueue(NamedTuple):
    """Notes that the queue was used, so that its x-expires begins anew."""


class CompareState(NamedTuple):
    """Has the digest of the leader's state when the entry at the index `entry` began, so that a
    member whose digest differs notices that it has gone wrong."""

    entry: int
    digest: bytes


class PassTime(NamedTuple):
    """Lets time pass: what is due by the time of its entry is done."""


@mypyc_attr(acyclic=True)
class Asked(ByValue):
    """Begins a row in an entry: row `number` of the commands of `asker`, which speaks for the
    channels of one node. Rows are numbered from 1 on. After a change of leader the asker sends
    unapplied rows again, so that a row may come twice, but not behind a later one. A repeated row
    is skipped."""

    __slots__ = ("asker", "number")

    def __init__(self, asker: ActorAddress, number: int) -> None:
        self.asker = asker
        self.number = number

    def values(self) -> tuple[object, ...]:
        return self.asker, self.number


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
