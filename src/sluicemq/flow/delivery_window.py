"""The delivery windows of one connection, and the one over all of them.

Each queue has a window to each channel it delivers to. With a channel more, a client that does not
read would be sent as much more, so they share a bound: when what was delivered on a connection and
has not been handed to its socket reaches it, whoever wants to deliver more waits, until half of it
is gone. Then all who wait hear of it, in the order in which they came, by a grant of nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.flow.credit import Grant, LinkSpec, Outflow

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.flow.gate import GateKeeper
    from sluicemq.kernel.actor import Actor


class ConnectionWindow:
    """How much is on its way to one socket, in units of delivery cost. `bound` is how much may be;
    one delivery of each window may be above it."""

    __slots__ = ("bound", "spent", "waiting")

    def __init__(self, bound: Callable[[], int]) -> None:
        self.bound = bound
        self.spent = 0
        self.waiting: dict[DeliveryOutflow, Actor] = {}
        """The windows that are held up, each with the queue that it belongs to."""

    def give_back(self, cost: int) -> None:
        """Free `cost` units, which have been handed to the socket or will never be."""
        self.spent -= cost
        if self.waiting and self.spent * 2 <= self.bound():
            waiting = self.waiting
            self.waiting = {}
            for outflow, queue in waiting.items():
                queue.post(Grant(outflow, 0))


class DeliveryOutflow(Outflow):
    """A queue's window of deliveries to one channel."""

    __slots__ = ("queue", "shared")

    def __init__(
        self,
        keeper: GateKeeper,
        name: str,
        queue: Actor,
        spec: LinkSpec,
        shared: ConnectionWindow,
    ) -> None:
        super().__init__(keeper, name, spec)
        self.queue = queue
        self.shared = shared

    @property
    def is_waiting(self) -> bool:
        """Tell whether it is shut because the window of the whole connection is used up."""
        return self in self.shared.waiting

    def waits(self) -> bool:
        shared = self.shared
        if shared.spent < shared.bound():
            return False
        shared.waiting[self] = self.queue
        self.shut()
        return True

    def spend(self, n: int) -> None:
        super().spend(n)
        self.shared.spent += n

    def refill(self, n: int) -> None:
        if self.attached:
            self.credit += n
            if self.credit > 0 and not self.is_waiting:
                self.open()

    def detach(self) -> None:
        self.shared.waiting.pop(self, None)
        super().detach()
