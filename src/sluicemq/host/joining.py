"""A node that is to join a cluster, until it is a member: it serves no clients yet, but answers
`sluicemq ctl`, which may name the node to ask.
"""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sluicemq.cluster.joining import ClusterJoining, demand_new
from sluicemq.cluster.node_file import kept_record
from sluicemq.cluster_config import listed_node
from sluicemq.errors import Refused
from sluicemq.host.clock import HostClock, HostDice
from sluicemq.host.cluster_secret import read_secret
from sluicemq.host.control import ControlServer
from sluicemq.host.descriptors import limit, shares
from sluicemq.host.disk import HostDisk
from sluicemq.host.files import HostFiles
from sluicemq.host.log import HostLog
from sluicemq.host.memory import HostMemory
from sluicemq.host.net import HostNet
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.containment import traceback_text
from sluicemq.kernel.world import World
from sluicemq.manage.command import DATA, UNAVAILABLE
from sluicemq.manage.commands import COMMANDS
from sluicemq.manage.task import CommandAnswer
from sluicemq.node import is_used

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sluicemq.cluster_config import ListedNode
    from sluicemq.config import Config
    from sluicemq.manage.task import Reply

TURNS: Final = 1000

WAITS: Final = "this node waits to join a cluster"


class JoiningCommand(Actor):
    """A command of `sluicemq ctl` for a node that has not joined yet."""

    def __init__(self, host: JoiningHost, reply: Reply) -> None:
        super().__init__(host.scheduler)
        self.reply: Reply | None = reply

    def abandon(self) -> None:
        """Drop the answer, because the client has hung up."""
        self.reply = None

    def receive(self, message: object) -> None:
        """Pass the answer on to the client."""
        assert isinstance(message, CommandAnswer), f"a command got {message!r}"
        reply, self.reply = self.reply, None
        if reply is not None:
            reply(message)


