"""What a channel sees of its connection, and what it tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.access.session import Session
from sluicemq.chain.flow_actor import FlowActor

if TYPE_CHECKING:
    from sluicemq.access.access import Rights
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.writer import Writer
    from sluicemq.errors import ConnectionViolation
    from sluicemq.flow.delivery_window import ConnectionWindow
    from sluicemq.flow.gate import GateKeeper
    from sluicemq.kernel.actor import Actor, Share


class ConnectionFault:
    """Sent to a connection to have it closed for `violation`, mostly by a channel on which a method
    broke a rule of the connection."""

    __slots__ = ("violation",)

    def __init__(self, violation: ConnectionViolation) -> None:
        self.violation = violation


class Farewell:
    """Counts the channels that have yet to end, `left`, of a connection that its client has closed.
    The connection gets it when the last one has ended."""

    __slots__ = ("connection", "left")

    def __init__(self, connection: Actor, left: int) -> None:
        self.connection = connection
        self.left = left

    def one_less(self) -> None:
        """Note that a channel has ended."""
        self.left -= 1
        if not self.left:
            self.connection.post(self)


class ConnectionPort(FlowActor, Session):
    """A connection, as its channels see it. `connection` is its number in the net; `halts` keeps
    the gates that stop it from being read, whether it publishes or not; `window` bounds the
    delivery windows of all its channels; `frame_max` is in bytes, and 0 allows frames of any size.
    `vhost` is None, and there are no `rights`, before connection.open has succeeded."""

    connection: int
    name: str
    share: Share
    halts: GateKeeper
    window: ConnectionWindow
    writer: Writer
    frame_max: int
    vhost: NamespacePort | None
    rights: Rights

    @property
    def refits(self) -> bool:
        """Tell whether others may publish in larger frames than this client accepts, so that
        contents have to be split to fit."""
        raise NotImplementedError

    def is_open(self) -> bool:
        """Tell whether the handshake is done and nobody is closing the connection."""
        raise NotImplementedError

    def client_can(self, capability: str) -> bool:
        """Tell whether the client has announced this capability in the handshake."""
        raise NotImplementedError

    def channel_closing(self, number: int) -> None:
        """Drop the unfinished publish on channel `number`, which has failed."""
        raise NotImplementedError

    def broken(self) -> None:
        """Close the connection, because code of the broker's own has failed in it."""
        raise NotImplementedError
