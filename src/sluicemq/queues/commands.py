"""The commands of a queue. Each names its sender, for the effects that answer it.

The members of a replicated queue agree on commands. So a command says nothing that only one member
knows: how much room the windows to its consumers have, what it has in RAM or on its disk, what its
clock shows. The queue actor tells the machine of these by calls (`machine.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.flow.link import Link
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.batch import Batch
    from sluicemq.queues.consumers import Consumer
    from sluicemq.queues.settings import QueueSettings

ACK: Final = 0
REQUEUE: Final = 1
REJECT: Final = 2
"""What becomes of messages that a channel is done with."""

FIRST_TERM: Final = 1
"""The first life of a queue, since the start of the node."""


class LinkId(NamedTuple):
    """The name of the link over which a queue delivers to one channel. `term` is that of the
    queue's life; `number` counts the links of this life from 1, and is 0 for the queue's own dead
    letters."""

    term: int
    number: int


@mypyc_attr(free_list_len=1)
class Publish:
    """Asks the queue to take a batch that came over `link`. `first_seq` is the sender's number of
    the first message, 1 or more; with `confirm` the sender is told when they are safe, or rejected.
    The submitter sets everything that depends on the time of arrival: `expiry` as Chunk has it;
    `came_ms`, in milliseconds since the epoch, for a queue that deduplicates, 0 for others."""

    __slots__ = ("batch", "came_ms", "confirm", "expiry", "first_seq", "link")

    def __init__(self, batch: Batch, link: Link, first_seq: int, confirm: bool) -> None:
        self.batch = batch
        self.link = link
        self.first_seq = first_seq
        self.confirm = confirm
        self.expiry = 0
        self.came_ms = 0


@mypyc_attr(acyclic=True, free_list_len=1)
class Settle:
    """Settles parts of runs for a channel: (run, start, end) each, `end` exclusive. `outcome` is
    ACK, REQUEUE or REJECT. The parts were delivered over `link`: runs of the same numbers over
    another link, or in another life of the queue, are different ones."""

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
    """Asks for one message, as basic.get does."""

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
    `if_empty`, that no message is ready. A `channel` of None is the broker itself, which is not
    told when they are not met."""

    __slots__ = ("channel", "if_empty", "if_unused")

    def __init__(self, channel: Actor | None, if_unused: bool, if_empty: bool) -> None:
        self.channel = channel
        self.if_unused = if_unused
        self.if_empty = if_empty

    def unmet(self, consumers: int, ready: int) -> str:
        """Return why a queue with that many consumers and ready messages may not be deleted on
        these conditions; "" when it may."""
        if self.if_unused and consumers:
            return "in use"
        return "not empty" if self.if_empty and ready else ""


class Down:
    """Tells that a channel is gone: its consumers end, and its messages return to their places.
    `is_lost` tells that the link to its node has ended; then their return does not count for a
    delivery limit."""

    __slots__ = ("channel", "is_lost")

    def __init__(self, channel: Actor, is_lost: bool = False) -> None:
        self.channel = channel
        self.is_lost = is_lost


class Configure:
    """Replaces the settings of the queue from now on."""

    __slots__ = ("settings",)

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings


Command = Publish | Settle | Consume | Cancel | Get | Inspect | Purge | Delete | Down | Configure
COMMANDS: Final = (Settle, Get, Inspect, Consume, Cancel, Down, Purge, Delete)
"""What a queue actor takes from its inbox as it is."""
USES: Final = (Get, Inspect, Consume, Cancel, Down)
"""After these a queue has not been unused (x-expires) for the time before."""
