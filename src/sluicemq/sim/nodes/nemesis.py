"""Injects faults into a cluster of whole nodes. Each seed has its own mixture, and a bound on how
many nodes are down at once: for most seeds a majority is always up.
"""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import TYPE_CHECKING

from sluicemq.sim.nodes.member_moves import ANY_MOVE, NO_REMOVAL, ask_for_a_move
from sluicemq.sim.nodes.mirror_policies import ask_for_mirrors
from sluicemq.sim.nodes.node_groups import leads
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluicemq.sim.cluster.net import PipeNetwork
    from sluicemq.sim.nodes.host import NodeHost
    from sluicemq.sim.nodes.node_moves import NodeMoves
    from sluicemq.sim.nodes.plan import NodesPlan
    from sluicemq.sim.nodes.site import ClientSite
    from sluicemq.sim.timeline import Timeline

Way = tuple[str, str]


class NodesNemesis:
    """Injects a fault every so often until it is called off."""

    def __init__(
        self,
        plan: NodesPlan,
        timeline: Timeline,
        network: PipeNetwork,
        hosts: list[NodeHost],
        sites: dict[int, ClientSite],
        node_moves: NodeMoves,
    ) -> None:
        self.plan = plan
        self.timeline = timeline
        self.network = network
        self.hosts = hosts
        self.sites = sites
        self.node_moves = node_moves
        self.random = random = Random(f"nemesis of nodes {plan.seed}")
        self.is_over = False
        self.done: dict[str, int] = {}
        self.notes: list[tuple[int, str]] = []
        self.away_max = random.choice((1, (plan.nodes - 1) // 2, (plan.nodes - 1) // 2, plan.nodes))
        """The most processes that are down or frozen at once."""
        deeds: list[tuple[Callable[[], None], int]] = [
            (self.crash, 4),
            (self.blink, 4),
            (self.stop, 4),
            (self.start, 10),
            (self.freeze, 4),
            (self.thaw, 8),
            (self.isolate, 2),
            (self.isolate_leader, 4),
            (self.crash_leader, 4),
            (self.depose, 4),
            (self.halve, 2),
            (self.one_way, 2),
            (self.bridge, 2),
            (self.clog, 2),
            (self.heal, 10),
            (self.tear, 4),
            (self.slow_disk, 3),
            (self.fill_disk, 1),
            (self.fail_disk, 1),
            (self.jump, 1),
            (self.slow_down, 2),
            (self.stall, 3),
            (self.break_off, 3),
            (self.wipe, 1),
            (self.find_files, 4),
        ]
        always = {"start", "heal", "thaw", "find_files"}
        self.deeds = [
            (deed, weight)
            for deed, weight in deeds
            if deed.__name__ in always or random.random() < 0.6
        ]
        if plan.moves_members and any(each.is_quorum for each in plan.queues):
            self.deeds.append((self.move_members, 60))
        if plan.has_mirrors and random.random() < 0.5:
            self.deeds.append((self.move_mirrors, 30))
        if plan.moves_nodes:
            self.deeds += [(self.join, 15), (self.forget, 20)]
        network.delay_ns_max = random.choice((MS // 10, MS, 5 * MS))
        network.slow = random.choice((0, 0.01, 0.05))
        network.fragment_max = random.choice((1500, 8000, 60_000))
        network.high_bytes = random.choice((4000, 16_000, 100_000))
        network.window_bytes = random.choice((8000, 16_000, 100_000))

    def begin(self) -> None:
        """Begin to inject faults, one every so often."""
        delay_ns = 1 + int(self.random.expovariate(1 / (self.plan.fault_interval_ms * MS)))
        self.timeline.after(delay_ns, "nemesis", "acts", self._act)

    def _act(self, _: object) -> None:
        if not self.is_over:
            deeds, weights = zip(*self.deeds, strict=True)
            (deed,) = self.random.choices(deeds, weights)
            deed()
            self.begin()

    def note(self, what: str, line: str) -> None:
        """Note a fault that was injected."""
        self.done[what] = self.done.get(what, 0) + 1
        self.notes.append((self.timeline.now_ns, line))

    def _any(self, hosts: Iterable[NodeHost]) -> NodeHost | None:
        found = [*hosts]
        return self.random.choice(found) if found else None

    def _victim(self, only_leaders: bool = False) -> NodeHost | None:
        """Choose a node whose process may be taken down now."""
        moving = [host for host in self.hosts if host.moves]
        if len(self.hosts) - len(moving) >= self.away_max:
            return None
        if only_leaders:
            moving = [host for host in moving if leads(host.node)]
        return self._any(host for host in moving if not host.is_stopping)

    # -- processes

    def crash(self) -> None:
        """Kill a process, perhaps with a power loss."""
        host = self._victim()
        if host is not None:
            host.crash(power=self.random.random() < 0.5)
            self.note("crashes", f"{host.name} crashes")

    def crash_leader(self) -> None:
        """Kill the process of a node that leads a group."""
        host = self._victim(only_leaders=True)
        if host is not None:
            host.crash(power=self.random.random() < 0.5)
            self.note("crashes", f"{host.name}, which leads, crashes")

    def blink(self) -> None:
        """Kill a process and start it again at once."""
        host = self._victim()
        if host is not None:
            host.crash(power=self.random.random() < 0.5)
            host.start()
            self.note("crashes", f"{host.name} crashes and starts")

    def stop(self) -> None:
        """A node is stopped in order."""
        host = self._victim()
        if host is not None and host.is_open:
            self.sites[host.number].node_stops()
            host.stop()
            self.note("stops", f"{host.name} stops")

    def start(self) -> None:
        """Start a process that is down; sometimes it crashes during the start."""
        host = self._any(host for host in self.hosts if not host.is_running)
        if host is not None:
            crashes = self.random.random() < 0.25
            if host.start(crashes):
                self.note("starts", f"{host.name} starts")
            else:
                self.note("failed starts", f"{host.name} does not come to start")

    def freeze(self) -> None:
        """Stop a process from running for a while."""
        host = self._victim()
        if host is not None:
            host.freeze()
            self.note("freezes", f"{host.name} freezes")

    def thaw(self) -> None:
        """Let a frozen process run again."""
        host = self._any(host for host in self.hosts if host.is_frozen)
        if host is not None:
            host.thaw()
            self.note("thaws", f"{host.name} thaws")

    def slow_down(self) -> None:
        """Make a node compute slowly for a while."""
        host = self.random.choice(self.hosts)
        host.cpu.slow_until_ns = self.timeline.now_ns + self.random.randrange(500 * MS)
        self.note("slow nodes", f"{host.name} computes slowly")

    def jump(self) -> None:
        """Change the time of day of one clock."""
        host = self.random.choice(self.hosts)
        host.clock.offset_ms = self.random.choice((-60_000, -300, 0, 300, 60_000))
        self.note("clock jumps", f"{host.name} is wrong by {host.clock.offset_ms} ms")

    # -- disks

    def slow_disk(self) -> None:
        """Make a disk do nothing for a while."""
        host = self.random.choice(self.hosts)
        host.disk.stalled_until_ns = self.timeline.now_ns + self.random.randrange(1500 * MS)
        self.note("slow disks", f"the disk of {host.name} stalls")

    def fill_disk(self) -> None:
        """Leave almost no free space on a disk for a while."""
        host = self.random.choice(self.hosts)
        files = host.disk.files
        files.capacity = files.used + self.random.choice((0, 10, 1000, 5000))

        def free(_: object) -> None:
            files.capacity = None

        self.timeline.after(1 + self.random.randrange(1500 * MS), host.name, "has space", free)
        self.note("full disks", f"the disk of {host.name} is full")

    def fail_disk(self) -> None:
        """Let a sync or a write fail soon; then restart the node, as an operator would."""
        host = self._victim()
        if host is None:
            return
        files = host.disk.files
        if self.random.randrange(2):
            files.sync_failures = 1
        else:
            files.plan = {files.number + 1 + self.random.randrange(20): "EIO"}
        self.sites[host.number].storage_may_fail = True
        self.note("failed disks", f"the disk of {host.name} is to fail")
        asked = host, host.lives
        self.timeline.after(
            1 + self.random.randrange(800 * MS), host.name, "is replaced", self._mend, asked
        )

    def _mend(self, asked: tuple[NodeHost, int]) -> None:
        host, life = asked
        if host.is_running and host.lives == life:
            host.crash(power=False)

    def wipe(self) -> None:
        """Take a member's data, and start it without: no node may accept it."""
        host = self._victim()
        lost = any(each.lost_files is not None for each in self.hosts)
        if host is not None and not lost and all(each.is_member for each in self.hosts):
            host.crash(power=True)
            host.lose_files()
            host.start()
            self.note("wipes", f"{host.name} has lost its data")

    def find_files(self) -> None:
        """Give a member its lost data back."""
        host = self._any(host for host in self.hosts if host.lost_files is not None)
        if host is not None:
            if host.is_running:
                host.crash(power=False)
            host.find_files()
            host.start()
            self.note("found data", f"{host.name} has its data again")

    # -- the network

    def _cut(self, line: str, ways: Iterable[Way]) -> None:
        self.network.cut(dict.fromkeys(ways))
        self.note("cuts", line)

    def _between(self, some: list[str]) -> list[Way]:
        """Return all ways between these hosts and the others, in both directions."""
        names = [host.name for host in self.hosts]
        return [way for way in permutations(names, 2) if (way[0] in some) != (way[1] in some)]

    def heal(self) -> None:
        """Make all ways whole and fast."""
        self.network.clogs.clear()
        if self.network.cuts:
            self._cut("the network is whole", ())

    def isolate(self) -> None:
        """Cut a node off from all others."""
        name = self.random.choice(self.hosts).name
        self._cut(f"{name} is cut off", self._between([name]))

    def isolate_leader(self) -> None:
        """Cut off a node that leads a group."""
        host = self._any(host for host in self.hosts if host.moves and leads(host.node))
        if host is not None:
            self._cut(f"{host.name}, which leads, is cut off", self._between([host.name]))

    def depose(self) -> None:
        """Cut off each new leader soon after its election, after restoring the one before."""
        self._depose(1 + self.random.randrange(4))

    def _depose(self, times: int) -> None:
        """Cut off the connected leader, this many times."""
        if not self.is_over and times:
            cut_off = {way[0] for way in self.network.cuts}
            new = [host for host in self.hosts if host.moves and leads(host.node)]
            host = self._any([each for each in new if each.name not in cut_off] or new)
            if host is not None:
                self._cut(f"{host.name}, which leads, is deposed", self._between([host.name]))
            wait_ns = 1 + self.random.randrange(400 * MS)
            self.timeline.after(wait_ns, "nemesis", "deposes", self._depose, times - 1)

    def halve(self) -> None:
        """Split the nodes into two parts without contact."""
        names = [host.name for host in self.hosts]
        some = self.random.sample(names, 1 + self.random.randrange(len(names) // 2))
        self._cut(f"{some} are parted from the others", self._between(some))

    def one_way(self) -> None:
        """Cut some ways, perhaps in one direction only."""
        names = [host.name for host in self.hosts]
        ways = [way for way in permutations(names, 2) if self.random.random() < 0.3]
        self._cut(f"nothing goes {ways}", ways)

    def bridge(self) -> None:
        """Let each node hear only its neighbours in a ring; of three nodes two hear
        only the third.
        """
        names = [host.name for host in self.hosts]
        self.random.shuffle(names)
        far = [(names[0], names[2])] if len(names) == 3 else []
        if not far:
            count = len(names)
            far = [(names[at], names[(at + 2) % count]) for at in range(count)]
        self._cut(f"{far} do not hear each other", [*far, *[(b, a) for a, b in far]])

    def clog(self) -> None:
        """Make some ways carry everything slowly."""
        names = [host.name for host in self.hosts]
        ways = [way for way in permutations(names, 2) if self.random.random() < 0.3]
        self.network.clogs = {*ways}
        self.note("clogs", f"{ways} are clogged")

    def tear(self) -> None:
        """Break a connection between two nodes."""
        running = [host for host in self.hosts if host.is_running]
        ends = [end for host in running for end in host.links.ends.values() if end.out is not None]
        if ends:
            end = self.random.choice(ends)
            self.network.tear(end)
            self.note("tears", f"{end.net.host} loses connection {end.number}")

    # -- clients

    def stall(self) -> None:
        """Stop a client from reading for a while."""
        peers = [peer for site in self.sites.values() for peer in site.peers if peer.open]
        if peers:
            socket = self.random.choice(peers).socket
            socket.stall()
            stall_ns = 1 + self.random.randrange(500 * MS)
            self.timeline.after(stall_ns, "client", "reads again", lambda _: socket.unstall())
            self.note("stalls", f"{socket.client.name} does not read")

    def break_off(self) -> None:
        """Break a client's connection, perhaps inside a frame."""
        peers = [peer for site in self.sites.values() for peer in site.peers[1:] if peer.open]
        if peers:
            peer = self.random.choice(peers)
            peer.break_off(self.random.randrange(len(peer.socket.inbound) + 1))
            self.note("broken clients", f"{peer.name} breaks")

    # -- the operator

    def move_members(self) -> None:
        """Ask for other members of a quorum queue, or another leader."""
        moves = NO_REMOVAL if self.plan.moves_nodes else ANY_MOVE
        if asked := ask_for_a_move(self.hosts, self.random, moves):
            self.note("moves of members", asked)

    def join(self) -> None:
        """Have a node join, which may crash meanwhile."""
        if done := self.node_moves.join():
            self.note("steps of joining", done)

    def forget(self) -> None:
        """Ask to remove a node that is lost."""
        if asked := self.node_moves.forget():
            self.note("forgotten nodes", asked)

    def move_mirrors(self) -> None:
        """Ask for other mirrors of mirrored queues."""
        if asked := ask_for_mirrors(self.hosts, self.random):
            self.note("moves of mirrors", asked)

    # -- afterwards

    def call_off(self) -> None:
        """Heal everything: the network, the processes, the disks, the clocks."""
        self.is_over = True
        self.notes.append((self.timeline.now_ns, "everything is healed"))
        network = self.network
        network.slow = 0
        network.delay_ns_max = MS // 2
        network.fragment_max = 60_000
        network.clogs.clear()
        network.cut({})
        for host in [*self.hosts]:
            self._heal(host)
        self.node_moves.heal()

    def _heal(self, host: NodeHost) -> None:
        host.cpu.healed = host.disk.healed = True
        host.disk.stalled_until_ns = host.clock.offset_ms = 0
        if host.is_frozen:
            host.thaw()
        may_fail = self.sites[host.number].storage_may_fail
        if host.is_running and (host.is_stopping or may_fail or host.lost_files is not None):
            host.crash(power=False)
        if host.lost_files is not None:
            host.find_files()
        host.disk.files.capacity = None  # what was lost was on a disk that may have been full
        if not host.is_running:
            host.start()
