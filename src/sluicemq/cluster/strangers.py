"""Connections to the cluster port that have proven nothing: their number is bounded, in all and for
each address, and so are their lines in the log. Each has a bounded cost, and so have all together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.limits import (
    LINK_HALF_OPEN_ADDRESS_MAX,
    LINK_HALF_OPEN_MAX,
    LINK_STRANGERS_LOGGED,
    LINK_STRANGERS_NS,
)

if TYPE_CHECKING:
    from sluicemq.cluster.connection import LinkConnection
    from sluicemq.kernel.world import World


class Strangers:
    """Counts connections whose nodes are not known yet."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.count = 0
        self.by_address: dict[str, int] = {}
        self._addresses: dict[LinkConnection, str] = {}
        self._logged = 0
        self._logged_ns = world.clock.now_ns()

    def enter(self, address: str) -> bool:
        """Count a connection from that address; False, and not counted, if there is no place for
        it."""
        held = self.by_address.get(address, 0)
        if self.count >= LINK_HALF_OPEN_MAX or held >= LINK_HALF_OPEN_ADDRESS_MAX:
            return False
        self.count += 1
        self.by_address[address] = held + 1
        return True

    def leave(self, address: str) -> None:
        """Free the place of a connection from that address."""
        held = self.by_address.pop(address)
        if held > 1:
            self.by_address[address] = held - 1
        self.count -= 1

    def came(self, connection: LinkConnection, address: str) -> None:
        """Note the connection that was counted for that address."""
        self._addresses[connection] = address

    def known(self, connection: LinkConnection) -> None:
        """Free its place, if it still has one: its node is known now, or it is gone."""
        address = self._addresses.pop(connection, None)
        if address is not None:
            self.leave(address)

    def log(self, address: str, reason: str) -> None:
        """Log why a connection from that address was refused, unless there were many such lines
        lately."""
        now_ns = self.world.clock.now_ns()
        if now_ns - self._logged_ns >= LINK_STRANGERS_NS:
            self._logged, self._logged_ns = 0, now_ns
        self._logged += 1
        if self._logged <= LINK_STRANGERS_LOGGED:
            text = f"refused a connection from {address} as a node of the cluster: {reason}"
            self.world.log.write("warning", text)
