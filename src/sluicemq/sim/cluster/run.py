"""One run: three nodes with nothing but their links, and faults; then healing, after which all
nodes must hear each other and go on doing so.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import permutations
from random import Random

from sluicemq.cluster.cluster_port import CONTROL, NodeStanding
from sluicemq.cluster.introduction import NodeCard
from sluicemq.cluster.node_link import NodeLink
from sluicemq.limits import LINK_SILENCE_NS
from sluicemq.sim.cluster.nemesis import LinkNemesis
from sluicemq.sim.cluster.net import PipeNetwork
from sluicemq.sim.cluster.process import SimNode
from sluicemq.sim.cluster.promise import keeps
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.units import MS

NODES = 3
FAULTS_MS = 40_000
"""Virtual time during which faults are injected."""
EVENTS_MAX = 25_000
"""Faults end after this many events, even before the time is over: when everything passes in tiny
pieces there are ten times as many."""
HEALING_MS = 40_000
"""Virtual time within which all nodes must hear each other again."""
STEADY_MS = 5_000
CHECK_MS = 10
NOTICED_NS = LINK_SILENCE_NS + 3000 * MS
"""Every node that could notice an outage of this length has noticed it."""


@dataclass(slots=True)
class LinkReport:
    """The figures of a finished run. Plain data: it travels between processes."""

    seed: int
    failure: str = ""
    trace: str = ""
    phase: str = ""
    events: int = 0
    digest: str = ""
    figures: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return one line, for a run among others."""
        shown = " ".join(f"{value} {name}" for name, value in sorted(self.figures.items()))
        verdict = f"FAILED in {self.phase}: {self.failure}" if self.failure else "passed"
        return f"seed {self.seed:6} {self.digest} {self.events:6} events {shown}  {verdict}"


