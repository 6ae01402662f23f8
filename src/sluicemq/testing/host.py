"""The broker's own side of a broker under test: its World, which a test can change, and its lives.

`run` is what the process or the thread of such a broker does: one life after the other, over the
same files and on the same port, until it is told to end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from sluicemq.host.log import line_of
from sluicemq.host.memory_disk import MemoryFiles
from sluicemq.host.run import BrokerHost
from sluicemq.kernel.world import Log
from sluicemq.testing.clock import MovableClock
from sluicemq.testing.knobs import Knobs
from sluicemq.testing.net import DelayingNet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sluicemq.config import Config
    from sluicemq.manage.task import Action

Ending = Literal["stop", "restart", "kill"]
"""How a life of the broker ends: for good, in order, or as by `kill -9`; after the last two another
one begins."""

LINES_KEPT: Final = 1000


class KeptLog(Log):
    """A log in memory: its last lines, for a test that fails."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)

    def write(self, level: str, text: str) -> None:
        self.lines.append(line_of(level, text))


class StagedHost(BrokerHost):
    """One life of a broker under test."""

    net: DelayingNet
    clock: MovableClock

    def __init__(self, config: Config, place: Path | MemoryFiles, log: Log, ahead_ns: int) -> None:
        self.kept_log = log
        self.ahead_ns = ahead_ns
        self.ending: Ending = "stop"
        super().__init__(config, place)
        self.knobs = Knobs(self.node, self.net, self.clock, self.disk.files, self.end)

    def make_log(self) -> Log:
        return self.kept_log

    def make_net(self, sockets_max: int) -> DelayingNet:
        self.net = DelayingNet(self.loop, self.config.net, self.log, sockets_max)
        return self.net

    def make_clock(self) -> MovableClock:
        self.clock = MovableClock(self.loop, lambda: self.node.scheduler.is_busy, self.ahead_ns)
        return self.clock

    def commands(self) -> Mapping[str, Action]:
        return {**super().commands(), **self.knobs.actions()}

    def end(self, how: Ending) -> None:
        """End this life soon, in this way."""
        self.ending = how
        self.stopped.set()

    async def close(self) -> None:
        """End this life in the way that was asked for."""
        if self.ending != "kill":
            await self.stop()
            self.clock.stop()
            return
        self.clock.stop()
        self.net.stop_listening()
        await self.control.stop()
        for connection in list(self.net.connections.values()):
            connection.abort()
        await asyncio.sleep(0)
        await self.disk.stop()


async def run(
    config: Config,
    place: Path | MemoryFiles,
    ready: Callable[[list[str], Callable[[], None]], None],
) -> None:
    """Serve one life after the other. At the beginning of each, `ready` is called with the URLs at
    which clients reach the broker and with a function that ends it for good, which must be called
    in this event loop."""
    log = KeptLog()
    ahead_ns = 0
    while True:
        host = StagedHost(config, place, log, ahead_ns)
        await host.start()
        ready(host.urls, host.stopped.set)
        await host.stopped.wait()
        await host.close()
        if host.ending == "stop":
            return
        ahead_ns = host.clock.ahead_ns
        config = replace(config, net=replace(config.net, port=host.port))
