"""What a queue machine wants done. Data only; the queue actor makes them real at its turn's end.

Effects with a `channel` are posted to that channel as they are.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.amqp.stream_offsets import Headless
    from sluicemq.flow.link import Link
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.batch import Batch
    from sluicemq.model.traits import MessageTraits
    from sluicemq.queues.commands import LinkId
    from sluicemq.queues.consumers import Consumer


PACK_OFFSET: Final = struct.Struct(">Q").pack


class Comebacks(NamedTuple):
    """How often each of some messages that are delivered again has come back, in a queue that
    counts it. Their positions and persistence identify them if they cannot be delivered."""

    counts: list[int]
    positions: range
    persistent: bool


@mypyc_attr(free_list_len=1)
class Deliver:
    """Sends messages to a consumer. `run` is 0 when no acknowledgement is due; `cost` is what the
    delivery takes from the consumer's window; `returned` tells how often each message has come
    back, None when the queue does not count it, or they are delivered for the first time;
    `same_size` says that all contents have one length."""

    __slots__ = (
        "channel",
        "consumer",
        "contents",
        "cost",
        "redelivered",
        "returned",
        "run",
        "same_size",
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
        same_size: bool = False,
    ) -> None:
        self.channel = consumer.channel
        self.consumer = consumer
        self.run = run
        self.contents = contents
        self.traits = traits
        self.redelivered = redelivered
        self.cost = cost
        self.returned = returned
        self.same_size = same_size

    def whole(self) -> list[bytes]:
        """Return the contents as consumers get them."""
        return self.contents


class StampedDeliver(Deliver):
    """A Deliver of a stream whose contents begin alike: in place of that they get `before` and
    their offset in eight octets; the offset of the first is `first`."""

    __slots__ = ("before", "first")

    def __init__(
        self,
        consumer: Consumer,
        run: int,
        found: Headless,
        traits: MessageTraits,
        cost: int,
        first: int,
    ) -> None:
        super().__init__(consumer, run, found.rests, traits, False, cost, None, True)
        self.before = found.before
        self.first = first

    def whole(self) -> list[bytes]:
        before = self.before
        return [
            b"".join((before, PACK_OFFSET(offset), rest))
            for offset, rest in enumerate(self.contents, self.first)
        ]


@mypyc_attr(free_list_len=1)
class Confirm:
    """Tells that `count` messages of the batch from `first_seq` on, which came over `link`, are
    safe in this queue, except those that it has rejected. Each message of a batch has one answer:
    Rejected first for refused ones, then one Confirm for the others, if there are any."""

    __slots__ = ("channel", "count", "first_seq", "link")

    def __init__(self, link: Link, first_seq: int, count: int) -> None:
        self.channel = link.sender
        self.link = link
        self.first_seq = first_seq
        self.count = count


class Rejected:
    """Tells that of the batch from `first_seq` on, which came over `link`, the `count` messages
    after the first `offset` were refused, and all others taken. `mixed` tells that one of them may
    be the only reason."""

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
    on, which are settled when they are safe elsewhere. `run` 0 means that nobody waits for that."""

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
    """What to confirm when a write is durable: the `count` messages from `first_seq` on, which came
    over `link`. With `confirm` False only the queue itself wants to know."""

    __slots__ = ("confirm", "count", "first_seq", "link")

    def __init__(self, link: Link, first_seq: int, count: int, confirm: bool = True) -> None:
        self.link = link
        self.first_seq = first_seq
        self.count = count
        self.confirm = confirm


class Write:
    """Writes persistent messages, whose positions rise from `position` on. `receipt` comes back
    when they are durable, None when nobody waits. `expiry` is in milliseconds since the epoch, 0
    when they never expire."""

    __slots__ = ("batch", "expiry", "position", "receipt")

    def __init__(
        self, batch: Batch, receipt: Receipt | None, position: int, expiry: int = 0
    ) -> None:
        self.batch = batch
        self.receipt = receipt
        self.position = position
        self.expiry = expiry


class Remove:
    """Tells that messages have left the queue for good. `durable`: that must be remembered over a
    restart; `indexed`: the queue index may still have them; `ids`: their bodies in the message
    store, which this queue does not need any more, None when there are none."""

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
    """Tells that a consumer is gone and gets no further delivery. `by_broker`: nobody has cancelled
    it, but the queue was deleted or has failed; with `goes_on` another node, or another shell,
    serves the queue now and may take the consumer again."""

    __slots__ = ("by_broker", "channel", "consumer", "goes_on")

    def __init__(self, consumer: Consumer, by_broker: bool, goes_on: bool = False) -> None:
        self.channel = consumer.channel
        self.consumer = consumer
        self.by_broker = by_broker
        self.goes_on = goes_on


class Got:
    """Answers Get with a message; `content` is None when the queue is empty. `ready` counts the
    remaining messages. `link` is the one that the run was delivered over, None when no
    acknowledgement is due; `returned` is as in Deliver."""

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
    away. A `channel` of None means that nobody waits for the answer."""

    __slots__ = ("channel", "count")

    def __init__(self, channel: Actor | None, count: int) -> None:
        self.channel = channel
        self.count = count


class Refuse:
    """Answers a command that cannot be carried out: `code` and `text` become an error of the
    sender's channel; with `goes_on` it may ask the queue that has the name now."""

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
