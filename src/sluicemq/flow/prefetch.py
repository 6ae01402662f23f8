"""Prefetch: how many deliveries a consumer, or all consumers of a channel, may hold unacknowledged.

The queue asks both before a delivery; a limit of 0 means none. For no-ack consumers it asks only
the channel's limit, and their messages do not count there (as in RabbitMQ).
"""

from __future__ import annotations

from sluicemq.kernel.actor import Actor


class Prefetch:
    """The limit of one consumer (basic.qos with global false)."""

    __slots__ = ("limit", "unacked")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.unacked = 0

    @property
    def exhausted(self) -> bool:
        return 0 < self.limit <= self.unacked

    def take(self, n: int) -> int:
        """Return how many of `n` messages the consumer may have now; it holds these from now on."""
        if self.limit:
            n = min(n, self.limit - self.unacked)
        self.unacked += n
        return n

    def give(self, n: int) -> bool:
        """Give back `n` messages that were acked, rejected or requeued. Returns True when the limit
        was exhausted and no longer is."""
        assert n <= self.unacked
        was_exhausted = self.exhausted
        self.unacked -= n
        return was_exhausted and not self.exhausted


class Resume:
    """Posted to a queue that waits for `limiter`: it may deliver now. After its turn the queue
    calls `had_turn`, whether it has delivered anything or not."""

    __slots__ = ("limiter",)

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter


class Limiter:
    """The limit of one channel (basic.qos with global true), shared by its consumers on all queues.
    Queues that it refuses wait in line. The first in line is invited as soon as there is room, and
    until it has had its turn no other gets any: a queue whose acknowledgements make the room has no
    advantage over the others."""

    __slots__ = ("invited", "limit", "unacked", "waiting")

    def __init__(self) -> None:
        self.limit = 0
        self.unacked = 0
        """The number of messages that the channel's consumers hold; it is counted without a limit
        too."""
        self.waiting: dict[Actor, None] = {}
        self.invited: Actor | None = None

    def permits(self, queue: Actor) -> bool:
        """Tell whether `queue` may deliver one message to the channel now. If not, it waits in
        line."""
        if not self.limit:
            return True
        if self.unacked < self.limit and self.invited in (None, queue):
            return True
        self.waiting.setdefault(queue)
        return False

    def take(self, n: int) -> None:
        """Count `n` messages that were just delivered on the channel."""
        self.unacked += n

    def give(self, n: int) -> None:
        """Give back `n` messages that were acked, rejected or requeued by the channel."""
        assert n <= self.unacked
        self.unacked -= n
        self._invite()

    def set_limit(self, limit: int) -> None:
        """Set the limit that basic.qos asks for, in messages; 0 lifts it. A queue that waits is
        invited if there is room now."""
        self.limit = limit
        self._invite()

    def had_turn(self, queue: Actor) -> None:
        """Note that `queue` has answered its Resume, so that the next one may be invited."""
        if self.invited is queue:
            self.invited = None
            self._invite()

    def _invite(self) -> None:
        """Call up the first in line, if there is room and no other invited queue has yet to
        answer."""
        if not self.waiting or self.invited is not None:
            return
        if not self.limit or self.unacked < self.limit:
            queue = next(iter(self.waiting))
            del self.waiting[queue]
            self.invited = queue
            queue.post(Resume(self))
