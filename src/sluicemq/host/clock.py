"""The machine's clock and dice."""

from __future__ import annotations

import os
import random
from heapq import heappop, heappush
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Final

from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.world import Clock, Dice

if TYPE_CHECKING:
    import asyncio

    from sluicemq.kernel.actor import Actor

NS_A_MS: Final = 1_000_000
NS_A_SECOND: Final = 1_000_000_000


@mypyc_attr(allow_interpreted_subclasses=True)
class HostClock(Clock):
    """Monotonic time, and timers, all of which share one timer of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.timers: list[tuple[int, int, Actor, object]] = []
        """A heap of what is to be posted: when, its number, to whom, and what."""
        self.made = 0
        """How many timers there have been."""
        self.alarm: asyncio.TimerHandle | None = None
        """The loop's timer, which rings when the first of `timers` is due; None: there is none."""
        self.alarm_ns = 0

    def now_ns(self) -> int:
        return monotonic_ns()

    def wall_ms(self) -> int:
        return time_ns() // NS_A_MS

    def call_after(self, delay_ms: int, actor: Actor, message: object) -> None:
        due_ns = self.now_ns() + delay_ms * NS_A_MS
        self.made += 1
        heappush(self.timers, (due_ns, self.made, actor, message))
        if self.alarm is None or due_ns < self.alarm_ns:
            self.set_alarm()

    def set_alarm(self) -> None:
        """Have the loop call when the next timer is due."""
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        if self.timers:
            self.alarm_ns = self.timers[0][0]
            wait_ns = max(0, self.alarm_ns - self.now_ns())
            self.alarm = self.loop.call_later(wait_ns / NS_A_SECOND, self.ring)

    def ring(self) -> None:
        """Post the messages of all timers that are due."""
        self.alarm = None
        timers = self.timers
        now_ns = self.now_ns()
        try:
            while timers and timers[0][0] <= now_ns:
                _, _, actor, message = heappop(timers)
                actor.post(message)
        finally:
            self.set_alarm()


class HostDice(Dice):
    """Random values. Tokens are unpredictable, as names must not be guessed; the others need not
    be."""

    def below(self, limit: int) -> int:
        return random.randrange(limit)

    def token(self, size: int) -> bytes:
        return os.urandom(size)
