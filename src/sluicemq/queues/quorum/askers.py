"""The last applied row of each requester, which makes repeated requests idempotent.

A node sends all rows that it has not seen applied again, in order, to each new leader and over each
new link. So a row may be in the log twice, but never behind a later one.
"""

from __future__ import annotations

from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.address import ActorAddress


@mypyc_attr(acyclic=True)
class AskedUpTo:
    """The last row of a node, and its requester. The rows of a node's later requester come after
    all rows of an earlier one. It never changes: another one takes its place."""

    __slots__ = ("asker", "number")

    def __init__(self, asker: ActorAddress, number: int) -> None:
        self.asker = asker
        self.number = number

    def covers(self, asker: ActorAddress, number: int) -> bool:
        """Tell whether that row is this one or comes before it."""
        if asker == self.asker:
            return number <= self.number
        return asker < self.asker


class Askers:
    """The last row of each node."""

    __slots__ = ("members",)

    def __init__(self) -> None:
        self.members: dict[int, AskedUpTo] = {}

    def is_new(self, asker: ActorAddress, number: int) -> bool:
        """Note a row that comes. Returns False if it has come before."""
        node = asker.node
        known = self.members.get(node)
        if known is not None and known.covers(asker, number):
            return False
        self.members[node] = AskedUpTo(asker, number)
        return True

    def done(self, asker: ActorAddress) -> int:
        """Return the number of a requester's last row; 0: none has come."""
        known = self.members.get(asker.node)
        return known.number if known is not None and known.asker == asker else 0
