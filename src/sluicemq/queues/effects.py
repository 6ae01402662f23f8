"""What a queue machine wants done. Data only; the queue actor makes them real at its turn's end.

Effects with a `channel` are posted to that channel as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sluicemq.flow.link import Link
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.batch import Batch
    from sluicemq.queues.commands import LinkId
    from sluicemq.queues.consumers import Consumer


class Comebacks(NamedTuple):
    """How often messages that are delivered again have come back, where that is counted; what they
    are besides tells who is to blame if they cannot be delivered."""

    counts: list[int]
    positions: range
    persistent: bool


class Deliver:
    """Messages for a consumer. `run` is 0 when no acknowledgement is due; `cost` is what the
    delivery takes from the consumer's window; `returned`: how often each message has come back, in
    a queue that counts it."""

    __slots__ = (
        "address",
        "channel",
        "consumer",
        "contents",
        "cost",
        "number",
        "redelivered",
        "returned",
        "run",
    )

    def __init__(
        self,
        consumer: Consumer,
        run: int,
        contents: list[bytes],
        address: bytes,
        number: int,
        redelivered: bool,
        cost: int,
        returned: Comebacks | None = None,
    ) -> None:
        self.channel = consumer.channel
        self.consumer = consumer
        self.run = run
        self.contents = contents
        self.address = address
        self.number = number
        self.redelivered = redelivered
        self.cost = cost
        self.returned = returned


class Confirm:
    """Of the batch from `first_seq` on that came over `link` those that this queue has not rejected
    are safe in it, `count` of them. A queue answers a batch so that each message has one answer:
    what it has not taken is Rejected first, then one Confirm is about what is left, if anything
    is."""

    __slots__ = ("channel", "count", "first_seq", "link")

    def __init__(self, link: Link, first_seq: int, count: int) -> None:
        self.channel = link.sender
        self.link = link
        self.first_seq = first_seq
        self.count = count


class Rejected:
    """Of the batch from `first_seq` on that came over `link` the `count` messages after the first
    `offset` did not fit. The queue has taken the others. `mixed`: they may be refused for the sake
    of one of them."""

    __slots__ = ("channel", "count", "first_seq", "link", "mixed", "offset")

    def __init__(
        self, link: Link, first_seq: int, offset: int, count: int, mixed: bool = False
    ) -> None:
        self.channel = link.sender
        self.link = link
        self.mixed = mixed
        self.first_seq = first_seq
        self.offset = offset
        self.count = count


class DeadLetter:
    """Messages that have died of `reason`: the `count` of the run from `start` on, which is settled
    when they are safe elsewhere. `run` 0: nobody waits for that. The rest as Chunk has it."""

    __slots__ = ("address", "contents", "number", "persistent", "reason", "run", "start")

    def __init__(
        self,
        run: int,
        start: int,
        contents: list[bytes],
        address: bytes,
        number: int,
        persistent: bool,
        reason: str,
    ) -> None:
        self.run = run
        self.start = start
        self.contents = contents
        self.address = address
        self.number = number
        self.persistent = persistent
        self.reason = reason


class Receipt:
    """What is to be said when a write is durable: that the `count` messages from `first_seq` on are
    which came over `link`. `confirm` False: to nobody but the queue."""

    __slots__ = ("confirm", "count", "first_seq", "link")

    def __init__(self, link: Link, first_seq: int, count: int, confirm: bool = True) -> None:
        self.link = link
        self.first_seq = first_seq
        self.count = count
        self.confirm = confirm


class Write:
    """Persistent messages, from `position` on; `receipt` comes back when they are
    durable, None: nobody waits. See Chunk for `expiry`."""

    __slots__ = ("batch", "expiry", "position", "receipt")

    def __init__(
        self, batch: Batch, receipt: Receipt | None, position: int, expiry: int = 0
    ) -> None:
        self.batch = batch
        self.receipt = receipt
        self.position = position
        self.expiry = expiry


class Remove:
    """Messages have left the queue for good. `durable`: that must be remembered over a restart;
    `indexed`: the queue index may say that they are there; `ids`: these bodies in the message store
    are not needed here any more."""

    __slots__ = ("durable", "ids", "indexed", "positions")

    def __init__(self, positions: range, durable: bool, indexed: bool, ids: range | None) -> None:
        self.positions = positions
        self.durable = durable
        self.indexed = indexed
        self.ids = ids


class Consumed:
    """The consumer is registered; deliveries follow, over `link`."""

    __slots__ = ("channel", "consumer", "link")

    def __init__(self, consumer: Consumer, link: LinkId) -> None:
        self.channel = consumer.channel
        self.consumer = consumer
        self.link = link


class Cancelled:
    """The consumer is gone; no delivery follows. `by_broker`: nobody had asked (queue deleted)."""

    __slots__ = ("by_broker", "channel", "consumer")

    def __init__(self, consumer: Consumer, by_broker: bool) -> None:
        self.channel = consumer.channel
        self.consumer = consumer
        self.by_broker = by_broker


class Got:
    """Answer to Get; `content` None: the queue is empty. `ready` counts what is left; `link` is the
    one that the run is out over, None: no acknowledgement is due; `returned` as in Deliver."""

    __slots__ = (
        "address",
        "channel",
        "content",
        "link",
        "number",
        "ready",
        "redelivered",
        "returned",
        "run",
    )

    def __init__(
        self,
        channel: Actor,
        content: bytes | None,
        run: int,
        address: bytes,
        number: int,
        redelivered: bool,
        ready: int,
        returned: Comebacks | None = None,
        link: LinkId | None = None,
    ) -> None:
        self.channel = channel
        self.link = link
        self.content = content
        self.run = run
        self.address = address
        self.number = number
        self.redelivered = redelivered
        self.ready = ready
        self.returned = returned


class Inspected:
    """Answer to Inspect."""

    __slots__ = ("channel", "consumers", "ready")

    def __init__(self, channel: Actor, ready: int, consumers: int) -> None:
        self.channel = channel
        self.ready = ready
        self.consumers = consumers


class Purged:
    """Answer to Purge: how many messages went."""

    __slots__ = ("channel", "count")

    def __init__(self, channel: Actor, count: int) -> None:
        self.channel = channel
        self.count = count


class Deleted:
    """Answer to Delete, and the word to the queue actor to go away."""

    __slots__ = ("channel", "count")

    def __init__(self, channel: Actor | None, count: int) -> None:
        self.channel = channel
        self.count = count


class Refuse:
    """Answer to Consume or Delete: a channel error for who asked."""

    __slots__ = ("channel", "code", "text")

    def __init__(self, channel: Actor, code: int, text: str) -> None:
        self.channel = channel
        self.code = code
        self.text = text


Effect = (
    Deliver
    | Confirm
    | Rejected
    | DeadLetter
    | Write
    | Remove
    | Consumed
    | Cancelled
    | Got
    | Inspected
    | Purged
    | Deleted
    | Refuse
)
