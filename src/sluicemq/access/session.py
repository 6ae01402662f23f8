"""What access has to know of a connection that is open, and of the virtual host it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sized

    from sluicemq.routing.topology import Topology


class Host:
    """A virtual host. `connections` counts those that are open in it."""

    topology: Topology
    connections: int

    @property
    def is_open(self) -> bool:
        """False when it is being deleted, so that nobody may enter it any more."""
        raise NotImplementedError


class Session:
    """A connection of a user. `vhost` is None before it is open."""

    user: str
    vhost: Host | None
    channels: Sized

    def post(self, message: object) -> None:
        """Let the connection hear this."""
        raise NotImplementedError
