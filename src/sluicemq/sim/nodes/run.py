"""One run of whole nodes: they found a cluster, clients use each node, and faults happen. Then
everything is healed, all confirmed messages are delivered, the queues are empty.

founding   the nodes start, in any order; faults begin after some time, founded or not, or when
           all nodes are up
siege      in runs with queues that may go on with what is left: a majority of mirrors is lost
faults     clients and faults, for so long as the plan says
healing    no more faults: all nodes hear each other, and clients can connect everywhere, and all
           have the same definitions
drain      all messages in queues are delivered, and all clients finish
leaving    all clients close; the nodes must have forgotten them
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.sim.cluster.net import PipeNetwork
from sluicemq.sim.nodes.book import ClusterBook, Outages
from sluicemq.sim.nodes.host import NodeHost
from sluicemq.sim.nodes.member_moves import unmoved
from sluicemq.sim.nodes.mirror_policies import unmirrored
from sluicemq.sim.nodes.nemesis import NodesNemesis
from sluicemq.sim.nodes.newcomer import Newcomer
from sluicemq.sim.nodes.node_groups import NodeGroups
from sluicemq.sim.nodes.node_moves import NodeMoves
from sluicemq.sim.nodes.plan import (
    NodesPlan,
    mirrored_plan,
    moving_plan,
    nodes_plan,
    shortened,
    tightened,
)
from sluicemq.sim.nodes.promotions import Promotions
from sluicemq.sim.nodes.registers import RegisterBook
from sluicemq.sim.nodes.rest import (
    kept_of_mirrors,
    kept_of_streams,
    sends_letters,
    to_deliver,
    unrest,
)
from sluicemq.sim.nodes.siege import Siege
from sluicemq.sim.nodes.site import ClientSite
from sluicemq.sim.nodes.watch import LinkWatch
from sluicemq.sim.records import promise
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.units import MS
from sluicemq.storage.raft.codec import NO_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.storage.raft.group import RaftGroup

FOUNDING_MS: Final = 300
"""Faults begin within that time."""
CALM_MS: Final = 500
"""Time without faults at first, in runs that are calm at first."""
HEIR_IN_TIME_MS: Final = 30_000
"""Virtual time within which a mirror has to go on when most are lost: it takes 10 seconds to notice
that a node is cut off or frozen, and then 15."""
IN_TIME_MS: Final = 30_000
"""Virtual time within which each phase after the faults must end."""
LOOK_MS: Final = 20
"""The interval of checks whether slow changes have happened or a phase is over."""
EVENTS_MAX: Final = 300_000
"""A run with more events goes in circles."""


@dataclass(slots=True)
class NodesReport:
    """The figures of a finished run. Plain data: it travels between processes."""

    seed: int
    nodes: int
    failure: str = ""
    trace: str = ""
    phase: str = ""
    events: int = 0
    virtual_ms: int = 0
    digest: str = ""
    figures: dict[str, int] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return one line about the run, for a list of runs."""
        verdict = f"FAILED in {self.phase}: {self.failure}" if self.failure else "passed"
        words = ("published", "confirmed", "delivered", "crashes", "cuts", "freezes")
        shown = " ".join(f"{self.figures.get(word, 0):3} {word}" for word in words)
        return (
            f"seed {self.seed:6} {self.digest} {self.nodes} nodes {self.events:6} events"
            f" {self.virtual_ms:6} ms {shown}  {verdict}"
        )

    def lines(self) -> list[str]:
        """Return the whole report as lines of text."""
        shown = [f"{name:22} {value}" for name, value in self.figures.items()]
        return [*self.parameters, "", *self.notes, "", *shown, "", self.line()]


