"""The end of a connection whose own code has failed: what it holds of the broker is given back.

Closing in order is the reader's affair. This is for when that cannot be counted on any more: each
step stands alone, goes by what it finds, and may be taken again. A step that fails itself is told
and passed over, so that a second fault costs what that step was about, and never goes in a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from sluicemq.chain.queue.queue import Queue
from sluicemq.queues.commands import Delete, Down

if TYPE_CHECKING:
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.connection.reader import Reader
    from sluicemq.kernel.actor import Actor

Step = Callable[[], object]


def sever(reader: Reader) -> None:
    """Everything, at once: the socket is closed without a word."""
    steps: list[Step] = [
        reader.go_deaf,
        *(partial(abandon, channel) for channel in reader.channels.values()),
        *(outflow.detach for outflow in reader.outflows.values()),
        reader.channels.clear,
        reader.outflows.clear,
        reader.account,
        partial(delete_exclusive, reader),
        *reader.farewells(),
        reader.give_up_place,
        reader.writer.connection_lost,
        partial(reader.net.close, reader.connection),
        reader.release,
    ]
    take(reader, steps)


def abandon(channel: Channel) -> None:
    """Of one channel; its connection is closed by who asks for this."""
    take(channel, ending(channel))


def ending(channel: Channel) -> list[Step]:
    """The steps for a channel. It hears nothing any more, and its queues hear that it is down:
    what was delivered to it returns to its place, its consumers go."""
    links = [half for halves in channel.publishing.links.values() for half in halves]
    queues: dict[Actor, None] = dict.fromkeys(
        [
            *channel.publishing.links,
            *channel.consuming.windows,
            *channel.consuming.got_from,
            *(span.queue for span in channel.consuming.unacked.spans),
        ]
    )
    if isinstance(channel.asked, Queue):  # its answer may be a message
        queues[channel.asked] = None
    return [
        channel.go_deaf,
        channel.account,
        channel.account,
        channel.forget_transaction,
        channel.crowded.open,
        *(half.detach for half in links),
        channel.publishing.close,
        channel.consuming.close,
        channel.inflow.detach,
        *(partial(queue.post, Down(channel)) for queue in queues),
        channel.release,
    ]


def delete_exclusive(reader: Reader) -> None:
    """Queues that only this connection could see."""
    if reader.vhost is not None:
        for queue in list(reader.vhost.exclusive.get(reader.name, {}).values()):
            queue.post(Delete(None, False, False))


def take(actor: Actor, steps: Iterable[Step]) -> None:
    """Each of the steps, whatever becomes of the others."""
    for step in steps:
        try:
            step()
        except Exception as error:
            actor.scheduler.witness(actor, error)
