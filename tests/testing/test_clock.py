"""Goal: a clock that is moved ahead has everything happen at its time and in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.testing.clock import NS_PER_S, MovableClock

TEN_S = 10 * NS_PER_S
"""As long as that the machine may stand still."""


class Watcher(Actor):
    """Notes when it hears what, and sets a timer of its own each time."""

    def __init__(self, scheduler: Scheduler, clock: MovableClock, again_ms: int) -> None:
        super().__init__(scheduler)
        self.clock = clock
        self.again_ms = again_ms
        self.heard: list[tuple[int, object]] = []
        """After how many times TEN_S, and what."""
        self.began_ns = clock.now_ns()

    def receive(self, message: object) -> None:
        self.heard.append(((self.clock.now_ns() - self.began_ns) // TEN_S, message))
        if self.again_ms:
            self.clock.call_after(self.again_ms, self, message)


def in_loop(body: Callable[[Scheduler, MovableClock], Coroutine[None, None, None]]) -> None:
    """Run `body` with a clock and a scheduler that is run when something is posted."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        scheduler = Scheduler()
        scheduler.wake = lambda: loop.call_soon(scheduler.run, 1000)
        await body(scheduler, MovableClock(loop, lambda: scheduler.is_busy))

    asyncio.run(main())


async def moved(clock: MovableClock, seconds: int) -> None:
    """Move the clock, and wait until that is done."""
    done = asyncio.Event()
    clock.advance(seconds * NS_PER_S, done.set)
    await done.wait()


def test_timers_come_in_the_order_of_their_times() -> None:
    async def body(scheduler: Scheduler, clock: MovableClock) -> None:
        watcher = Watcher(scheduler, clock, again_ms=0)
        for seconds in (300, 100, 200, 100):
            clock.call_after(seconds * 1000, watcher, seconds)
        clock.call_after(1_000_000, watcher, "later")
        await moved(clock, 600)
        assert watcher.heard == [(10, 100), (10, 100), (20, 200), (30, 300)]
        await moved(clock, 600)
        assert watcher.heard[-1] == (100, "later")

    in_loop(body)


def test_what_is_set_on_the_way_has_its_turn_too() -> None:
    async def body(scheduler: Scheduler, clock: MovableClock) -> None:
        watcher = Watcher(scheduler, clock, again_ms=60_000)
        clock.call_after(60_000, watcher, "tick")
        wall_ms = clock.wall_ms()
        await moved(clock, 600)
        assert [tens for tens, _ in watcher.heard][:9] == [6 * n for n in range(1, 10)]
        assert clock.wall_ms() - wall_ms >= 599_999

    in_loop(body)


def test_without_being_moved_it_is_the_machines() -> None:
    async def body(scheduler: Scheduler, clock: MovableClock) -> None:
        watcher = Watcher(scheduler, clock, again_ms=0)
        clock.call_after(1, watcher, "soon")
        clock.call_after(3_600_000, watcher, "never")
        while not watcher.heard:
            await asyncio.sleep(0.001)
        assert watcher.heard == [(0, "soon")]
        clock.stop()
        clock.call_after(0, watcher, "stopped")
        await asyncio.sleep(0.01)
        assert len(watcher.heard) == 1

    in_loop(body)