class NodesRun:
    """A run in progress, with its nodes."""

    def __init__(self, plan: NodesPlan) -> None:
        self.plan = plan
        self.timeline = Timeline()
        self.random = Random(f"run of nodes {plan.seed}")
        self.network = PipeNetwork(self.timeline, Random(f"network {plan.seed}"))
        self.outages = Outages()
        self.registers = RegisterBook()
        self.promotions = Promotions()
        self.groups = groups = NodeGroups(self.timeline, self.promotions)
        groups.promotes = frozenset(plan.promoting)
        records = self.outages, groups.changes, groups.births, self.promotions, self.is_disputed
        self.book = ClusterBook(plan, self.timeline, *records)
        self.phase = "founding"
        self.finding: Exception | None = None
        """A fault in a turn of a node."""
        self.hosts = [
            NodeHost(number, plan, self.timeline, self.network, self._faulted)
            for number in range(1, plan.nodes + 1)
        ]
        self.sites = {host.number: self._site(host) for host in self.hosts}
        self.by_name = {host.name: host for host in self.hosts}
        for host in self.hosts:
            self._hear(host)
        moves_dice = Random(f"moves of nodes {plan.seed}")
        self.node_moves = NodeMoves(self.hosts, moves_dice, self._newcomer)
        self.nemesis = NodesNemesis(
            plan, self.timeline, self.network, self.hosts, self.sites, self.node_moves
        )
        self.departed: list[NodeHost] = []
        """Hosts whose nodes have been removed from the cluster."""
        self.cluster_id = ""
        """The cluster of which some node has been a member; "" for none yet."""

    def _site(self, host: NodeHost) -> ClientSite:
        return ClientSite(host, self.plan, self.timeline, self.book, self.registers)

    def _newcomer(self, machine: int) -> Newcomer:
        newcomer = Newcomer(machine, self.plan, self.timeline, self.network, self._faulted)
        self._hear(newcomer)
        return newcomer

    def _hear(self, host: NodeHost) -> None:
        host.on_begin, host.on_open, host.on_end = self._begun, self._opened, self._ended
        host.on_hang_up = self._hangs_up

    # -- news from hosts

    def _faulted(self, error: Exception) -> None:
        self.finding = self.finding or error

    def _begun(self, host: NodeHost) -> None:
        self.node_moves.began(host)
        if host.number not in self.sites:
            for number in [each.number for each in self.sites.values() if each.host is host]:
                del self.sites[number]
            self.by_name[host.name] = host
            self.sites[host.number] = self._site(host)
            self.sites[host.number].bring_clients()
        LinkWatch(host.membership.cluster, self.outages)
        self.groups.watch(host)

    def _opened(self, host: NodeHost) -> None:
        self.sites[host.number].opened()

    def _hangs_up(self, host: NodeHost) -> None:
        self.outages.stopping.add(host.number)

    def _ended(self, host: NodeHost) -> None:
        self.outages.ends[host.number] += 1
        self.registers.lost(host.number)
        if host.number in self.sites:
            self.sites[host.number].lost_node()
        if host.is_removed:
            self.hosts.remove(host)
            self.sites.pop(host.number, None)
            self.departed.append(host)

    # -- phases

    def go(self) -> None:
        """Run all phases, one after the other."""
        for host in self.hosts:
            delay_ns = self.random.randrange(FOUNDING_MS * MS)
            self.timeline.after(delay_ns, host.name, "starts", self._start, host)
            self.sites[host.number].bring_clients()
        self._pass(self.random.randrange(FOUNDING_MS))
        if self.plan.is_calm_at_first:
            self._until_nothing(self.not_up)
            self._pass(CALM_MS)
        if self.plan.promoting:
            self.phase = "siege"
            self._besiege()
        self.phase = "faults"
        self.nemesis.begin()
        self._pass(self.plan.faults_ms)
        self.phase = "healing"
        self.nemesis.call_off()
        self._until_nothing(self.not_up)
        self._until_nothing(lambda: self.groups.disagreement(self.hosts))
        self.phase = "drain"
        sites = [*self.sites.values()]
        for place, site in enumerate(sites):
            first = (place - self.plan.seed) % len(sites)
            site.heal([*self.plan.queues[first :: len(sites)]])
        self._until_nothing(self.undrained)
        self.phase = "leaving"
        for site in self.sites.values():
            site.leave()
        self._until_nothing(self.staying)
        self._until_nothing(lambda: self.groups.disagreement(self.hosts))
        self.book.all_is_well()
        self.registers.check()

    def _besiege(self) -> None:
        """Take most mirrors of a queue, until another one serves it."""
        plan, nemesis = self.plan, self.nemesis
        siege = Siege(plan, self.network, self.hosts, self.sites, nemesis, self.promotions)
        self._until_nothing(siege.unready)
        siege.begin()
        self._pass(siege.lag_ms)
        siege.strike()
        self._until_nothing(siege.unserved, HEIR_IN_TIME_MS)
        self._pass(siege.reign_ms)
        siege.end()

    def _start(self, asked: object) -> None:
        assert isinstance(asked, NodeHost)
        if not asked.is_running:
            asked.start()

    def _step(self) -> None:
        self.timeline.step()
        if self.finding is not None:
            raise self.finding
        if self.nemesis.done:
            self.registers.is_calm = self.book.is_calm = False
        host = self.by_name.get(self.timeline.last[1])
        if host is not None and host.is_running:
            self.groups.look(host)

    def _pass(self, passed_ms: int) -> None:
        """Let so much time pass."""
        until_ns = self.timeline.now_ns + passed_ms * MS
        look_ns = 0
        while self.timeline.now_ns < until_ns:
            self._step()
            if self.timeline.now_ns >= look_ns:
                look_ns = self.timeline.now_ns + LOOK_MS * MS
                self._look()

    def _until_nothing(self, hinders: Callable[[], str], in_time_ms: int = 0) -> None:
        """Go on until nothing hinders any more, for a bounded time: IN_TIME_MS, unless another one
        is given."""
        deadline_ns = self.timeline.now_ns + (in_time_ms or IN_TIME_MS) * MS
        while hindrance := hinders():
            late = self.timeline.now_ns > deadline_ns or self.timeline.happened > EVENTS_MAX
            promise(not late, "not in time:", hindrance)
            self._pass(LOOK_MS)

    # -- checks

    def _look(self) -> None:
        is_calm = not (self.nemesis.done or self.not_up())
        self.registers.is_calm = self.book.is_calm = is_calm
        for host in self.hosts:
            if host.is_member:
                known = self.cluster_id = self.cluster_id or host.membership.cluster_id
                promise(host.membership.cluster_id == known, "there are two clusters")

    def not_up(self) -> str:
        """Return a node that other nodes or clients cannot use yet; "" without one."""
        if hindrance := self.node_moves.unfinished():
            return hindrance
        for host in self.hosts:
            if not host.is_open:
                return f"{host.name} is not open"
        for one, other in permutations(self.hosts, 2):
            standing = one.membership.cluster.standing(other.number)
            if standing is not NodeStanding.UP:
                return f"{other.name} is {standing.value} for {one.name}"
        return ""

    def is_disputed(self, name: str) -> bool:
        """Tell whether a mirrored queue has a master who serves clients, and does not know yet that
        another member leads."""
        return self.groups.has_former_master(name, self.hosts)

    def undrained(self) -> str:
        """Return what is unfinished; "" when publishers have closed and queues are empty, as far as
        anybody knows."""
        if hindrance := self.groups.backlog(self.hosts):
            return hindrance
        for site in self.sites.values():
            if hindrance := site.undone():
                return hindrance
            if name := site.lacking():
                return f"node {site.number} lacks a consumer of {name}"
        for host in self.hosts:
            broker = host.node.broker
            if not broker.store.is_idle or host.disk.busy() or broker.alarms.reasons:
                return f"{host.name} writes"
            for queue in broker.all_with_messages():
                depth = queue.machine.depth
                booked = self.book.queues.get(queue.name)
                read = booked.read_to if booked is not None else 0
                ready = to_deliver(queue)
                if ready > read or depth.unacked:
                    return f"{queue.name} has {ready} ready and {depth.unacked} unacked"
                if sends_letters(queue):
                    return f"{queue.name} sends dead letters"
            if hindrance := unrest(host.node):
                return hindrance
        return unmoved(self.hosts) or unmirrored(self.hosts)

    def staying(self) -> str:
        """Return a client that has not left; "" when all have and the nodes have forgotten them."""
        for host in self.hosts:
            broker = host.node.broker
            if broker.connections:
                return f"{host.name} has connections"
            kept_bytes = kept_of_streams(broker) + kept_of_mirrors(broker)
            accounted_bytes = broker.accounted_bytes - kept_bytes
            if accounted_bytes:
                return f"{host.name} accounts {accounted_bytes} bytes"
        return ""


