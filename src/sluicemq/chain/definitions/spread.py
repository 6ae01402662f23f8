"""How far the other nodes have applied the definitions: an answer waits until all that are up have,
because a client may go on at another node. It waits at most SPREAD_WAIT_MS.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.limits import SPREAD_WAIT_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.kernel.world import Clock

NS_A_MS: Final = 1_000_000


class Spread:
    """How far each node has applied the log, and the answers that wait for that."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.applied: dict[int, int] = {}
        """By node, of those that there is a link to, as far as they have said."""
        self.suspected: dict[int, None] = {}
        """Nodes for which nobody waits."""
        self.waiting: deque[tuple[int, int, Callable[[], None]]] = deque()
        """The index that an answer waits for, until when, and what gives it."""

    def node_up(self, node: int) -> None:
        """Wait for that node, too, from now on."""
        self.applied[node] = 0
        self.suspected.pop(node, None)

    def node_down(self, node: int) -> None:
        """Wait for that node no more."""
        self.applied.pop(node, None)
        self.suspected.pop(node, None)
        self.release()

    def node_suspected(self, node: int) -> None:
        """Do not wait for a node that is silent."""
        self.suspected[node] = None
        self.release()

    def node_trusted(self, node: int) -> None:
        """Wait again for a node that is not suspected any more."""
        self.suspected.pop(node, None)

    def node_applied(self, node: int, index: int) -> None:
        """Note that a node has applied everything up to that index."""
        if node in self.applied:
            self.applied[node] = max(self.applied[node], index)
            self.release()

    def when_applied(self, index: int, answer: Callable[[], None]) -> None:
        """Give the answer when all nodes that are up have applied everything up to that index; at
        once if they have."""
        until_ns = self.clock.now_ns() + SPREAD_WAIT_MS * NS_A_MS
        self.waiting.append((index, until_ns, answer))

    def release(self) -> None:
        """Give the answers for which all nodes are far enough, or that have waited long enough."""
        if not self.waiting:
            return
        index = min(
            (upto for node, upto in self.applied.items() if node not in self.suspected),
            default=self.waiting[-1][0],
        )
        now_ns = self.clock.now_ns()
        while self.waiting and (self.waiting[0][0] <= index or self.waiting[0][1] <= now_ns):
            self.waiting.popleft()[2]()
