"""The machine's clock and dice."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

from sluicemq.kernel.world import Clock, Dice

if TYPE_CHECKING:
    import asyncio

    from sluicemq.kernel.actor import Actor


class HostClock(Clock):
    """Monotonic time and the loop's timers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_after(self, delay_ms: int, actor: Actor, message: object) -> None:
        self.loop.call_later(delay_ms / 1000, actor.post, message)


class HostDice(Dice):
    """Random values. Tokens are unpredictable, as names must not be guessed; the others need not
    be."""

    def below(self, limit: int) -> int:
        return random.randrange(limit)

    def token(self, size: int) -> bytes:
        return os.urandom(size)