def simulate_mirrored(
    seed: int, nodes: int | None = None, short: bool = False, tight: bool = False
) -> NodesReport:
    """Run a seed with mirrored queues; otherwise like `simulate_nodes`."""
    return simulated(altered(mirrored_plan(seed, nodes), short, tight))


def simulate_moving(
    seed: int, nodes: int | None = None, short: bool = False, tight: bool = False
) -> NodesReport:
    """Run a seed with nodes that join and are removed; otherwise like `simulate_nodes`."""
    return simulated(altered(moving_plan(seed, nodes), short, tight))


def simulate_nodes(
    seed: int, nodes: int | None = None, short: bool = False, tight: bool = False
) -> NodesReport:
    """Run a seed, and return its report. `nodes` is their number; None lets the seed choose. A
    `short` run has half the messages in half the time; in a `tight` one all bounds are small."""
    return simulated(altered(nodes_plan(seed, nodes), short, tight))


def raft_groups_of(host: NodeHost) -> list[RaftGroup]:
    """Return what the last node of a machine has of Raft groups."""
    return [*host.node.broker.store.raft.table.groups.values()] if host.lives else []


def altered(plan: NodesPlan, short: bool, tight: bool) -> NodesPlan:
    """Return a plan as the functions above are asked for it."""
    plan = shortened(plan) if short else plan
    return tightened(plan) if tight else plan


