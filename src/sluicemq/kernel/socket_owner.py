"""Who takes what comes over a connection, as a net sees it (`kernel/world.py`, `Net`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.endpoints import Peer


class SocketOwner(Protocol):
    """The actor that owns a connection. `Connected`, `Received` and `Closed` are posted to it,
    `Writable` to its `writer`, which may be the same actor."""

    @property
    def shares_room(self) -> bool:
        """Tell whether the connection shares the room for what was read and not parsed: the more
        do, the less is read of each at once, and the smaller its receive buffer becomes. Clients
        do; a link between nodes carries what many of them wait for."""

    @property
    def writer(self) -> Actor:
        """Return the actor that writes to the connection."""

    def post(self, message: object) -> None:
        """Put `message` into the owner's inbox, as `Actor.post` does."""


class Acceptor(Protocol):
    """Takes in the connections to a listener."""

    def admits(self, address: str) -> bool:
        """Tell whether one more peer may connect from that numeric address. After True either
        `accept` or `gave_up` follows."""

    def accept(self, connection: int, peer: Peer) -> SocketOwner:
        """Take in a connection; return its owner."""

    def gave_up(self, address: str) -> None:
        """Note that a peer that was admitted has gone before it could be accepted."""
