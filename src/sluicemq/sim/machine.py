"""One simulated machine: a World of its own, and the node that is running on it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.kernel.world import World
from sluicemq.node import Node
from sluicemq.sim.disk import SimDisk, SimFiles
from sluicemq.sim.machine_tap import WatchedQueue
from sluicemq.sim.net import AMQP_PORT, SimNet
from sluicemq.sim.records import promise
from sluicemq.sim.world import Cpu, SimClock, SimDice, SimLog, SimMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.config import Config
    from sluicemq.sim.net import Network
    from sluicemq.sim.swarm import Swarm
    from sluicemq.sim.timeline import Timeline

MEMORY_BYTES: Final = 1 << 40


class Machine:
    """Disk, sockets, memory and processor of a machine, which outlive its nodes. All machines of a
    run share its timeline and, if they are connected, a network, in which `host` is this machine's
    name. The event log calls it `name`. Each part of each machine has its own random numbers, from
    the swarm's seed."""

    def __init__(
        self,
        timeline: Timeline,
        swarm: Swarm,
        host: str = "sim",
        network: Network | None = None,
        name: str = "node",
    ) -> None:
        seed = f"{swarm.seed}" if name == "node" else f"{name} {swarm.seed}"
        self.host = host
        self.net = SimNet(timeline, Random(f"net {seed}"), swarm, network, host)
        self.disk = SimDisk(timeline, Random(f"disk {seed}"), SimFiles(), swarm.sync_ns_max)
        self.memory = SimMemory(MEMORY_BYTES)
        self.cpu = Cpu(timeline, Random(f"cpu {seed}"), swarm, name)
        self.log = SimLog()
        clock, dice = SimClock(timeline), SimDice(Random(f"node {seed}"))
        self.world = World(clock, dice, self.disk, self.net, self.memory, self.log)
        self.node: Node
        """The node that was started last."""

    def start(self, config: Config, prepare: Callable[[Node], None]) -> None:
        """Start a node on the files on the disk; `prepare` gets it before it does anything. Raises
        what the start raises; a start that succeeds must log no error, because nothing on the disk
        is damaged."""
        self.log.errors.clear()
        node = Node(self.world, config, classic_queue=WatchedQueue)
        promise(not self.log.errors, "a start finds fault:", *self.log.errors)
        prepare(node)
        self.node = node
        self.net.listen(node, self.host, AMQP_PORT)
        self.cpu.attach(node)

    def crash(self, power: bool) -> None:
        """End the node; with a loss of power unsynced data is lost."""
        self.cpu.detach()
        self.net.crash()
        self.disk.crash(power)