def simulated(plan: NodesPlan) -> NodesReport:
    """Run a plan, and return its report."""
    seed = plan.seed
    report = NodesReport(seed, plan.nodes, parameters=plan.lines())
    run = NodesRun(plan)
    try:
        run.go()
    except Exception as error:  # every exception in there is a finding
        report.failure = f"{type(error).__name__}: {error}"
        report.trace = traceback.format_exc()
    report.phase = run.phase
    report.events = run.timeline.happened
    report.virtual_ms = run.timeline.now_ns // MS
    report.digest = run.timeline.digest()
    report.figures = run.book.figures | run.nemesis.done
    report.figures["answers on exchanges"] = run.registers.answers
    histories = run.groups.histories.values()
    report.figures["terms"] = sum(len(each.leaders) for each in histories)
    report.figures["entries"] = sum(each.commit for each in histories)
    hosts = [*run.hosts, *run.departed]
    groups = [each for host in hosts for each in raft_groups_of(host)]
    report.figures["segments"] = sum(group.next_segment - 1 for group in groups)
    report.figures["snapshots in files"] = sum(group.snapshot_file != NO_FILE for group in groups)
    report.figures["promotions"] = sum(map(len, run.promotions.of_groups.values()))
    report.figures["lives"] = sum(host.lives for host in hosts)
    report.figures["failed starts"] = sum(host.failed_starts for host in hosts)
    report.figures["joined nodes"] = sum(isinstance(host, Newcomer) for host in hosts)
    report.figures["departed nodes"] = len(run.departed)
    report.figures["links lost"] = run.outages.links.total()
    notes = sorted(run.nemesis.notes + [note for host in hosts for note in host.notes])
    report.notes = [f"{at_ns / MS:10.2f}  {line}" for at_ns, line in notes]
    return report
