"""What can be asked of a queue. Each command names who asked, for the effects that answer it.

A command is what the members of a replicated queue agree on. So it says nothing of what only one
member knows: how much room the windows to its consumers have, what it has in RAM or on its disk,
what its clock shows. Of that the queue actor tells the machine by calls (`machine.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.kernel.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.flow.link import Link
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.batch import Batch
    from sluicemq.queues.consumers import Consumer
    from sluicemq.queues.settings import QueueSettings

ACK, REQUEUE, REJECT = range(3)
"""What becomes of messages that a channel is done with."""

FIRST_TERM: Final = 1
"""The first life of a queue, since the start of the node."""


class LinkId(NamedTuple):
    """Names the link over which a queue delivers to one channel, and what is out over it. `term` is
    that of the queue's life; `number` counts the links of this life from 1, and is 0 for the
    queue's own dead letters."""

    term: int
    number: int


class Publish:
    """Asks the queue to take a batch that came over `link`. `first_seq` is the sender's number of
    the first message, 1 or more; with `confirm` the sender hears when they are safe, or that they
    were not taken. Who submits the command sets what depends on when it comes: `expiry` as Chunk
    has it; `came_ms`, in milliseconds since the epoch, for a queue that deduplicates, 0 for
    others."""

    __slots__ = ("batch", "came_ms", "confirm", "expiry", "first_seq", "link")

    def __init__(self, batch: Batch, link: Link, first_seq: int, confirm: bool) -> None:
        self.batch = batch
        self.link = link
        self.first_seq = first_seq
        self.confirm = confirm
        self.expiry = 0
        self.came_ms = 0


class Settle:
    """Says that a channel is done with parts of runs: (run, start, end) each, `end` exclusive.
    `outcome` is ACK, REQUEUE or REJECT. The parts were delivered over `link`: runs of the same
    numbers that came over another one, or in another life of the queue, are not meant."""

    __slots__ = ("link", "outcome", "parts")

    def __init__(self, link: LinkId, parts: list[tuple[int, int, int]], outcome: int) -> None:
        self.link = link
        self.parts = parts
        self.outcome = outcome


class Consume:
    """Adds a consumer. A classic queue refuses it when it has an exclusive consumer, and refuses an
    exclusive one when it has any, or is to have a single active consumer."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer


class Cancel:
    """Removes a consumer, which gets no more; what was delivered to it stays unacknowledged."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer


class Get:
    """Asks for one message, as basic.get does, or for the news that there is none."""

    __slots__ = ("channel", "no_ack")

    def __init__(self, channel: Actor, no_ack: bool) -> None:
        self.channel = channel
        self.no_ack = no_ack


class Purge:
    """Drops the ready messages; those that are unacknowledged stay."""

    __slots__ = ("channel",)

    def __init__(self, channel: Actor) -> None:
        self.channel = channel


@mypyc_attr(allow_interpreted_subclasses=True)
class Inspect:
    """Asks for queue.declare how many ready messages and consumers there are."""

    __slots__ = ("channel",)

    def __init__(self, channel: Actor) -> None:
        self.channel = channel


class Delete:
    """Deletes the queue, on the conditions of queue.delete: `if_unused`, that it has no consumer,
    `if_empty`, that no message is ready. `channel` None: the broker itself asks, which hears
    nothing when they are not met."""

    __slots__ = ("channel", "if_empty", "if_unused")

    def __init__(self, channel: Actor | None, if_unused: bool, if_empty: bool) -> None:
        self.channel = channel
        self.if_unused = if_unused
        self.if_empty = if_empty

    def unmet(self, consumers: int, ready: int) -> str:
        """Return why a queue with so many consumers and ready messages may not be deleted on these
        conditions; "" when it may."""
        if self.if_unused and consumers:
            return "in use"
        return "not empty" if self.if_empty and ready else ""


class Down:
    """Says that a channel is gone: its consumers end, and what it held returns to its place.
    `is_lost`: the link to its node has ended. Then it is not the messages' fault that they come
    back, and it does not count."""

    __slots__ = ("channel", "is_lost")

    def __init__(self, channel: Actor, is_lost: bool = False) -> None:
        self.channel = channel
        self.is_lost = is_lost


class Configure:
    """Replaces the settings of the queue by these, which hold from now on."""

    __slots__ = ("settings",)

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings


Command = Publish | Settle | Consume | Cancel | Get | Inspect | Purge | Delete | Down | Configure
COMMANDS: Final = (Settle, Get, Inspect, Consume, Cancel, Down, Purge, Delete)
"""What a queue actor takes from its inbox as it is."""
USES: Final = (Get, Inspect, Consume, Cancel, Down)
"""After these a queue has not been unused (x-expires) for the time before."""
