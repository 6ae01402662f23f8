"""Rounds of the actors: for a bounded time each, and between two of them the sockets are read."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

    from sluicemq.host.disk import HostDisk
    from sluicemq.host.garbage import Collector
    from sluicemq.host.memory_disk import MemoryDisk
    from sluicemq.host.net import HostNet
    from sluicemq.kernel.actor import Scheduler

ROUND_NS: Final = 3_000_000
"""Nanoseconds that actors run between two reads of the sockets, beyond the turn under way. A busy
client's answer waits for about three rounds."""

LOOK_NS: Final = 1_000_000
"""Nanoseconds that they run between two looks at finished disk jobs. Measured under a flood: jobs
wait about that long; looking eight times as often costs a tenth of the throughput."""

ANY_TURNS: Final = 1 << 62
"""More turns than there ever are: time is the bound."""


class Rounds:
    """Gives the actors of `scheduler` a round when one of them has something to do: at once behind
    a look at the sockets, otherwise when the event loop has its next turn."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        net: HostNet,
        disk: HostDisk | MemoryDisk,
        collector: Collector,
    ) -> None:
        self.loop = loop
        self.scheduler = scheduler
        self.net = net
        self.poller = net.poller
        self.disk = disk
        self.collector = collector
        self.is_on = False
        """True while a round is under way."""
        self.is_scheduled = False
        """True while the event loop is to begin the next one."""

    def wake(self) -> None:
        """Have a round soon: an actor has something to do where none had."""
        if not self.is_on and not self.poller.is_looking:
            self.schedule()

    def schedule(self) -> None:
        """Have the event loop begin a round, when it has looked at everything else."""
        if not self.is_scheduled:
            self.is_scheduled = self.poller.is_busy = True
            self.loop.call_soon(self.begin)

    def begin(self) -> None:
        """Have the round that was scheduled."""
        self.is_scheduled = self.poller.is_busy = False
        self.run()

    def looked(self) -> None:
        """Have a round for what the sockets have brought, unless one is scheduled: finished disk
        jobs and timers come before that one."""
        if self.scheduler.awake and not self.is_scheduled:
            self.run()

    def run(self) -> None:
        """Run actors for a bounded time, then let the sockets be read. Finished disk jobs are
        fetched in between, because a busy node would otherwise see them only after the sockets."""
        self.is_on = True
        self.collector.rounds += 1
        scheduler = self.scheduler
        now = perf_counter_ns()
        end = now + ROUND_NS
        more = True
        while more and now < end:
            look = now + LOOK_NS
            scheduler.looked_ns = now
            scheduler.run_from_now(ANY_TURNS, look if look < end else end)
            self.disk.post_done()
            more = scheduler.awake
            if more:
                now = perf_counter_ns()
        self.is_on = False
        if more:
            self.schedule()
        self.net.next_round()
