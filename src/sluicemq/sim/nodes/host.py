"""One machine of a cluster: its disk and its clock, which outlive the node, and the node's process,
which ends and restarts.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.cluster.bounds import LinkBounds
from sluicemq.cluster.cluster import NodeCluster
from sluicemq.cluster.cluster_port import STOPS
from sluicemq.cluster.membership import ClusterMembership
from sluicemq.errors import DiskFailed, Refused
from sluicemq.kernel.world import Log, World
from sluicemq.node import Node
from sluicemq.sim.cluster.net import PipeNet
from sluicemq.sim.disk import Crashed, SimDisk, SimFiles, stop_at
from sluicemq.sim.durable_image import DurableImage
from sluicemq.sim.net import AMQP_PORT, SimNet
from sluicemq.sim.nodes.net import NodeNet
from sluicemq.sim.nodes.plan import PORT
from sluicemq.sim.records import promise
from sluicemq.sim.units import MS
from sluicemq.sim.world import Cpu, SimClock, SimDice, SimMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.config import Config
    from sluicemq.kernel.actor import Actor
    from sluicemq.sim.cluster.net import PipeNetwork
    from sluicemq.sim.nodes.plan import NodesPlan
    from sluicemq.sim.timeline import Timeline

SECRET: Final = b"a secret of some length"
NOTES_MAX: Final = 60
"""Kept lines of its log."""
BOUNDS: Final = LinkBounds(
    gate_shut_bytes=60_000, gate_open_bytes=15_000, queue_bytes=1_200_000, write_bytes=20_000
)
WRITERS: Final = (ClusterMembership, NodeCluster)
"""Actors that end, and their node with them, when a write fails."""
RECOVERY_CRASH_MAX: Final = 60
"""A crash during the start comes after at most this many primitives."""


class MachineClock(SimClock):
    """A clock whose time of day may be wrong by `offset_ms`."""

    offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms


class MachineCpu(Cpu):
    """A processor that can freeze the node's process for a while without its knowing."""

    is_frozen = False

    def thaw(self) -> None:
        """Let the frozen process go on."""
        self.is_frozen = False
        self.wake()

    def _run(self, node: object) -> None:
        if not self.is_frozen:
            super()._run(node)


class MachineLog(Log):
    """The log of a node; its last lines are kept in the notes of the run."""

    def __init__(self, host: NodeHost) -> None:
        self.host = host
        self.errors: list[str] = []

    def write(self, level: str, text: str) -> None:
        host = self.host
        host.notes.append((host.timeline.now_ns, f"{host.name} says: {text}"))
        if level == "error":
            self.errors.append(text)


