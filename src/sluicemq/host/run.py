"""`sluicemq serve` from inside: make the World, listen, run until a signal."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from typing import TYPE_CHECKING

from sluicemq.errors import Refused
from sluicemq.host.clock import HostClock, HostDice
from sluicemq.host.control import ControlServer
from sluicemq.host.disk import MemoryDisk
from sluicemq.host.log import HostLog
from sluicemq.host.memory import HostMemory, tune_allocator
from sluicemq.host.net import Connection, HostNet
from sluicemq.kernel.world import World
from sluicemq.limits import TURNS_PER_POLL
from sluicemq.node import Node

if TYPE_CHECKING:
    from sluicemq.config import Config

SHUTDOWN_SECONDS = 2.0
"""How long clients may take to answer connection.close when the broker goes."""


class Host:
    """One node on this machine, in the running event loop."""

    def __init__(self, config: Config) -> None:
        self.loop = asyncio.get_running_loop()
        self.config = config
        self.net = HostNet(self.loop)
        world = World(
            HostClock(self.loop), HostDice(), MemoryDisk(), self.net, HostMemory(), HostLog()
        )
        self.node = Node(world, config)
        self.net.node = self.node
        self.node.scheduler.wake = self.wake  # type: ignore[method-assign]
        self.server: asyncio.Server
        self.control: ControlServer
        self.port = 0
        self.wake()

    def wake(self) -> None:
        """Run the actors soon: after the sockets that are ready now have been read."""
        self.loop.call_soon(self.run)

    def run(self) -> None:
        """A bounded number of turns; then the sockets get their chance."""
        if self.node.run(TURNS_PER_POLL):
            self.loop.call_soon(self.run)

    async def start(self) -> None:
        """Listen for clients and for `sluicemq ctl`."""
        net = self.config.net
        try:
            self.server = await self.loop.create_server(
                lambda: Connection(self.net), net.host, net.port, backlog=net.backlog
            )
        except OSError as error:
            raise Refused(f"cannot listen on {net.host}:{net.port}: {error.strerror}") from error
        self.port = self.server.sockets[0].getsockname()[1]
        self.control = ControlServer(self.node, self.port)
        await self.control.start()

    async def stop(self) -> None:
        """No new clients; word to those there are; then close whoever is left."""
        self.server.close()
        await self.control.stop()
        self.node.shut_down()
        deadline = self.loop.time() + SHUTDOWN_SECONDS
        while self.net.connections and self.loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.net.connections.values()):
            connection.transport.abort()
        await asyncio.sleep(0)


async def run_until_signal(config: Config) -> None:
    """Serve until SIGTERM or SIGINT."""
    host = Host(config)
    await host.start()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        host.loop.add_signal_handler(number, stopped.set)
    print(f"ready amqp://{config.net.host}:{host.port}", flush=True)
    await stopped.wait()
    await host.stop()


def serve(config: Config) -> int:
    """The process's exit code: 0 after a signal."""
    tune_allocator()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run_until_signal(config))
    sys.stdout.flush()
    return 0


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """uvloop's loop when it is installed, asyncio's own otherwise."""
    try:
        import uvloop  # noqa: PLC0415 (optional)
    except ImportError:
        return None
    factory: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return factory
