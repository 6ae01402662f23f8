"""Injects faults into the network and the nodes. Each seed has its own mixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from random import Random

    from sluicemq.sim.cluster.net import PipeNetwork
    from sluicemq.sim.cluster.process import SimNode
    from sluicemq.sim.timeline import Timeline


class LinkNemesis:
    """Injects a fault every so often until it is called off."""

    def __init__(
        self, timeline: Timeline, network: PipeNetwork, nodes: list[SimNode], random: Random
    ) -> None:
        self.timeline = timeline
        self.network = network
        self.nodes = nodes
        self.random = random
        self.is_over = False
        self.every_ms = random.choice((150, 500, 2000, 6000))
        self.done: dict[str, int] = {}
        self.notes: list[tuple[int, str]] = []
        deeds: list[tuple[Callable[[], None], int]] = [
            (self.crash, 3),
            (self.blink, 3),
            (self.start, 8),
            (self.freeze, 3),
            (self.thaw, 5),
            (self.isolate, 3),
            (self.one_way, 3),
            (self.heal, 7),
            (self.tear, 5),
            (self.slow_down, 2),
            (self.leave, 1),
            (self.wipe, 1),
            (self.find_disk, 3),
        ]
        always = {"start", "heal", "thaw", "find_disk"}
        self.deeds = [
            (deed, weight)
            for deed, weight in deeds
            if deed.__name__ in always or random.random() < 0.7
        ]
        network.delay_ns_max = random.choice((MS // 2, 5 * MS, 20 * MS))
        network.slow = random.choice((0, 0.01, 0.05))
        network.fragment_max = random.choice((1500, 8000, 60_000))
        network.high_bytes = random.choice((2000, 16_000, 100_000))
        network.window_bytes = random.choice((4000, 16_000, 100_000))
        network.flips = random.choice((0, 0, 0.0005, 0.005))

    def begin(self) -> None:
        """Begin to inject faults, one every so often."""
        self._act_later()

    def _act_later(self) -> None:
        delay_ns = 1 + int(self.random.expovariate(1 / (self.every_ms * MS)))
        self.timeline.after(delay_ns, "nemesis", "acts", self._act)

    def _act(self, _: object) -> None:
        if self.is_over:
            return
        deeds, weights = zip(*self.deeds, strict=True)
        (deed,) = self.random.choices(deeds, weights)
        deed()
        self._act_later()

    def note(self, what: str, line: str) -> None:
        """Note a fault that was injected."""
        self.done[what] = self.done.get(what, 0) + 1
        self.notes.append((self.timeline.now_ns, line))

    def _any(self, nodes: list[SimNode]) -> SimNode | None:
        return self.random.choice(nodes) if nodes else None

    # -- processes

    def crash(self) -> None:
        """Kill the process of one node."""
        node = self._any([each for each in self.nodes if each.is_running])
        if node is not None:
            node.crash()
            self.note("crashes", f"{node.host} crashes")

    def blink(self) -> None:
        """Kill a process and start it again at once."""
        node = self._any([each for each in self.nodes if each.is_running])
        if node is not None:
            node.crash()
            node.start()
            self.note("crashes", f"{node.host} crashes and starts, life {node.incarnation}")

    def start(self) -> None:
        """Start a process that is down."""
        node = self._any([each for each in self.nodes if not each.is_running])
        if node is not None:
            node.start()
            self.note("starts", f"{node.host} starts, life {node.incarnation}")

    def freeze(self) -> None:
        """Stop a process from running for a while."""
        node = self._any([each for each in self.nodes if each.moves])
        if node is not None:
            node.freeze()
            self.note("freezes", f"{node.host} freezes")

    def thaw(self) -> None:
        """Let a frozen process run again."""
        node = self._any([each for each in self.nodes if each.is_frozen])
        if node is not None:
            node.thaw()
            self.note("thaws", f"{node.host} thaws")

    def slow_down(self) -> None:
        """Make a node compute and read slowly, or fast again."""
        node = self._any(self.nodes)
        if node is not None:
            node.turn_ns = self.random.choice((10_000, 300_000, 20 * MS))
            self.note("slow nodes", f"{node.host} takes {node.turn_ns} ns a turn")

    def leave(self) -> None:
        """Have a node say goodbye, and end a little later."""
        node = self._any([each for each in self.nodes if each.moves])
        if node is not None:
            start = node.starts
            node.cluster.leave("this node stops")
            self.note("leaves", f"{node.host} leaves")

            def end(_: object) -> None:
                if node.is_running and node.starts == start:
                    node.crash()

            self.timeline.after(500 * MS, node.host, "has left", end)

    def wipe(self) -> None:
        """Take the data directory from a node that is down, and start it without one."""
        wiped = [each for each in self.nodes if each.is_wiped]
        node = self._any([each for each in self.nodes if each.incarnation])
        if node is not None and not wiped and self._all_met():
            if node.is_running:
                node.crash()
            node.wipe()
            node.start()
            self.note("wipes", f"{node.host} has lost its data")

    def _all_met(self) -> bool:
        return all(len(each.directory.linked) == len(self.nodes) - 1 for each in self.nodes)

    def find_disk(self) -> None:
        """Give a node its lost data directory back."""
        node = self._any([each for each in self.nodes if each.is_wiped])
        if node is not None:
            if node.is_running:
                node.crash()
            node.find_disk()
            node.start()
            self.note("found disks", f"{node.host} has its data again")

    # -- the network

    def _cut(self, line: str, ways: dict[tuple[str, str], None]) -> None:
        self.network.cut(ways)
        self.note("cuts", line)

    def heal(self) -> None:
        """Make all ways between machines whole."""
        if self.network.cuts:
            self._cut("the network is whole", {})

    def isolate(self) -> None:
        """Cut a node off from all others."""
        node = self.random.choice(self.nodes)
        others = [each.host for each in self.nodes if each is not node]
        ways = [(node.host, each) for each in others] + [(each, node.host) for each in others]
        self._cut(f"{node.host} is cut off", dict.fromkeys(ways))

    def one_way(self) -> None:
        """Cut some ways, perhaps in one direction only."""
        hosts = [each.host for each in self.nodes]
        ways = [(a, b) for a in hosts for b in hosts if a != b and self.random.random() < 0.3]
        self._cut(f"nothing goes {ways}", dict.fromkeys(ways))

    def tear(self) -> None:
        """Break a connection between two nodes."""
        nodes = [each for each in self.nodes if each.is_running]
        ends = [end for node in nodes for end in node.net.ends.values() if end.out is not None]
        if ends:
            end = self.random.choice(ends)
            self.network.tear(end)
            self.note("tears", f"{end.net.host} loses connection {end.number}")

    # -- afterwards

    def call_off(self) -> None:
        """Heal everything: the network, the processes, the disks."""
        self.is_over = True
        self.notes.append((self.timeline.now_ns, "everything is healed"))
        network = self.network
        network.flips = network.slow = 0
        network.delay_ns_max = MS // 2
        network.fragment_max = 60_000
        network.cut({})
        for node in self.nodes:
            node.turn_ns = 10_000
            node.is_rude = False
            if node.is_running:
                node.talker.is_rude = False
            if node.is_wiped or (node.is_running and node.cluster.is_over):
                if node.is_running:
                    node.crash()
                if node.is_wiped:
                    node.find_disk()
            if not node.is_running:
                node.start()
            if node.is_frozen:
                node.thaw()