class LinkRun:
    """A run in progress, with its three nodes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(f"links {seed}")
        self.timeline = Timeline()
        self.network = PipeNetwork(self.timeline, random)
        self.nodes = [
            SimNode(number, NODES, self.timeline, self.network, Random(f"{seed} {number}"))
            for number in range(1, NODES + 1)
        ]
        self.nemesis = LinkNemesis(self.timeline, self.network, self.nodes, random)
        self.phase = "faults"
        self.since: dict[tuple[str, ...], int] = {}
        """Since when without a break a way is cut ("cut", from, to), or a node moves ("moves",
        host), or a node neither moves nor has bytes in flight ("still", host)."""

    def go(self) -> None:
        """Run all phases, one after the other."""
        for node in self.nodes:
            self.timeline.after(
                self.random.randrange(2000 * MS), node.host, "starts", self._start, node
            )
        self.nemesis.begin()
        self._pass(FAULTS_MS, lambda: self.timeline.happened > EVENTS_MAX)
        self.phase = "healing"
        self.nemesis.call_off()
        keeps(self._pass(HEALING_MS, self._all_up), f"not all are up again: {self._standings()}")
        self.phase = "steady"
        self._pass(1000, lambda: False)
        before = [dict(node.figures) for node in self.nodes]
        self._pass(STEADY_MS, lambda: False)
        keeps(self._all_up(), f"without a fault not all stay up: {self._standings()}")
        for node, figures in zip(self.nodes, before, strict=True):
            for what in ("ups", "downs", "suspicions"):
                same = figures.get(what, 0) == node.figures.get(what, 0)
                keeps(same, f"{what} at node {node.number} without a fault")
            keeps(
                node.figures.get("received", 0) > figures.get("received", 0),
                f"nothing comes to node {node.number}",
            )

    def _start(self, node: SimNode) -> None:
        if not node.is_running:
            node.start()

    def _pass(self, passed_ms: int, is_done: Callable[[], bool]) -> bool:
        """Let time pass until a condition holds; return whether it does."""
        timeline = self.timeline
        until_ns = timeline.now_ns + passed_ms * MS
        check_ns = timeline.now_ns
        while timeline.now_ns < until_ns:
            timeline.step()
            if timeline.now_ns >= check_ns:
                check_ns = timeline.now_ns + CHECK_MS * MS
                self._check()
                if is_done():
                    return True
        return False

    def _all_up(self) -> bool:
        return all(
            one.moves
            and one.membership.is_member
            and one.cluster.standing(other.number) is NodeStanding.UP
            for one, other in permutations(self.nodes, 2)
        )

    def _standings(self) -> dict[str, str]:
        return {
            f"{one.number}>{other.number}": one.cluster.standing(other.number).value
            for one, other in permutations(self.nodes, 2)
            if one.is_running
        }

    # -- checks

    def _check(self) -> None:
        for node in self.nodes:
            self._note(node.moves, node.changed_ns, "moves", node.host)
            is_still = not node.moves and not self.network.is_carrying(node.host)
            self._note(is_still, node.changed_ns, "still", node.host)
        for one, other in permutations(self.nodes, 2):
            cut_ns = self.network.cuts.get((one.host, other.host))
            self._note(cut_ns is not None, cut_ns or 0, "cut", one.host, other.host)
        for node in self.nodes:
            if node.is_running:
                node.check()
        directories = [node.directory for node in self.nodes]
        directories += [node.lost for node in self.nodes if node.lost is not None]
        clusters = {each.cluster for each in directories if each.cluster}
        keeps(len(clusters) <= 1, f"two clusters: {clusters}")
        for one, other in permutations(self.nodes, 2):
            if one.moves:
                self._check_pair(one, other)

    def _note(self, is_so: bool, begun_ns: int, *what: str) -> None:
        """Note that something is so; it last began at `begun_ns` at the earliest."""
        if is_so:
            self.since[what] = max(self.since.get(what, self.timeline.now_ns), begun_ns)
        else:
            self.since.pop(what, None)

    def _check_pair(self, one: SimNode, other: SimNode) -> None:
        cluster = one.cluster
        link = cluster.peers[other.number].up
        if link is not None and one.membership.is_member:
            card = introduced_by(link)
            home, _ = one.directory.linked.setdefault(other.number, (card.home, 0))
            keeps(
                home == card.home,
                f"node {other.number} has lost its data, and node {one.number} has taken it in",
            )
            one.directory.linked[other.number] = home, card.incarnation
        there, back = ("cut", one.host, other.host), ("cut", other.host, one.host)
        still = ("still", other.host)
        contact_ns = cluster.contact_ns(other.number) or 0
        for what in (there, back, still):
            keeps(
                contact_ns <= self.since.get(what, contact_ns),
                *("node", one.number, "believes in a contact with node", other.number, "after"),
                what,
            )
        now_ns = self.timeline.now_ns
        moves_ns = self.since["moves", one.host]
        for what in (back, still):
            out_ns = now_ns - max(self.since.get(what, now_ns), moves_ns)
            keeps(
                out_ns < NOTICED_NS or cluster.standing(other.number) is NodeStanding.DOWN,
                *("node", one.number, "has not noticed of node", other.number, what),
            )


def introduced_by(link: NodeLink) -> NodeCard:
    """Return the node at the other end of a link that is up."""
    introduced = link.connections[CONTROL].handshake.other
    assert introduced is not None
    return introduced.card


def simulate_links(seed: int) -> LinkReport:
    """Run a seed, and return its report."""
    report = LinkReport(seed)
    run = LinkRun(seed)
    try:
        run.go()
    except Exception as error:
        report.failure = f"{type(error).__name__}: {error}"
        report.trace = traceback.format_exc()
        report.phase = run.phase
    report.events = run.timeline.happened
    report.digest = run.timeline.digest()
    for node in run.nodes:
        for what, count in node.figures.items():
            report.figures[what] = report.figures.get(what, 0) + count
    report.figures |= run.nemesis.done
    report.figures["flipped"] = run.network.flipped
    notes = sorted(run.nemesis.notes + [note for node in run.nodes for note in node.notes])
    report.notes = [f"{at_ns / MS:10.2f}  {line}" for at_ns, line in notes]
    return report