class JoiningHost:
    """A node that joins a cluster, in the running event loop, over a directory that it holds."""

    def __init__(self, config: Config, directory: Path) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.log = HostLog(config.log)
        self.secret = read_secret(config.cluster)
        self.ended = asyncio.Event()
        """Set when the node is a member, or it is time to end."""
        self.is_told_to_end = False
        self.refusal = ""
        """Why the node cannot join; "": it was not refused."""
        self.asker: JoiningCommand | None = None
        """The command that has named the node to ask; None: there was none."""
        storage = config.storage
        room = shares(limit(), storage.file_handles_max, config.net.backlog)
        self.net = HostNet(self.loop, config.net, self.log, room.sockets)
        files = HostFiles(directory, room.handles, partial(self.log.write, "warning"))
        self.disk = HostDisk(self.loop, files, storage.io_threads, self.crashed)
        self.world = World(
            HostClock(self.loop), HostDice(), self.disk, self.net, HostMemory(), self.log
        )
        self.scheduler = Scheduler()
        self.scheduler.wake = self.wake
        self.scheduler.broke = self.broke
        self.control = ControlServer(self.begin, config.net.port)
        self.joining: ClusterJoining | None = None

    def wake(self) -> None:
        """Run the actors soon, when the loop has looked at its sockets."""
        self.loop.call_soon(self.run)

    def run(self) -> None:
        """Run actors for a bounded time."""
        more = self.scheduler.run(TURNS)
        self.disk.post_done()
        if more:
            self.wake()
        self.net.next_round()

    def crashed(self, error: BaseException) -> None:
        """End, because a job of the disk has crashed."""
        self.refused(f"a disk job failed unexpectedly: {traceback_text(error)}")

    def broke(self, actor: Actor, error: Exception) -> None:
        """End, because a fault cannot be contained."""
        self.refused(f"a fault in {type(actor).__name__.lower()}: {traceback_text(error)}")

    def ask(self, addresses: Sequence[ListedNode], *, waits: bool) -> None:
        """Ask the nodes at these addresses to join; with `waits`, ask until one answers."""
        self.joining = ClusterJoining(
            self.scheduler,
            self.world,
            self.config.cluster,
            self.secret,
            addresses,
            self.joined,
            self.refused,
            waits=waits,
        )
        self.joining.start()

    def joined(self, sentence: str) -> None:
        """Log and answer that the node is a member, and end."""
        self.log.write("info", "this node is a member of the cluster")
        if sentence:
            self.log.write("warning", sentence)
        if self.asker is not None:
            self.asker.post(CommandAnswer([{"note": sentence}] if sentence else []))
        self.loop.call_later(0.1 if self.asker is not None else 0, self.ended.set)

    def refused(self, sentence: str) -> None:
        """Handle a refusal: it goes to the command that named the node to ask, or ends the
        process."""
        self.joining = None
        if self.asker is not None:
            self.asker.post(CommandAnswer((), sentence, UNAVAILABLE))
            self.asker = None
            return
        self.refusal = sentence
        self.ended.set()

    def stop(self) -> None:
        """End, because of a signal or `sluicemq ctl stop`."""
        self.is_told_to_end = True
        self.ended.set()

    # -- commands

    def begin(self, command: str, arguments: Mapping[str, Any], reply: Reply) -> JoiningCommand:
        """Begin a command; `reply` is called with its answer."""
        task = JoiningCommand(self, reply)
        answer = self.answer(command, arguments, task)
        if answer is not None:
            task.post(answer)
        return task

    def answer(
        self, command: str, arguments: Mapping[str, Any], task: JoiningCommand
    ) -> CommandAnswer | None:
        """Return the answer to a command; None when it comes later."""
        if command == "join_cluster":
            return self.told_to_join(arguments, task)
        if command == "stop":
            self.loop.call_later(0.1, self.stop)
            return CommandAnswer()
        if command == "ping":
            return CommandAnswer()
        if command == "cluster_status":
            cluster = self.config.cluster
            row = {"node": cluster.own_name, "running": True, "state": "joining", "voter": False}
            nothing = dict.fromkeys(COMMANDS["cluster_status"].columns or ())
            return CommandAnswer([{**nothing, **row, "address": cluster.own.address}])
        text = f"{WAITS}: cluster.join or `sluicemq ctl join_cluster` says whom it asks"
        return CommandAnswer((), text, UNAVAILABLE)

    def told_to_join(
        self, arguments: Mapping[str, Any], task: JoiningCommand
    ) -> CommandAnswer | None:
        """Ask the node that a command names."""
        if self.joining is not None:
            return CommandAnswer((), "this node asks to join a cluster already", UNAVAILABLE)
        try:
            place = listed_node(str(arguments.get("address", "")), "join_cluster")
        except Refused as refused:
            return CommandAnswer((), str(refused), DATA)
        self.asker = task
        self.ask([place], waits=False)
        return None

    async def close(self) -> None:
        """Close sockets and files, for the broker to open them or the process to end."""
        await self.control.stop()
        self.net.stop_listening()
        for connection in list(self.net.connections.values()):
            connection.abort()
        await asyncio.sleep(0)
        await self.disk.stop()
        self.net.poller.leave()


async def join_cluster(config: Config, directory: Path) -> bool:
    """Have a new node join the cluster that it is configured or told to join; return at once if it
    is a member. Returns whether it was told to end before it joined. Raises Refused when it cannot
    join, Corrupt and DiskFailed for its data directory."""
    host = JoiningHost(config, directory)
    try:
        files = host.disk.files
        if kept_record(files) is not None:
            await host.disk.stop()
            host.net.poller.leave()
            return False
        demand_new(host.world, is_used(files))
        await host.control.start()
    except BaseException:
        await host.disk.stop()
        raise
    for number in (signal.SIGTERM, signal.SIGINT):
        host.loop.add_signal_handler(number, host.stop)
    if config.cluster.join:
        host.ask(config.cluster.asked, waits=True)
    else:
        host.log.write("info", f"{WAITS}: `sluicemq ctl join_cluster HOST:PORT` says whom it asks")
    await host.ended.wait()
    await host.close()
    if host.refusal:
        raise Refused(f"this node cannot join the cluster: {host.refusal}")
    return host.is_told_to_end
