"""Prefetch: how many deliveries a consumer, or all consumers of a channel, may hold unacknowledged.

Both are asked before a delivery; a limit of 0 means none. No-ack consumers ask neither.
"""

from __future__ import annotations

from sluicemq.kernel.actor import Actor


class Prefetch:
    """One consumer's (basic.qos with global false)."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    @property
    def exhausted(self) -> bool:
        return 0 < self.limit <= self.held

    def take(self, n: int) -> int:
        """How many of `n` messages it may have now; these it holds from now on."""
        if self.limit:
            n = min(n, self.limit - self.held)
        self.held += n
        return n

    def give(self, n: int) -> bool:
        """`n` were acked, rejected or requeued. True: it was exhausted and no longer is."""
        assert n <= self.held
        was_exhausted = self.exhausted
        self.held -= n
        return was_exhausted and not self.exhausted


class Resume:
    """Posted to a queue that `limiter` had refused something: there is room again."""

    __slots__ = ("limiter",)

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter


class Limiter:
    """One channel's (basic.qos with global true): shared by its consumers on all queues."""

    __slots__ = ("held", "limit", "refused")

    def __init__(self) -> None:
        self.limit = 0
        self.held = 0
        self.refused: dict[Actor, bool] = {}
        """The queues that wanted more than they got, in order; True: they got something."""

    def take(self, queue: Actor, n: int) -> int:
        """How many of `n` messages `queue` may deliver to the channel now."""
        if not self.limit:
            return n
        allowed = min(n, max(0, self.limit - self.held))
        self.held += allowed
        if allowed < n and (allowed or queue not in self.refused):
            self.refused[queue] = allowed > 0
        return allowed

    def give(self, n: int) -> None:
        """`n` were acked, rejected or requeued by the channel."""
        if self.limit:
            # Deliveries on their way when the limit was set were never taken here.
            self.held = max(0, self.held - n)
            self._resume()

    def set_limit(self, limit: int, unacked: int) -> None:
        """basic.qos: `unacked` is what the channel's consumers hold if there was no limit yet."""
        if not self.limit:
            self.held = unacked
        self.limit = limit
        self._resume()

    def _resume(self) -> None:
        """Let the refused queues ask again, those first that got nothing the last time."""
        if self.refused and (not self.limit or self.held < self.limit):
            refused = self.refused
            self.refused = {}
            resume = Resume(self)
            for served in (False, True):
                for queue, got_something in refused.items():
                    if got_something == served:
                        queue.post(resume)
