"""`adaptive`: what the whole chain may hold, in messages and in bytes, shared by active links.

With RabbitMQ's fixed credit, what is buffered before back pressure reaches a socket grows with the
number of publishers. Here each link gets a window, its share of one budget:

    window = clamp(min(messages, bytes / average message) / active links, floor, ceiling)

A link whose window is smaller than its credit withholds grants until what circulates fits; when the
window grows it grants what it withheld. At least the window circulates at any time, and the unit of
granting is never larger than the window, so some credit is always on its way back to a sender that
has none: a link cannot lock up, however small its window.

Credit that a sender already holds is not taken back: a link shrinks as it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.errors import Refused
from sluicemq.flow.credit import Inflow, LinkSpec, Outflow
from sluicemq.limits import LINK_ACTIVE_NS

if TYPE_CHECKING:
    from sluicemq.flow.gate import GateKeeper
    from sluicemq.kernel.actor import Actor


class Budget:
    """What all links together may hold, and how many of them are active.

    `tick` divides time into epochs of LINK_ACTIVE_NS. A link marks itself once an epoch, so the
    count costs nothing per message: links marked in this epoch or the last one are active.
    """

    __slots__ = (
        "_epoch_since_ns",
        "_marked",
        "active",
        "bytes",
        "ceiling",
        "epoch",
        "floor",
        "links",
        "messages",
        "shrunk",
    )

    def __init__(self, messages: int, bytes: int, floor: int, ceiling: int = 200) -> None:  # noqa: A002 - the unit
        if messages < 1 or bytes < 1 or not 1 <= floor <= ceiling:
            raise Refused(
                f"flow budget of {messages} messages, {bytes} bytes, windows {floor} to {ceiling}: "
                "all must be at least 1, and the smallest window not above the largest"
            )
        self.messages = messages
        self.bytes = bytes
        self.floor = floor
        self.ceiling = ceiling
        self.active = 0
        self.links = 0
        self.epoch = 1
        self.shrunk: dict[AdaptiveInflow, None] = {}
        """The links that withhold something, in the order in which they began to."""
        self._marked = 0
        self._epoch_since_ns = 0

    def window(self, average_bytes: int) -> int:
        """Return how many messages one active link may have in circulation."""
        return self._share(average_bytes, self.active)

    def first_window(self) -> int:
        """Return the window of a new link in messages, as if all links were active, because all may
        soon be."""
        return self._share(1, self.links)

    def _share(self, average_bytes: int, sharers: int) -> int:
        messages = min(self.messages, self.bytes // max(1, average_bytes))
        return max(self.floor, min(messages // max(1, sharers), self.ceiling))

    def mark(self, last_epoch: int) -> None:
        """Note that a link, last marked in `last_epoch`, has settled its first messages of this
        epoch."""
        self._marked += 1
        if last_epoch != self.epoch - 1:
            self.active += 1

    def tick(self, now_ns: int) -> None:
        """Begin the next epoch when this one has lasted long enough; called about once a second.

        Only here does `active` fall, so here the links that withhold get their larger windows, even
        those whose sender has no credit left and will not make them settle anything.
        """
        if now_ns - self._epoch_since_ns < LINK_ACTIVE_NS:
            return
        self._epoch_since_ns = now_ns
        self.epoch += 1
        fewer = self._marked < self.active
        self.active = self._marked
        self._marked = 0
        if fewer:
            for link in list(self.shrunk):
                link.resize()


class AdaptiveInflow(Inflow):
    """A receiver's half of a link whose window follows the budget."""

    __slots__ = ("average_bytes", "budget", "epoch", "sharers", "spec", "window")

    def __init__(
        self, keeper: GateKeeper, sender: Actor, outflow: Outflow, spec: LinkSpec, budget: Budget
    ) -> None:
        super().__init__(keeper, sender, outflow, spec)
        self.spec = spec
        self.budget = budget
        self.epoch = -1
        self.average_bytes = 0
        self.sharers = 0
        """The number of active links when `window` was computed."""
        budget.links += 1
        self.window = self.initial
        self._set_window(budget.first_window())
        self.withheld = self.initial - self.window
        outflow.credit -= self.withheld
        if self.withheld:
            budget.shrunk[self] = None

    def settle(self, n: int, size_bytes: int = 0) -> None:
        assert n > 0
        if not self.attached:
            return
        budget = self.budget
        if self.epoch != budget.epoch:
            budget.mark(self.epoch)
            self.epoch = budget.epoch
        self.owed += n
        if self._weigh(size_bytes // n) or self.sharers != budget.active:
            self.resize()
        elif self.initial - self.withheld > self.window:
            self._fit()
        elif self.owed >= self.more_after:
            self.grant_owed()

    def resize(self) -> None:
        """Take the window that the budget gives now, and make the circulating credit fit it."""
        self.sharers = self.budget.active
        self._set_window(self.budget.window(self.average_bytes))
        self._fit()

    def detach(self) -> None:
        if self.attached:
            super().detach()
            self.budget.links -= 1
            self.budget.shrunk.pop(self, None)

    def _weigh(self, size_bytes: int) -> bool:
        """Follow the size of messages, upward at once, downward slowly. Returns True when it has
        changed."""
        average = self.average_bytes
        if size_bytes == average:
            return False
        if size_bytes < average:
            size_bytes = (7 * average + size_bytes) // 8
        self.average_bytes = size_bytes
        return size_bytes != average

    def _set_window(self, window: int) -> None:
        """Set the window; the unit of granting keeps its proportion to it."""
        spec = self.spec
        self.window = min(window, spec.initial)
        self.more_after = max(1, self.window * spec.more_after // spec.initial)

    def _fit(self) -> None:
        """Move credit between `owed` and `withheld`; grant what is due then."""
        excess = self.initial - self.withheld - self.window
        withheld = self.withheld
        if excess > 0:
            self.withheld += min(excess, self.owed)
        elif excess < 0:
            self.withheld -= min(-excess, withheld)
        self.owed += withheld - self.withheld
        if self.withheld and not withheld:
            self.budget.shrunk[self] = None
        elif withheld and not self.withheld:
            del self.budget.shrunk[self]
        self.grant_owed()
