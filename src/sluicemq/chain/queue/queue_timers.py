"""The timers of a classic queue: for message age, length, and its own expiry.

The machine has the rules (queues/classic/limits.py); this module adds the time and the timers. A
queue without limits only has one attribute of this, which says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from sluicemq.chain.queue.local_queue import LocalQueue
from sluicemq.compiling import mypyc_attr
from sluicemq.limits import EXPIRY_LOOK_MS
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.commands import Delete

if TYPE_CHECKING:
    from sluicemq.queues.settings import QueueSettings


class HeadDue:
    """Tells a queue that the message at its head may have expired; `due_ms` is the timer's time, in
    milliseconds since the epoch."""

    __slots__ = ("due_ms",)

    def __init__(self, due_ms: int) -> None:
        self.due_ms = due_ms


class LookUnused:
    """Tells a queue that it may have been unused for too long."""

    __slots__ = ()


@mypyc_attr(allow_interpreted_subclasses=True)
class TimedQueue(LocalQueue[ClassicQueue]):
    """A classic queue, as its timers see it."""

    settings: QueueSettings


class QueueTimers:
    """Keeps the time for one queue: when messages expire, and when it has been unused for too
    long."""

    def __init__(self, queue: TimedQueue) -> None:
        self._queue = ref(queue)
        self.clock = queue.services.world.clock
        self.expires_ms: int | None = None
        self.used_ns = self.clock.now_ns()
        """When the queue was last used."""
        self.looking = False
        self.due_ms = 0
        """When the timer for the head goes off, by the wall clock; 0: there is none."""

    @property
    def queue(self) -> TimedQueue:
        """Return the queue of these timers. This object must not keep it alive: a queue that ends
        is freed at once."""
        queue = self._queue()
        assert queue is not None, "a queue's timers without the queue"
        return queue

    def configure(self, settings: QueueSettings) -> None:
        """Take from these settings after how long an unused queue is deleted; None: never. The time
        begins anew."""
        self.expires_ms = settings.expires_ms
        if self.expires_ms is not None:
            self.used()

    # -- age and length

    def tick(self) -> None:
        """Tell the machine the time, so that it drops messages that are too old or too many."""
        queue = self.queue
        queue.machine.enforce(self.clock.wall_ms(), queue.effects)

    def plan(self) -> None:
        """Plan the next look: in the next turn, or by a timer. A timer that goes off too early only
        costs a turn."""
        machine = self.queue.machine
        if machine.has_more_to_enforce:
            self.queue.schedule()
            return
        expiry_ms = machine.next_expiry_ms()
        if not expiry_ms:
            return
        now_ms = self.clock.wall_ms()
        due_ms = min(max(expiry_ms, now_ms), now_ms + EXPIRY_LOOK_MS)
        if self.due_ms <= now_ms or due_ms < self.due_ms:
            self.due_ms = due_ms
            self.clock.call_after(due_ms - now_ms, self.queue, HeadDue(due_ms))

    def head_due(self, message: HeadDue) -> None:
        """Note that a timer has gone off; the end of the turn checks whether the head
        has expired.
        """
        if message.due_ms == self.due_ms:
            self.due_ms = 0

    # -- x-expires

    def used(self) -> None:
        """Note that the queue is used now: a consumer came or went, something was fetched, or it
        was declared again."""
        self.used_ns = self.clock.now_ns()
        if not self.looking and self.expires_ms is not None:
            self.looking = True
            self.clock.call_after(self.expires_ms, self.queue, LookUnused())

    def look_unused(self) -> None:
        """Delete the queue if nobody has used it for `expires_ms` milliseconds; else look again
        later."""
        self.looking = False
        queue = self.queue
        if self.expires_ms is None or queue.machine.deleted or queue.machine.depth.consumers:
            return  # the last consumer's end starts the time anew
        left_ns = self.used_ns + self.expires_ms * 1_000_000 - self.clock.now_ns()
        if left_ns > 0:
            self.looking = True
            self.clock.call_after(-(-left_ns // 1_000_000), queue, LookUnused())
        else:
            queue.replicator.submit(Delete(None, True, False))