class NodeHost:
    """A machine of the run, whose node has that number in the cluster: the machine's own, unless
    `machine` gives another one. `faulted` is called with each unexpected exception in a turn of its
    node."""

    def __init__(
        self,
        number: int,
        plan: NodesPlan,
        timeline: Timeline,
        network: PipeNetwork,
        faulted: Callable[[Exception], None],
        machine: int = 0,
    ) -> None:
        self.number = number
        self.machine = machine or number
        self.plan = plan
        self.name = f"h{self.machine}"
        self.timeline = timeline
        self.network = network
        self.faulted = faulted
        seed = f"{self.name} {plan.seed}"
        self.random = Random(f"host {seed}")
        self.notes: deque[tuple[int, str]] = deque(maxlen=NOTES_MAX)
        self.clients = SimNet(timeline, Random(f"clients {seed}"), plan, host=self.name)
        self.disk = SimDisk(timeline, Random(f"disk {seed}"), SimFiles(), plan.sync_ns_max)
        self.clock = MachineClock(timeline)
        self.cpu = MachineCpu(timeline, Random(f"cpu {seed}"), plan, self.name)
        self.log = MachineLog(self)
        self.dice = SimDice(Random(f"node {seed}"))
        self.image = DurableImage(self.disk.files)
        """The durable content of its disk in this life."""
        self.syncs_seen = 0
        self.is_running = False
        self.is_stopping = False
        self.is_removed = False
        """The cluster has removed its node, and the node knows it."""
        self.lives = 0
        """The number of successful starts."""
        self.failed_starts = 0
        self.lost_files: SimFiles | None = None
        """The data directory that it lost; None when it has lost none."""
        self.node: Node
        self.links: PipeNet
        self.on_begin: Callable[[NodeHost], None]
        """Called when a node has been made, before it does anything."""
        self.on_open: Callable[[NodeHost], None]
        """Called when the node lets clients connect."""
        self.on_hang_up: Callable[[NodeHost], None]
        """Called before the node closes all connections of clients, because it stops."""
        self.on_end: Callable[[NodeHost], None]
        """Called when its process has ended."""

    @property
    def is_frozen(self) -> bool:
        return self.cpu.is_frozen

    @property
    def moves(self) -> bool:
        """Tell whether its process is running and gets turns."""
        return self.is_running and not self.cpu.is_frozen

    @property
    def is_open(self) -> bool:
        """Tell whether clients can connect to the node."""
        return (self.name, AMQP_PORT) in self.clients.network.listeners

    @property
    def is_member(self) -> bool:
        """Tell whether its process is running and knows its cluster."""
        return self.is_running and self.membership.is_member

    @property
    def membership(self) -> ClusterMembership:
        """Return its node's part in the cluster."""
        membership = self.node.membership
        assert membership is not None
        return membership

    def note(self, text: str) -> None:
        """Add a line to the notes of the run."""
        self.notes.append((self.timeline.now_ns, f"{self.name} {text}"))

    def config(self) -> Config:
        """Return the configuration of its node."""
        return self.plan.config(self.number)

    def look_at_disk(self) -> None:
        """Take into the image everything synced since the last time."""
        syncs = self.disk.files.counts.get("sync", 0)
        if syncs != self.syncs_seen:
            self.syncs_seen = syncs
            self.image.look()

    # -- its life

    def start(self, crashes: bool = False) -> bool:
        """Start its process, in its next life; with `crashes` it may crash during the start.
        Returns whether it runs."""
        assert not self.is_running
        self.links = PipeNet(self.network, self.name)
        net = NodeNet(self.clients, self.links)
        world = World(self.clock, self.dice, self.disk, net, SimMemory(1 << 40), self.log)
        files = self.disk.files
        if crashes:
            last = files.number + 1 + self.random.randrange(RECOVERY_CRASH_MAX)
            files.before = stop_at(last, self.random.random())
        self.log.errors.clear()
        try:
            node = Node(world, self.config(), secret=SECRET)
        except Refused as refused:
            promise("was removed from the cluster" in str(refused), refused)
            self.disk.crash(power=False)
            self.is_removed = True
            self.on_end(self)
            return False
        except (Crashed, DiskFailed) as failure:
            promise(not isinstance(failure, DiskFailed) or failure.is_full, failure)
            self.failed_starts += 1
            self.disk.crash(power=self.random.randrange(2) == 0)
            self.note(f"cannot start: {failure}")
            return False
        files.before = None
        promise(not self.log.errors, "a start finds fault:", *self.log.errors)
        self._begin(node)
        return True

    def _begin(self, node: Node) -> None:
        node.scheduler.witness = self._witness
        node.broken = self._broken
        node.removed = self._removed
        self.node = node
        before = self.image if self.image.files is self.disk.files else None
        self.image = DurableImage(self.disk.files, before)
        self.is_running, self.is_stopping = True, False
        self.cpu.is_frozen = False
        self.lives += 1
        membership = self.membership
        membership.cluster.bounds = BOUNDS
        self.on_begin(self)
        membership.cluster.listen(self.name, PORT)
        membership.start()
        node.when_open(self._open)
        self.cpu.attach(node)

    def _open(self) -> None:
        """Let clients connect, because the node has all definitions of its cluster."""
        self.clients.listen(self.node, self.name, AMQP_PORT)
        self.node.listens()
        self.on_open(self)

    def _witness(self, actor: Actor, error: Exception) -> None:
        """Note a fault. A node that cannot store its membership ends by one."""
        is_meant = isinstance(error, DiskFailed) and isinstance(actor, WRITERS)
        if not is_meant:
            self.faulted(error)

    def _broken(self) -> None:
        """End the node's process at once, as if killed."""
        self.timeline.after(0, self.name, "exits", self._exit, self.lives)

    def _removed(self, sentence: str) -> None:
        """End the node, because the cluster has removed it."""
        self.note(f"hears: {sentence}")
        self.is_removed = True
        self._broken()

    def _exit(self, life: object) -> None:
        if self.is_running and life == self.lives:
            self.crash(power=False)

    def crash(self, power: bool) -> None:
        """Kill its process, perhaps with a power loss of the machine."""
        self.is_running = self.is_stopping = self.cpu.is_frozen = False
        self.cpu.detach()
        self.links.crash()
        self.clients.crash()
        self.disk.crash(power)
        self.on_end(self)

    def stop(self) -> None:
        """Stop the node in order, as its host does."""
        self.is_stopping = True
        self.node.hand_over()
        self._wait_for_heirs((self.lives, self.timeline.now_ns + 1000 * MS))

    def _wait_for_heirs(self, asked: tuple[int, int]) -> None:
        life, deadline_ns = asked
        if not self.is_running or life != self.lives:
            return
        is_frozen, is_late = self.cpu.is_frozen, self.timeline.now_ns > deadline_ns
        if is_frozen or (self.node.has_heirs and not is_late):
            self.timeline.after(5 * MS, self.name, "hands over", self._wait_for_heirs, asked)
        else:
            self.on_hang_up(self)
            self.node.shut_down()
            self._wait_for_stop((self.lives, self.timeline.now_ns + 2000 * MS))

    def _wait_for_stop(self, asked: tuple[int, int]) -> None:
        life, deadline_ns = asked
        if not self.is_running or life != self.lives:
            return
        node = self.node
        if not self.cpu.is_frozen:
            if self.timeline.now_ns > deadline_ns:
                self.clients.abort()
            is_late = self.timeline.now_ns > deadline_ns + 2000 * MS
            is_ready = not self.clients.sockets and (node.is_agreed or is_late)
            if is_ready and not node.broker.store.checkpoints.closing:
                self.membership.cluster.leave(STOPS)
                node.close_storage()
            if node.storage_closed:
                self.crash(power=self.random.randrange(2) == 0)
                return
        self.timeline.after(5 * MS, self.name, "stops", self._wait_for_stop, asked)

    def freeze(self) -> None:
        """Stop the process from running, without its knowing."""
        self.cpu.is_frozen = True

    def thaw(self) -> None:
        """Let the frozen process run again."""
        self.cpu.thaw()

    def lose_files(self) -> None:
        """Replace its data directory by an empty one."""
        assert not self.is_running
        self.lost_files, self.disk.files = self.disk.files, SimFiles()

    def find_files(self) -> None:
        """Give it back the lost data directory."""
        assert not self.is_running
        assert self.lost_files is not None
        self.disk.files, self.lost_files = self.lost_files, None
