"""A process that is one node with nothing but its links:

    python -m cluster.linked_node DIRECTORY NUMBER HOST HOST HOST SECRET

Its talker (sim/cluster/talker.py) sends to the others and checks what comes. The file `status` in
DIRECTORY says every so often how it stands, `log` has its log. A fault, or a promise that is
broken, ends it with exit code 1; SIGTERM in order.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from random import Random

from sluicemq.cluster.cluster import NodeCluster
from sluicemq.cluster.members import Member
from sluicemq.cluster.node_file import begin_life
from sluicemq.config import NetConfig
from sluicemq.host.clock import HostClock, HostDice
from sluicemq.host.disk import HostDisk
from sluicemq.host.files import HostFiles
from sluicemq.host.loop import BrokerLoop
from sluicemq.host.memory import HostMemory
from sluicemq.host.net import HostNet
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.containment import traceback_text
from sluicemq.kernel.world import Log, World
from sluicemq.sim.cluster.talker import Talker

PORT = 25_672
TALK_S = 0.01
STATUS_S = 0.05
TURNS = 50


class FileLog(Log):
    """Lines in a file."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", encoding="utf-8")

    def write(self, level: str, text: str) -> None:
        print(level, text, file=self.file, flush=True)


class LinkedNode:
    """The node, in the running event loop."""

    def __init__(self, directory: Path, number: int, hosts: list[str], secret: bytes) -> None:
        self.loop = asyncio.get_running_loop()
        self.directory = directory
        self.ended = asyncio.Event()
        self.exit_code = 0
        self.log = FileLog(directory / "log")
        self.net = HostNet(self.loop, NetConfig(), self.log, 1000)
        data = directory / "data"
        data.mkdir(exist_ok=True)
        self.disk = HostDisk(self.loop, HostFiles(data, 10), 1, self.disk_failed)
        world = World(HostClock(self.loop), HostDice(), self.disk, self.net, HostMemory(), self.log)
        self.book = begin_life(world, "real", f"n{number}", number)
        self.scheduler = Scheduler()
        self.scheduler.wake = self.wake
        self.scheduler.witness = self.witness
        members = [
            Member(each, host, PORT) for each, host in enumerate(hosts, start=1) if each != number
        ]
        self.book.recall(members)
        card = self.book.card
        self.cluster = NodeCluster(self.scheduler, world, card, secret, members, self.book)
        self.talker = Talker(self.cluster, Random(number), {}, is_rude=False)
        self.cluster.listen(hosts[number - 1], PORT)
        self.cluster.start_links()

    def wake(self) -> None:
        self.loop.call_soon(self.run)

    def run(self) -> None:
        more = self.scheduler.run(TURNS)
        self.disk.post_done()
        if more:
            self.wake()

    def witness(self, _: Actor, error: Exception) -> None:
        self.log.write("error", traceback_text(error))
        self.exit_code = 1
        self.ended.set()

    def disk_failed(self, error: BaseException) -> None:
        self.log.write("error", traceback_text(error))
        self.exit_code = 1
        self.ended.set()

    def write_status(self) -> None:
        """Say how it stands."""
        cluster = self.cluster
        status = {
            "incarnation": cluster.incarnation,
            "standing": {str(node): cluster.standing(node).value for node in cluster.peers},
            "incarnations": {str(node): cluster.incarnation_of(node) for node in cluster.peers},
            "contacts": all(cluster.contact_ns(node) for node in cluster.peers),
            "strangers": cluster.strangers.count,
            **self.talker.figures,
        }
        new = self.directory / "status.new"
        new.write_text(json.dumps(status))
        new.rename(self.directory / "status")

    async def live(self) -> int:
        """Talk until it is told to end."""
        self.loop.add_signal_handler(signal.SIGTERM, self.ended.set)
        status_at = 0.0
        while not self.ended.is_set():
            self.talker.talk()
            if self.loop.time() >= status_at:
                status_at = self.loop.time() + STATUS_S
                self.write_status()
            await asyncio.sleep(TALK_S)
        self.cluster.leave("this node stops")
        while not self.cluster.is_left and not self.exit_code:
            await asyncio.sleep(TALK_S)
        self.net.stop_listening()
        await self.disk.stop()
        return self.exit_code


async def main(directory: str, number: str, *rest: str) -> int:
    """Be a node."""
    *hosts, secret = rest
    node = LinkedNode(Path(directory), int(number), hosts, secret.encode())
    return await node.live()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        sys.exit(runner.run(main(*sys.argv[1:])))
