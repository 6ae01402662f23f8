"""What a channel sees of its connection, and what it tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.access.session import Session
from sluicemq.chain.flow_actor import FlowActor

if TYPE_CHECKING:
    from sluicemq.access.access import Rights
    from sluicemq.chain.queue.namespace import Namespace
    from sluicemq.chain.writer import Writer
    from sluicemq.errors import ConnectionViolation
    from sluicemq.flow.delivery_window import ConnectionWindow
    from sluicemq.flow.gate import GateKeeper
    from sluicemq.kernel.actor import Share


class ConnectionFault:
    """To the connection: a method on a channel broke a rule of the connection, which is closed."""

    __slots__ = ("violation",)

    def __init__(self, violation: ConnectionViolation) -> None:
        self.violation = violation


class ConnectionPort(FlowActor, Session):
    """A connection, as its channels see it. `connection` is its number in the net; `halts` keeps
    the gates that stop it from being read, whatever it publishes; `window` is over the delivery
    windows of all its channels; `frame_max` is in bytes, 0: frames may have any size. There are
    `rights` as soon as there is a `vhost`."""

    connection: int
    name: str
    share: Share
    halts: GateKeeper
    window: ConnectionWindow
    writer: Writer
    frame_max: int
    vhost: Namespace | None
    rights: Rights

    @property
    def refits(self) -> bool:
        """May others publish in larger frames than this client takes?"""
        raise NotImplementedError

    def is_open(self) -> bool:
        """Is the handshake done, and nobody closing the connection?"""
        raise NotImplementedError

    def client_can(self, capability: str) -> bool:
        """Did the client announce it?"""
        raise NotImplementedError

    def channel_closing(self, number: int) -> None:
        """Drop the half of a publish that is still under way: the channel has failed."""
        raise NotImplementedError

    def broken(self) -> None:
        """Close the connection: something of ours has failed in it."""
        raise NotImplementedError
