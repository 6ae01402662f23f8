"""One simulated node: its disk, which outlives it, and its process, which comes and goes."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.cluster.bounds import LinkBounds
from sluicemq.cluster.membership import ClusterMembership
from sluicemq.cluster_config import ClusterConfig
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.world import Log, World
from sluicemq.sim.cluster.net import PipeNet
from sluicemq.sim.cluster.promise import keeps
from sluicemq.sim.cluster.talker import Talker
from sluicemq.sim.disk import SimDisk, SimFiles
from sluicemq.sim.units import MS
from sluicemq.sim.world import SimClock, SimDice, SimMemory

if TYPE_CHECKING:
    from sluicemq.cluster.cluster import NodeCluster
    from sluicemq.cluster.cluster_port import FrameType
    from sluicemq.sim.cluster.net import PipeNetwork
    from sluicemq.sim.cluster.talker import Epoch
    from sluicemq.sim.timeline import Timeline

PORT: Final = 25_672
SECRET: Final = b"a secret of some length"
NOTES: Final = 100
TURNS: Final = 20
BOUNDS: Final = LinkBounds(
    gate_shut_bytes=60_000, gate_open_bytes=15_000, queue_bytes=1_200_000, write_bytes=20_000
)


class DataDirectory:
    """What a node has on its disk, and what must be there."""

    def __init__(self) -> None:
        self.files = SimFiles()
        self.home = b""
        """Its mark; empty as long as no node has started with it."""
        self.incarnation = 0
        """The last life of a node with this directory."""
        self.linked: dict[int, tuple[bytes, int]] = {}
        """Home and life of the nodes to which a link was open, by number, once it belonged to a
        cluster."""
        self.cluster = ""
        """The cluster of which a node with this directory was a member; "" for none yet."""

    def joined(self, cluster: str) -> None:
        """Note that the node with this directory joined that cluster, or none yet."""
        keeps(cluster in (self.cluster, self.cluster or cluster), "a member of another cluster")
        self.cluster = cluster

    def begun(self, membership: ClusterMembership) -> None:
        """Check what a node found in this directory when it started."""
        card = membership.book.card
        members = membership.cluster.roster.members.values()
        keeps(membership.cluster_id or not self.cluster, f"{card} has forgotten its cluster")
        self.joined(membership.cluster_id)
        keeps(card.incarnation > self.incarnation, f"life {card.incarnation} once more")
        keeps(self.home in (b"", card.home), f"{card} has become another node")
        self.home, self.incarnation = card.home, card.incarnation
        for member in members:
            home, incarnation = self.linked.get(member.number, (b"", 0))
            keeps(
                not home or (member.home == home and member.incarnation >= incarnation),
                f"{card} has forgotten that it met {member} in life {incarnation}",
            )


class NodeLog(Log):
    """The log of a node, whose last lines are kept in the notes of the run."""

    def __init__(self, node: SimNode) -> None:
        self.node = node

    def write(self, level: str, text: str) -> None:
        node = self.node
        node.notes.append((node.timeline.now_ns, f"{node.host}: {text}"))


class SimNode:
    """Node `number` of the run. Its disk outlives a crash."""

    def __init__(
        self, number: int, nodes: int, timeline: Timeline, network: PipeNetwork, random: Random
    ) -> None:
        self.number = number
        self.nodes = nodes
        self.host = f"h{number}"
        self.timeline = timeline
        self.network = network
        self.random = random
        self.figures: dict[str, int] = {}
        self.notes: deque[tuple[int, str]] = deque(maxlen=NOTES)
        self.directory = DataDirectory()
        self.lost: DataDirectory | None = None
        """The data directory that it lost; None when it has lost none."""
        self.starts = 0
        self.links_seen: dict[int, set[Epoch]] = {}
        self.sent: dict[tuple[int, Epoch, FrameType], int] = {}
        self.is_rude = random.random() < 0.15
        """True when it ignores its gates."""
        self.is_running = False
        self.is_frozen = False
        self.changed_ns = 0
        """When its process last started, ended, froze or thawed."""
        self.turn_ns = 100_000
        """The approximate duration of a turn."""
        self.membership: ClusterMembership
        self.cluster: NodeCluster
        self.talker: Talker
        self.net: PipeNet
        self.disk: SimDisk

    @property
    def incarnation(self) -> int:
        """Return the latest life of the node with its present data directory."""
        return self.directory.incarnation

    @property
    def moves(self) -> bool:
        """Tell whether its process is running and gets turns."""
        return self.is_running and not self.is_frozen

    @property
    def is_wiped(self) -> bool:
        """Tell whether it has lost its data, so that no node may accept it."""
        return self.lost is not None

    # -- its life

    def start(self) -> None:
        """Start the process, in its next life."""
        assert not self.is_running
        self.is_running, self.is_frozen = True, False
        self.changed_ns = self.timeline.now_ns
        self.starts += 1
        world = self._world()
        scheduler = Scheduler()
        scheduler.wake = self._wake
        scheduler.broke = self._broke
        scheduler.witness = self._broke
        config = ClusterConfig(
            name=f"n{self.number}",
            host=self.host,
            port=PORT,
            nodes=tuple(f"h{each}:{PORT}" for each in range(1, self.nodes + 1)),
            secret_file="none",
        )
        self.membership = ClusterMembership(scheduler, world, config, SECRET, False, BOUNDS)
        self.directory.begun(self.membership)
        self.cluster = self.membership.cluster
        self.talker = Talker(self.cluster, self.random, self.figures, self.is_rude)
        self.talker.seen = self.links_seen
        self.talker.sent = self.sent
        self.cluster.listen(self.host, PORT)
        self.membership.start()
        self._talk_later()

    def _world(self) -> World:
        seed = self.random.getrandbits(32)
        self.net = PipeNet(self.network, self.host)
        files = self.directory.files
        self.disk = SimDisk(self.timeline, Random(seed), files, delay_ns_max=100 * MS)
        return World(
            SimClock(self.timeline),
            SimDice(Random(seed + 1)),
            self.disk,
            self.net,
            SimMemory(1 << 30),
            NodeLog(self),
        )

    def _broke(self, actor: Actor, error: Exception) -> None:
        raise error

    def crash(self) -> None:
        """Kill the process, perhaps with a power loss of the machine."""
        self.is_running = self.is_frozen = False
        self.changed_ns = self.timeline.now_ns
        self.net.crash()
        self.disk.crash(power=self.random.random() < 0.5)
        self._keep_epochs()

    def _keep_epochs(self) -> None:
        for node, session in self.talker.sessions.items():
            if session.epoch is not None:
                self.links_seen.setdefault(node, set()).add(session.epoch)

    def freeze(self) -> None:
        """Stop the process from running, without its knowing."""
        self.is_frozen = True
        self.changed_ns = self.timeline.now_ns

    def thaw(self) -> None:
        """Let the frozen process run again."""
        self.is_frozen = False
        self.changed_ns = self.timeline.now_ns
        self._wake()

    def wipe(self) -> None:
        """Take away the data directory; the node starts with a new one."""
        assert not self.is_running
        self.lost, self.directory = self.directory, DataDirectory()

    def find_disk(self) -> None:
        """Give the lost data directory back."""
        assert not self.is_running
        assert self.lost is not None
        self.directory, self.lost = self.lost, None

    # -- its turns

    def _wake(self) -> None:
        self.timeline.after(
            1 + self.random.randrange(self.turn_ns), self.host, "run", self._run, self.starts
        )

    def _run(self, start: int) -> None:
        if not self.moves or start != self.starts:
            return
        if self.cluster.scheduler.run(1 + self.random.randrange(TURNS)):
            self._wake()

    def _talk_later(self) -> None:
        delay_ns = 1 + self.random.randrange(100 * MS)
        self.timeline.after(delay_ns, self.host, "talk", self._talk, self.starts)

    def _talk(self, start: int) -> None:
        if not self.is_running or start != self.starts:
            return
        if not self.is_frozen:
            self.talker.talk()
        self._talk_later()

    # -- checks

    def check(self) -> None:
        """Check the node's state, and what it reports about itself."""
        self.directory.joined(self.membership.cluster_id)
        for peer in self.cluster.peers.values():
            link = peer.link
            if link is None:
                continue
            waits = link.waiting_bytes
            most = BOUNDS.queue_bytes + 2 * ((1 << 20) + 1000)
            keeps(waits <= most, waits, "bytes wait for node", peer.node)
        connections = len(self.cluster.connections)
        keeps(connections <= 2 * self.nodes * 8, connections, "connections")
        strangers = self.cluster.strangers
        keeps(sum(strangers.by_address.values()) == strangers.count, "strangers are miscounted")
