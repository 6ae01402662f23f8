"""The delivery windows of one connection, and their common bound.

Each queue has a window to each channel it delivers to. A client that does not read could get more
by opening more channels, so the windows share a bound: when the deliveries of a connection that its
socket has not taken reach it, all queues that deliver to it wait until half of it is gone. Then
each waiting queue is told, in order of arrival, by a grant of 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.flow.credit import Grant, LinkSpec, Outflow

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.flow.gate import GateKeeper
    from sluicemq.kernel.actor import Actor


class ConnectionWindow:
    """How much is on its way to one socket, in units of delivery cost. `bound` is the limit; each
    window may exceed it by one delivery."""

    __slots__ = ("bound", "spent", "waiting")

    def __init__(self, bound: Callable[[], int]) -> None:
        self.bound = bound
        self.spent = 0
        self.waiting: dict[DeliveryOutflow, Actor] = {}
        """The windows that are held up, each with the queue that it belongs to."""

    def give_back(self, cost: int) -> None:
        """Free `cost` units, which the socket has taken or will never take."""
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
        if not shared.spent or shared.spent < shared.bound():
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
