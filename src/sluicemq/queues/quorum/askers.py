"""The last applied row of each requester, which makes repeated requests idempotent.

A node sends all rows that it has not seen applied again, in order, to each new leader and over each
new link. So a row may be in the log twice, but never behind a later one.
"""

from __future__ import annotations

from typing import NamedTuple

from sluicemq.kernel.address import ActorAddress


class AskedUpTo(NamedTuple):
    """The last row of a node, and its requester. The rows of a node's later requester come after
    all rows of an earlier one."""

    asker: ActorAddress
    number: int


class Askers:
    """The last row of each node."""

    __slots__ = ("members",)

    def __init__(self) -> None:
        self.members: dict[int, AskedUpTo] = {}

    def is_new(self, asker: ActorAddress, number: int) -> bool:
        """Note a row that comes. Returns False if it has come before."""
        row = AskedUpTo(asker, number)
        known = self.members.get(asker.node)
        if known is not None and row <= known:
            return False
        self.members[asker.node] = row
        return True

    def done(self, asker: ActorAddress) -> int:
        """Return the number of a requester's last row; 0: none has come."""
        known = self.members.get(asker.node)
        return known.number if known is not None and known.asker == asker else 0
