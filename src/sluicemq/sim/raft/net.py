"""The network between members: it delays, loses, doubles and reorders messages, and may carry them
in one direction only. A member that cannot hear another is told a little later that the link is
lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sluicemq.raft.messages import RaftMessage

if TYPE_CHECKING:
    from sluicemq.sim.raft.events import Events


class RaftNet:
    """The network between all members; `deliver` and `tell_link` pass messages and links on to
    them."""

    def __init__(
        self,
        events: Events,
        deliver: Callable[[RaftMessage], None],
        tell_link: Callable[[int, int, bool], None],
    ) -> None:
        self.events = events
        self.random = events.random.random
        """Returns a random number below 1."""
        self.deliver = deliver
        self.tell_link = tell_link
        self.blocked: set[tuple[int, int]] = set()
        """The blocked ways, from one member to another."""
        self.down: set[int] = set()
        """Members that are down, or frozen."""
        self.links: dict[tuple[int, int], bool] = {}
        """For each pair, whether it is linked, as far as it was noticed."""
        self.told_at: dict[tuple[int, int], float] = {}
        self.loss = 0.0
        self.doubling = 0.0
        self.slow = 0.0
        """The probability that a message is late."""
        self.sent = 0

    def send(self, message: RaftMessage) -> None:
        """Carry a message, unless it is lost."""
        self.sent += 1
        random = self.random
        for _ in range(2 if random() < self.doubling else 1):
            if random() < self.loss:
                continue
            low, high = (5.0, 80.0) if random() < self.slow else (0.5, 4.0)
            delay_ms = low + (high - low) * random()
            self.events.after(delay_ms, lambda: self._arrive(message))

    def _arrive(self, message: RaftMessage) -> None:
        if (message.sender, message.to) not in self.blocked:
            self.deliver(message)

    def block(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Block exactly these ways from now on."""
        self.blocked = {*pairs}
        self.look()

    def is_linked(self, one: int, other: int) -> bool:
        """Tell whether both members can talk to each other."""
        return not (
            (one, other) in self.blocked
            or (other, one) in self.blocked
            or one in self.down
            or other in self.down
        )

    def look(self) -> None:
        """Tell members of links that have come or gone, in order."""
        for pair, was in self.links.items():
            now = self.is_linked(*pair)
            if now != was:
                self.links[pair] = now
                self._tell_later(pair, now)

    def _tell_later(self, pair: tuple[int, int], is_up: bool) -> None:
        events = self.events
        at_ms = max(events.now_ms + events.between(1, 30), self.told_at.get(pair, 0.0))
        self.told_at[pair] = at_ms

        def tell() -> None:
            one, other = pair
            self.tell_link(one, other, is_up)
            self.tell_link(other, one, is_up)

        events.after(at_ms - events.now_ms, tell)

    def join(self, name: int, others: Iterable[int]) -> None:
        """Connect a new member to the others."""
        for other in others:
            self.links[min(name, other), max(name, other)] = self.is_linked(name, other)
