"""A machine whose node joins an existing cluster: first it asks to join, then it is a node like the
others.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from sluicemq.cluster.joining import ClusterJoining
from sluicemq.cluster.node_file import kept_record
from sluicemq.cluster_config import ClusterConfig, listed_node
from sluicemq.kernel.actor import Scheduler
from sluicemq.kernel.world import World
from sluicemq.sim.cluster.net import PipeNet
from sluicemq.sim.nodes.host import SECRET, NodeHost
from sluicemq.sim.nodes.net import NodeNet
from sluicemq.sim.nodes.plan import PORT
from sluicemq.sim.units import MS
from sluicemq.sim.world import SimDice, SimMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.config import Config
    from sluicemq.kernel.actor import Actor
    from sluicemq.sim.cluster.net import PipeNetwork
    from sluicemq.sim.nodes.plan import NodesPlan
    from sluicemq.sim.timeline import Timeline

AGAIN_NS = 200 * MS
"""A refused node is started again after that time."""


class JoiningProgram:
    """The process of a node that asks to join."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()

    def run(self, turns_max: int) -> bool:
        """Run at most `turns_max` turns. Returns whether there is more to do now."""
        return self.scheduler.run(turns_max)


class Newcomer(NodeHost):
    """A machine whose node asks the founders to join. Its number is 0 until it has joined. When it
    has lost its files it asks again, and gets another one after its old node was removed."""

    def __init__(
        self,
        machine: int,
        plan: NodesPlan,
        timeline: Timeline,
        network: PipeNetwork,
        faulted: Callable[[Exception], None],
    ) -> None:
        super().__init__(0, plan, timeline, network, faulted, machine)
        made_ns = timeline.now_ns  # a machine may have several, and no two the same directory
        self.dice = SimDice(Random(f"newcomer {machine} of {made_ns} {plan.seed}"))
        self.is_asking = False
        """True while its process asks to join, before it is a broker."""
        self.asked = 0
        """How often it has begun to ask."""

    def config(self) -> Config:
        return replace(self.plan.config(1), cluster=self.cluster_config())

    def cluster_config(self) -> ClusterConfig:
        """Return what is configured about its cluster."""
        return ClusterConfig(
            name=f"n{self.machine}",
            host=self.name,
            port=PORT,
            join=tuple(f"h{each}:{PORT}" for each in range(1, self.plan.nodes + 1)),
            secret_file="none",
        )

    def start(self, crashes: bool = False) -> bool:
        if self.is_asking:
            return True
        record = kept_record(self.disk.files)
        if record is None:
            self._ask()
            return True
        self.number = record.node
        return super().start(crashes)

    def _ask(self) -> None:
        """Begin to ask the founders, one after the other."""
        self.is_asking = True
        self.asked += 1
        self.links = PipeNet(self.network, self.name)
        net = NodeNet(self.clients, self.links)
        world = World(self.clock, self.dice, self.disk, net, SimMemory(1 << 40), self.log)
        config = self.cluster_config()
        program = JoiningProgram()
        program.scheduler.witness = program.scheduler.broke = self._fails
        addresses = [listed_node(each) for each in config.join]
        joining = ClusterJoining(
            program.scheduler, world, config, SECRET, addresses, self._joined, self._refused
        )
        joining.start()
        self.cpu.is_frozen = False
        self.cpu.attach(program)

    def _fails(self, _: Actor, error: Exception) -> None:
        self.faulted(error)

    def _joined(self, _: str) -> None:
        """Go on as a broker in the same process, now that the membership is durable. If it was a
        member before, and was removed, nobody brings back what it had then."""
        self.note("is let in")
        self.lost_files = None
        self.timeline.after(1, self.name, "is a broker", self._go_on, self.asked)

    def _go_on(self, asked: object) -> None:
        if self.is_asking and asked == self.asked:
            self._end_asking()
            self.start()

    def _refused(self, sentence: str) -> None:
        self.note(f"is not let in: {sentence}")
        self.timeline.after(1, self.name, "ends", self._give_up, self.asked)

    def _give_up(self, asked: object) -> None:
        if self.is_asking and asked == self.asked:
            self.crash_asking(power=False)
            self.timeline.after(AGAIN_NS, self.name, "asks again", self._ask_again, asked)

    def _ask_again(self, asked: object) -> None:
        if not (self.is_asking or self.is_running) and asked == self.asked:
            self.start()

    def crash_asking(self, power: bool) -> None:
        """Kill its process while it asks."""
        self._end_asking()
        self.disk.crash(power)

    def find_files(self) -> None:
        if self.is_asking:
            self.crash_asking(power=False)
        super().find_files()

    def _end_asking(self) -> None:
        self.is_asking = False
        self.cpu.detach()
        self.links.crash()
