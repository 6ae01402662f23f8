"""One simulated machine: a World of its own, and the node that runs on it now."""

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
    """Disk, sockets, memory and processor; they outlive the nodes. All machines of a run share its
    timeline and, if they are to reach each other, a network, in which `host` is the name of this
    one. `name` is what the log of events calls it. Chance comes from the swarm's seed, for each
    part and machine its own."""

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
        """The one that was started last."""

    def start(self, config: Config, prepare: Callable[[Node], None]) -> None:
        """Start a node on what is on the disk; `prepare` gets it before it does anything. Raises
        what a start raises; an error in the log of one that succeeds is a broken promise, for
        nothing on the disk is damaged, whatever has happened."""
        self.log.errors.clear()
        node = Node(self.world, config, classic_queue=WatchedQueue)
        promise(not self.log.errors, "a start finds fault:", *self.log.errors)
        prepare(node)
        self.node = node
        self.net.listen(node, self.host, AMQP_PORT)
        self.cpu.attach(node)

    def crash(self, power: bool) -> None:
        """There is no node any more; with a loss of power what was not synced is lost."""
        self.cpu.detach()
        self.net.crash()
        self.disk.crash(power)
