"""What a connection of a link sees of its node: its owner, and the parts that it needs.

It is not compiled: owners have another base, and a compiled class has one compiled base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from sluicemq.cluster.bounds import LinkBounds
    from sluicemq.cluster.introduction import Introduction
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import World


C = TypeVar("C")


class ConnectionKeeper(Generic[C]):
    """The owner of a connection, which knows the members, as the connection sees it."""

    def introduced(self, connection: C, other: Introduction) -> None:
        """Check the other side, whose identity is proven: `accept` or `end` the connection, or go
        on."""
        raise NotImplementedError

    def failed(self, connection: C, reason: str) -> None:
        """Note that a connection that belongs to no link yet has ended, for that reason."""
        raise NotImplementedError

    def gone(self, connection: C) -> None:
        """Note that the socket is closed: nothing more comes of this connection."""
        raise NotImplementedError


class ConnectionWorld:
    """The parts of the node that a connection needs."""

    scheduler: Scheduler
    world: World
    bounds: LinkBounds
