"""The end of a connection whose own code has failed: what it holds of the broker is given back.

Closing in order is the reader's affair. This is for when that cannot be counted on any more.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sluicemq.chain.channel.connection_port import ConnectionPort
from sluicemq.kernel.steps import take
from sluicemq.queues.commands import Delete

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.channel.channel import Channel
    from sluicemq.flow.credit import Outflow
    from sluicemq.kernel.steps import Step
    from sluicemq.kernel.world import Net


class Severable(ConnectionPort):
    """A reader, as far as its end goes."""

    net: Net
    channels: dict[int, Channel]
    outflows: dict[int, Outflow]

    def account(self) -> None:
        """Count what it holds as memory in use."""
        raise NotImplementedError

    def farewells(self) -> Iterable[Step]:
        """The steps out of the broker's tables."""
        raise NotImplementedError

    def give_up_place(self) -> None:
        """Let another client try to log in."""
        raise NotImplementedError

    def release(self) -> None:
        """Have its parts refer to it no more."""
        raise NotImplementedError


def sever(reader: Severable) -> None:
    """Everything, at once: the socket is closed without a word."""
    steps: list[Step] = [
        reader.go_deaf,
        *(channel.abandon for channel in reader.channels.values()),
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


def delete_exclusive(reader: Severable) -> None:
    """Queues that only this connection could see."""
    if reader.vhost is not None:
        for queue in list(reader.vhost.exclusive.get(reader.name, {}).values()):
            queue.post(Delete(None, False, False))
