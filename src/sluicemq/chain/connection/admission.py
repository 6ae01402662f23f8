"""Places for connections that have not logged in yet: a number in all, and a number for each
address.

A client that has not logged in has proved nothing, and costs memory and a socket until the
handshake's deadline. When the places are taken, further clients are turned away at once, which is
cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicemq.config import NetConfig


class Admission:
    """Counts connections that have not logged in, from `enter` to `leave` or `log_in`, in all and
    for each address; and those that are open, from `log_in` to `log_out`."""

    __slots__ = ("address_max", "by_address", "half_open", "half_open_max", "logged_in", "told")

    def __init__(self, half_open_max: int, address_max: int) -> None:
        self.half_open_max = half_open_max
        self.address_max = address_max
        self.half_open = 0
        self.by_address: dict[str, int] = {}
        self.logged_in = 0
        self.told = False
        """True when the log has said that clients are turned away; it says so again only after
        there was room."""

    def bound(self, config: NetConfig, sockets_max: int) -> None:
        """Set the bounds as configured, but never to all of the possible `sockets_max`: clients
        that have logged in need some, and so do other addresses."""
        self.half_open_max = min(config.half_open_max, sockets_max * 3 // 4)
        self.address_max = min(config.half_open_per_address_max, sockets_max * 9 // 16)

    def enter(self, address: str) -> bool:
        """Count a client that has connected from this address. Returns False, and does not count
        it, when there is no place for it."""
        held = self.by_address.get(address, 0)
        if self.half_open >= self.half_open_max or held >= self.address_max:
            return False
        self.half_open += 1
        self.by_address[address] = held + 1
        return True

    def leave(self, address: str) -> None:
        """Free the place of a client from this address that is gone."""
        held = self.by_address.pop(address)
        if held > 1:
            self.by_address[address] = held - 1
        self.half_open -= 1
        if self.half_open * 2 < min(self.half_open_max, self.address_max):
            self.told = False

    def log_in(self, address: str) -> None:
        """Free the place of a client, because its connection is open now, and count it as open."""
        self.leave(address)
        self.logged_in += 1

    def log_out(self) -> None:
        """Note that an open connection is gone."""
        self.logged_in -= 1
        self.told = self.told and self.half_open > 0
