"""What the parts of a channel see of it: publishing, consuming, transactions, replies, methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.writer import WriterClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.access.access import Rights
    from sluicemq.amqp.method import Method
    from sluicemq.chain.channel.channel_directory import ChannelDirectory
    from sluicemq.chain.channel.connection_port import ConnectionPort
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.services import Services
    from sluicemq.errors import ChannelViolation
    from sluicemq.flow.gate import GateKeeper
    from sluicemq.model.traffic import Traffic


class ChannelPort(WriterClient):
    """A channel, as its parts see it. Everything due to its client is gathered in `out` and leaves
    at the turn's end; `out_cost` is what the deliveries in there take of windows. `deliveries`
    keeps the gates of its ends of delivery links. `question` is what the client waits for; None
    when it waits for nothing."""

    services: Services
    directory: ChannelDirectory[ChannelPort]
    reader: ConnectionPort
    traffic: Traffic
    vhost: NamespacePort
    rights: Rights
    number: int
    name: str
    deliveries: GateKeeper
    question: object
    out: list[bytes]
    out_cost: int

    @property
    def replies_at(self) -> str:
        """Return the address at which the channel receives replies, "" when it has no reply
        consumer."""
        raise NotImplementedError

    @property
    def has_unacked(self) -> bool:
        """Tell whether its client has not acknowledged everything that was delivered to it."""
        raise NotImplementedError

    def reply(self, method: Method) -> None:
        """Send the client this method, behind everything due to it already."""
        raise NotImplementedError

    def fail(self, violation: ChannelViolation) -> None:
        """Close the channel for this violation; further messages of the client on it
        are dropped."""
        raise NotImplementedError

    def begin_long(self, pieces: Iterator[int], method_id: int) -> None:
        """Do what a method of class basic asks for in pieces, each of which yields its work; other
        messages of the client wait meanwhile. A violation by any piece closes the channel or the
        connection, and blames the method `method_id` unless it names one."""
        raise NotImplementedError
