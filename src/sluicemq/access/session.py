"""What access has to know of a connection that is open, and of the virtual host it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sized

    from sluicemq.routing.topology import Topology


class Host:
    """A virtual host, as access sees it. `connections` counts those that are open in it."""

    topology: Topology
    connections: int

    @property
    def is_open(self) -> bool:
        """Whether connections may enter the virtual host: False while it is being deleted."""
        raise NotImplementedError


class Session:
    """A connection of a user, as access sees it. `vhost` is None until the connection is open."""

    user: str
    vhost: Host | None
    channels: Sized

    def post(self, message: object) -> None:
        """Put a message into the inbox of the connection."""
        raise NotImplementedError
