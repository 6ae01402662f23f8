"""One run: the node on its simulated World, the loop, the checkers, the verdict.

safety     clients and faults, for so many events; every promise is checked after every event
liveness   the faults are over: everything must drain within a bounded virtual time
leaving    all clients close; the broker must have forgotten them
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from random import Random
from typing import Final

from sluicemq.flow.credit import LinkSpec
from sluicemq.kernel.world import World
from sluicemq.node import Node
from sluicemq.sim.checkers import Checkers
from sluicemq.sim.history import promise
from sluicemq.sim.model import SyncedWrites
from sluicemq.sim.net import SimNet
from sluicemq.sim.report import Report, ShortLog
from sluicemq.sim.swarm import Swarm, swarm_of
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.workload import Workload
from sluicemq.sim.world import MS, Cpu, SimClock, SimDice, SimDisk, SimMemory

STEPS: Final = 4000
"""Events of the safety phase."""

DRAIN_NS: Final = 20_000 * MS
"""Virtual time in which everything must have drained, and again everyone have left."""

IDLE_EVERY: Final = 64

EVENTS_MAX: Final = 200_000
"""A run that is not over by then goes in circles."""

MEMORY_BYTES: Final = 1 << 40


def simulate(
    seed: int,
    steps: int = STEPS,
    profile: str | None = None,
    log: ShortLog | None = None,
) -> Report:
    """Run a seed to its verdict."""
    return Simulation(swarm_of(seed, profile), steps, log).run()


class Simulation:
    """One seed."""

    def __init__(self, swarm: Swarm, steps: int = STEPS, log: ShortLog | None = None) -> None:
        self.swarm = swarm
        self.steps = steps
        self.log = log
        seed = swarm.seed
        self.timeline = Timeline()
        self.net = SimNet(self.timeline, Random(f"net {seed}"), swarm)
        self.disk = SimDisk(self.timeline, Random(f"disk {seed}"), swarm)
        self.memory = SimMemory(MEMORY_BYTES)
        self.cpu = Cpu(self.timeline, Random(f"cpu {seed}"), swarm)
        dice = SimDice(Random(f"node {seed}"))
        world = World(SimClock(self.timeline), dice, self.disk, self.net, self.memory)
        self.node = Node(world, swarm.config())
        self._shrink()
        self.net.node = self.node
        synced = SyncedWrites(self.node.broker.store)
        self.disk.sync_begins = synced.sync_begins
        self.disk.sync_ends = synced.sync_ends
        self.cpu.attach(self.node)
        self.work = Workload(swarm, self.timeline, self.net, self.disk, self.memory, self.cpu)
        self.checkers = Checkers(
            self.node, self.work.book, synced, swarm.body_bytes_max, self.work.publishes
        )
        self.phase = "safety"

    def _shrink(self) -> None:
        """Bounds of the chain that nobody sets, small enough to be met."""
        broker = self.node.broker
        swarm = self.swarm
        self.node.scheduler.turn_max = swarm.turn_messages
        broker.delivery_window = LinkSpec(*swarm.delivery_window)
        broker.held_methods_max = swarm.held_methods_max
        broker.writer_backlog_bytes = swarm.writer_backlog_bytes
        broker.store.group_bytes_max = swarm.store_group_bytes

    def run(self) -> Report:
        """To the end, or to the first broken promise."""
        failure = trace = ""
        try:
            while self.timeline.happened < self.steps and not self.is_idle():
                self.step()
            self.phase = "liveness"
            self.work.heal()
            self.until_nothing(self.undrained)
            self.checkers.all_is_still()
            self.phase = "leaving"
            self.work.leave()
            self.until_nothing(self.staying)
            self.checkers.everyone_has_left()
            self.work.book.all_is_well()
        except Exception as error:  # whatever is raised in there is a finding
            failure = f"{type(error).__name__}: {error}"
            trace = traceback.format_exc()
        return Report(self, failure, trace)

    def step(self) -> None:
        """One event, then the checks; only runs of the node change what they look at."""
        self.timeline.step()
        if self.timeline.last[1] == "node":
            self.checkers.check()
        if self.log is not None:
            self.log.write(self)

    def until_nothing(self, hinders: Callable[[], str]) -> None:
        """Go on until nothing hinders any more, within bounds."""
        deadline_ns = self.timeline.now_ns + DRAIN_NS
        while hindrance := hinders():
            late = self.timeline.now_ns > deadline_ns or self.timeline.happened > EVENTS_MAX
            promise(not late, "not in time:", hindrance)
            self.step()

    def is_idle(self) -> bool:
        """Nothing is published any more, so little will happen; it is not asked at every event."""
        timeline = self.timeline
        return timeline.happened % IDLE_EVERY == 0 and self.work.is_over() and not self.undrained()

    def undrained(self) -> str:
        """What is not over yet; "" when publishers have closed, queues are empty, and nothing is on
        its way anywhere."""
        broker = self.node.broker
        if self.node.scheduler.ready or broker.store.sync_runs or broker.alarms.reasons:
            return "the node is busy, or there is an alarm"
        for queue in broker.queues.values():
            depth = queue.machine.depth
            if depth.footprint:
                return f"{queue.name} has {depth.ready} ready and {depth.unacked} unacked"
        for socket in self.net.sockets.values():
            if socket.outbound or socket.inbound or socket.reader.writer.pending:
                return f"bytes are on their way to or from {socket.client.name}"
        return self.work.undone()

    def staying(self) -> str:
        """Who has not left yet."""
        names = [socket.client.name for socket in self.net.sockets.values()]
        if names:
            return f"{names[0]} has not left"
        return "the node is busy" if self.node.scheduler.ready else ""
