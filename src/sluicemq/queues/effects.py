"""What a queue machine wants done. Data only; the queue actor makes them real at its turn's end.

Effects with a `channel` are posted to that channel as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sluicemq.flow.link import Link
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.batch import Batch
    from sluicemq.model.traits import MessageTraits
    from sluicemq.queues.commands import LinkId
    from sluicemq.queues.consumers import Consumer


class Comebacks(NamedTuple):
    """Says of messages that are delivered again how often each has come back, in a queue that
    counts it. Their positions and persistence tell which they are if they cannot be delivered."""

    counts: list[int]
    positions: range
    persistent: bool


class Deliver:
    """Sends messages to a consumer. `run` is 0 when no acknowledgement is due; `cost` is what the
    delivery takes from the consumer's window; `returned` says how often each message has come back,
    None: the queue does not count it, or they are delivered for the first time."""

    __slots__ = (
        "channel",
        "consumer",
        "contents",
        "cost",
        "redelivered",
        "returned",
        "run",
        "traits",
    )

    def __init__(
        self,
        consumer: Consumer,
        run: int,
        contents: list[bytes],
        traits: MessageTraits,
        redelivered: bool,
        cost: int,
        returned: Comebacks | None = None,
    ) -> None:
        self.channel = consumer.channel
        self.consumer = consumer
        self.run = run
        self.contents = contents
        self.traits = traits
        self.redelivered = redelivered
        self.cost = cost
        self.returned = returned


class Confirm:
    """Says that `count` messages of the batch from `first_seq` on, which came over `link`, are safe
    in this queue: those that it has not rejected. A queue answers a batch so that each message has
    one answer: what it has not taken is Rejected first, then one Confirm is about what is left, if
    anything is."""

    __slots__ = ("channel", "count", "first_seq", "link")

    def __init__(self, link: Link, first_seq: int, count: int) -> None:
        self.channel = link.sender
        self.link = link
        self.first_seq = first_seq
        self.count = count


class Rejected:
    """Says that of the batch from `first_seq` on, which came over `link`, the `count` messages
    after the first `offset` were not taken, but all others were. `mixed`: they may be refused for
    the sake of one of them."""

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
    """Republishes messages that have died of `reason`: those of the run `run` from place `start`
    on, which are settled when they are safe elsewhere. `run` 0: nobody waits for that."""

    __slots__ = ("contents", "reason", "run", "start", "traits")

    def __init__(
        self, run: int, start: int, contents: list[bytes], traits: MessageTraits, reason: str
    ) -> None:
        self.run = run
        self.start = start
        self.contents = contents
        self.traits = traits
        self.reason = reason


class Receipt:
    """Says what is to be confirmed when a write is durable: the `count` messages from `first_seq`
    on, which came over `link`. `confirm` False: only the queue itself wants to know."""

    __slots__ = ("confirm", "count", "first_seq", "link")

    def __init__(self, link: Link, first_seq: int, count: int, confirm: bool = True) -> None:
        self.link = link
        self.first_seq = first_seq
        self.count = count
        self.confirm = confirm


class Write:
    """Writes persistent messages, whose positions rise from `position` on. `receipt` comes back
    when they are durable, None: nobody waits. `expiry` is in milliseconds since the epoch, 0: they
    never expire."""

    __slots__ = ("batch", "expiry", "position", "receipt")

    def __init__(
        self, batch: Batch, receipt: Receipt | None, position: int, expiry: int = 0
    ) -> None:
        self.batch = batch
        self.receipt = receipt
        self.position = position
        self.expiry = expiry


class Remove:
    """Says that messages have left the queue for good. `durable`: that must be remembered over a
    restart; `indexed`: the queue index may say that they are there; `ids`: these bodies in the
    message store are not needed here any more, None: it has none."""

    __slots__ = ("durable", "ids", "indexed", "positions")

    def __init__(self, positions: range, durable: bool, indexed: bool, ids: range | None) -> None:
        self.positions = positions
        self.durable = durable
        self.indexed = indexed
        self.ids = ids


class Consumed:
    """Answers Consume: the consumer is registered, and deliveries follow over `link`."""

    __slots__ = ("channel", "consumer", "link")

    def __init__(self, consumer: Consumer, link: LinkId) -> None:
        self.channel = consumer.channel
        self.consumer = consumer
        self.link = link


class Cancelled:
    """Says that a consumer is gone and gets no further delivery. `by_broker`: nobody had asked for
    it, the queue was deleted or has failed; with `goes_on` it is served by another node, or another
    shell, which may have the consumer again."""

    __slots__ = ("by_broker", "channel", "consumer", "goes_on")

    def __init__(self, consumer: Consumer, by_broker: bool, goes_on: bool = False) -> None:
        self.channel = consumer.channel
        self.consumer = consumer
        self.by_broker = by_broker
        self.goes_on = goes_on


class Got:
    """Answers Get with a message; `content` None: the queue is empty. `ready` counts the messages
    left. `link` is the one that the run is out over, None: no acknowledgement is due; `returned` is
    as in Deliver."""

    __slots__ = (
        "channel",
        "content",
        "link",
        "ready",
        "redelivered",
        "returned",
        "run",
        "traits",
    )

    def __init__(
        self,
        channel: Actor,
        content: bytes | None,
        run: int,
        traits: MessageTraits,
        redelivered: bool,
        ready: int,
        returned: Comebacks | None = None,
        link: LinkId | None = None,
    ) -> None:
        self.channel = channel
        self.link = link
        self.content = content
        self.run = run
        self.traits = traits
        self.redelivered = redelivered
        self.ready = ready
        self.returned = returned


class Inspected:
    """Answers Inspect with the numbers of ready messages and of consumers."""

    __slots__ = ("channel", "consumers", "ready")

    def __init__(self, channel: Actor, ready: int, consumers: int) -> None:
        self.channel = channel
        self.ready = ready
        self.consumers = consumers


class Purged:
    """Answers Purge with the number of messages that were dropped."""

    __slots__ = ("channel", "count")

    def __init__(self, channel: Actor, count: int) -> None:
        self.channel = channel
        self.count = count


class Deleted:
    """Answers Delete with the number of ready messages dropped, and tells the queue actor to go
    away. `channel` None: nobody else waits for the answer."""

    __slots__ = ("channel", "count")

    def __init__(self, channel: Actor | None, count: int) -> None:
        self.channel = channel
        self.count = count


class Refuse:
    """Answers a command that cannot be carried out: `code` and `text` become an error of the
    channel that has asked; with `goes_on` it may ask what has the queue's name now."""

    __slots__ = ("channel", "code", "goes_on", "text")

    def __init__(self, channel: Actor, code: int, text: str, goes_on: bool = False) -> None:
        self.channel = channel
        self.code = code
        self.text = text
        self.goes_on = goes_on


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
