"""What access needs to know of an open connection and its virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sized

    from sluicemq.routing.topology import Topology


class Host:
    """A virtual host, as access sees it. `connections` counts its open connections."""

    topology: Topology
    connections: int

    @property
    def is_open(self) -> bool:
        """Tell whether connections may enter the virtual host: not while it is being deleted."""
        raise NotImplementedError


class Session:
    """A user's connection, as access sees it. `vhost` is None until the connection is open."""

    user: str
    vhost: Host | None
    channels: Sized

    def post(self, message: object) -> None:
        """Put a message into the inbox of the connection."""
        raise NotImplementedError
