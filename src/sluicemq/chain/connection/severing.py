"""The end of a connection whose own code has failed: it gives back everything it holds of the
broker.

The reader closes connections in order. This is for when that cannot be relied on any more.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from sluicemq.chain.channel.connection_port import ConnectionPort
from sluicemq.kernel.cleanup_steps import take
from sluicemq.queues.commands import Delete

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.kernel.cleanup_steps import Step
    from sluicemq.kernel.world import Net

QUEUES_MAX: Final = 200
"""The most exclusive queues that are deleted in a piece."""


class Severable(ConnectionPort):
    """A reader, as far as the end of its connection is concerned."""

    net: Net
    channels: dict[int, Channel]

    def account(self) -> None:
        """Count the client's bytes that wait here as memory in use."""
        raise NotImplementedError

    def leaving_steps(self) -> Iterable[Step]:
        """Return the steps by which it leaves the broker's tables. Each may be repeated."""
        raise NotImplementedError

    def give_up_place(self) -> None:
        """Give up its place among the clients that have not logged in, so that another may try;
        does nothing when it has none."""
        raise NotImplementedError

    def release(self) -> None:
        """Clear its parts' references to it, so that it is freed when nobody else holds it."""
        raise NotImplementedError


def sever(reader: Severable) -> None:
    """End the connection at once, and give back everything that it and its channels hold; the
    socket is closed without a reply."""
    steps: list[Step] = [
        reader.go_deaf,
        *(channel.abandon for channel in reader.channels.values()),
        *(channel.outflow.detach for channel in reader.channels.values()),
        reader.channels.clear,
        reader.account,
        partial(delete_exclusive, reader),
        *reader.leaving_steps(),
        reader.give_up_place,
        reader.writer.connection_lost,
        partial(reader.net.close, reader.connection),
        reader.release,
    ]
    take(reader, steps)


def end_queues(queues: list[Queue]) -> Iterator[int]:
    """Delete exclusive queues with their connection, QUEUES_MAX in a piece, and yield its work."""
    queues.reverse()
    while queues:
        for queue in queues[: -QUEUES_MAX - 1 : -1]:
            queue.post(Delete(None, False, False))
        del queues[-QUEUES_MAX:]
        yield QUEUES_MAX


def delete_exclusive(reader: Severable) -> None:
    """Have the queues deleted that only this connection could see."""
    if reader.vhost is not None:
        for queue in list(reader.vhost.exclusive.get(reader.name, {}).values()):
            queue.post(Delete(None, False, False))
