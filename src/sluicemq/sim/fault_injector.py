"""The faults of a run: clients stall, disconnect and make errors; the processor is slow, memory is
full; the disk is slow, full, or fails; and the node ends, after which another starts.

The swarm says how often each kind of fault happens, until `FaultInjector.end`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from sluicemq.node import Node
from sluicemq.sim.consumer import SimConsumer
from sluicemq.sim.mistakes import Mistakes
from sluicemq.sim.publisher import SimPublisher
from sluicemq.sim.records import KILL, POWER, STOP
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.sim.disk import SimDisk
    from sluicemq.sim.peer import SimPeer
    from sluicemq.sim.workload import Workload
    from sluicemq.sim.world import Cpu, SimMemory


class FaultCounts:
    """How many faults of each kind have happened."""

    __slots__ = (
        "broken",
        "channel_errors",
        "disk_failures",
        "disk_full",
        "disk_stalls",
        "kills",
        "memory",
        "power_losses",
        "silent",
        "slow_cpu",
        "stalls",
        "stops",
    )

    def __init__(self) -> None:
        self.broken = 0
        self.channel_errors = 0
        self.disk_failures = 0
        self.disk_full = 0
        self.disk_stalls = 0
        self.kills = 0
        self.memory = 0
        self.power_losses = 0
        self.silent = 0
        self.slow_cpu = 0
        self.stalls = 0
        self.stops = 0


class FaultInjector:
    """Injects faults into the clients and the World of one run."""

    def __init__(
        self,
        work: Workload,
        disk: SimDisk,
        memory: SimMemory,
        cpu: Cpu,
        crash: Callable[[str], None],
        stop: Callable[[], None],
    ) -> None:
        self.work = work
        self.swarm = work.swarm
        self.timeline = work.timeline
        self.disk = disk
        self.memory = memory
        self.cpu = cpu
        self.crash_node = crash
        self.stop_node = stop
        self.random = Random(f"faults {work.swarm.seed}")
        self.mistakes = Mistakes(work, Random(f"mistaken {work.swarm.seed}"))
        self.faults = FaultCounts()
        self.over = False

    def plan(self) -> None:
        """Plan the next round of faults."""
        delay_ns = 1 + self.random.randrange(self.swarm.fault_interval_ns)
        self.timeline.after(delay_ns, "fate", "strikes", self.inject)

    def percent(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def inject(self, _: object) -> None:
        """Let each kind of fault of this run happen once, by chance."""
        if self.over:
            return
        self.plan()
        if not self.work.up:
            return
        victims = self.work.peers[1:]  # not the client that declared everything
        if self.percent(self.swarm.stall_percent) and victims:
            self.stall(self.random.choice(victims))
        if self.percent(self.swarm.break_percent) and victims:
            self.hurt(self.random.choice(victims))
        if self.percent(5):
            self.faults.disk_stalls += 1
            self.disk.stalled_until_ns = self.timeline.now_ns + self.random.randrange(2000 * MS)
        if self.percent(5):
            self.faults.slow_cpu += 1
            self.cpu.slow_until_ns = self.timeline.now_ns + self.random.randrange(200 * MS)
        if self.percent(5):
            self.fill_memory()
        if self.percent(self.swarm.disk_full_percent):
            self.fill_disk()
        if self.percent(self.swarm.disk_failure_percent):
            self.fail_disk()
        node = self.cpu.node
        if (
            isinstance(node, Node)
            and self.mistakes.random.randrange(100) < self.swarm.mistake_percent
        ):
            self.mistakes.plant(node)
        if self.percent(self.swarm.crash_percent):
            self.crash()

    # -- clients

    def stall(self, peer: SimPeer) -> None:
        """Stop a client from reading for a while, but not for so long that the node closes it."""
        socket = peer.socket
        if socket.stalled or socket.left:
            return
        self.faults.stalls += 1
        socket.stall()
        longest_ms = 1200 * self.swarm.heartbeat_s or 3000
        stall_ns = 1 + self.random.randrange(longest_ms * MS)
        self.timeline.after(stall_ns, peer.name, "reads again", lambda _: socket.unstall())

    def hurt(self, peer: SimPeer) -> None:
        """Break a connection, perhaps inside a frame, let it fall silent, close it, or make a
        client error."""
        if not peer.open or peer.leaving or peer.mistaken or peer.sent_away:
            return
        kind = self.random.randrange(6)
        if kind <= 1:
            self.faults.broken += 1
            there = len(peer.socket.inbound)
            peer.break_off(self.random.randrange(there + 1))
        elif kind == 2 and self.swarm.heartbeat_s:
            self.faults.silent += 1
            peer.fall_silent()
        elif kind == 3:
            peer.close()
        else:
            for role in peer.roles.values():
                if isinstance(role, SimPublisher | SimConsumer) and role.started and not role.over:
                    self.faults.channel_errors += 1
                    role.err()
                    return

    # -- the World

    def fill_memory(self) -> None:
        """Have the process use much memory for a while."""
        self.faults.memory += 1
        memory = self.memory
        memory.resident = memory.total

        def free(_: object) -> None:
            memory.resident = 0

        self.timeline.after(1 + self.random.randrange(500 * MS), "memory", "is freed", free)

    def fill_disk(self) -> None:
        """Leave almost no free disk space for a while."""
        self.faults.disk_full += 1
        files = self.disk.files
        files.capacity = files.used + self.random.choice((0, 10, 1000, 5000))

        def free(_: object) -> None:
            files.capacity = None

        self.timeline.after(1 + self.random.randrange(2000 * MS), "disk", "has space", free)

    def fail_disk(self) -> None:
        """Let a sync or a write fail soon; then restart the node, as an operator would."""
        if self.work.storage_may_fail:
            return
        self.work.storage_may_fail = True
        self.faults.disk_failures += 1
        files = self.disk.files
        if self.random.randrange(2):
            files.sync_failures = 1
        else:
            files.plan = {files.number + 1 + self.random.randrange(20): "EIO"}
        after_ns = 1 + self.random.randrange(1000 * MS)
        self.timeline.after(after_ns, "operator", "restarts", lambda _: self.mend())

    def mend(self) -> None:
        """Restart the node, unless it has been restarted meanwhile."""
        if self.work.storage_may_fail:
            self.crash()

    def crash(self) -> None:
        """Crash the node, and start another one after a while."""
        if not self.work.up:
            return
        kind = self.random.choice((KILL, POWER, STOP))
        if kind == STOP:
            self.faults.stops += 1
            self.stop_node()
            return
        if kind == KILL:
            self.faults.kills += 1
        else:
            self.faults.power_losses += 1
        self.crash_node(kind)

    # -- the end

    def end(self) -> None:
        """Stop injecting faults, and end those that last."""
        self.mend()
        self.over = self.mistakes.over = True
        self.disk.healed = True
        self.disk.stalled_until_ns = 0
        self.disk.files.capacity = None
        self.memory.resident = 0
        self.cpu.healed = True
