"""A clock that a test moves ahead, as if time had passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.host.clock import HostClock

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
LOOKS_MAX: Final = 1000
"""So often the clock that is moved looks whether the actors are done, before it goes on."""


class MovableClock(HostClock):
    """The machine's clock, plus what the test has moved it by. Timers fire in the order of their
    times, however far the clock is moved at once."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, is_busy: Callable[[], bool], ahead_ns: int = 0
    ) -> None:
        """`is_busy` tells whether an actor waits for a turn."""
        super().__init__(loop)
        self.is_busy = is_busy
        self.ahead_ns = ahead_ns
        """How far this clock is ahead of the machine's."""
        self.moves = 0
        """So many moves are under way: the loop is not to ring meanwhile."""
        self.is_stopped = False

    def now_ns(self) -> int:
        return super().now_ns() + self.ahead_ns

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ns // NS_PER_MS

    def set_alarm(self) -> None:
        if not self.moves and not self.is_stopped:
            super().set_alarm()
        elif self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None

    def advance(self, step_ns: int, done: Callable[[], None]) -> None:
        """Move the clock ahead by `step_ns` nanoseconds and call `done`: timer by timer, so that
        each takes effect at its time, and timers that are set meanwhile fire, too. Between two
        times the actors finish their work, unless it does not end."""
        until = self.now_ns() + step_ns
        self.moves += 1
        looks = 0

        def move() -> None:
            nonlocal looks
            if self.is_stopped:
                return
            looks += 1
            if self.is_busy() and looks < LOOKS_MAX:
                self.loop.call_soon(move)
                return
            looks = 0
            now = self.now_ns()
            if self.timers and self.timers[0][0] <= until:
                self.ahead_ns += max(0, self.timers[0][0] - now)
                self.ring()
                self.loop.call_soon(self.loop.call_soon, move)  # as the memory disk does, too
                return
            self.ahead_ns += max(0, until - now)
            self.moves -= 1
            self.set_alarm()
            done()

        self.set_alarm()
        move()

    def stop(self) -> None:
        """Post nothing more from now on."""
        self.is_stopped = True
        self.set_alarm()
