"""Nodes that are linked, over the pipes of the simulation, without faults but those of the test."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from sluicemq.cluster import cluster_port as c
from sluicemq.cluster.bounds import LinkBounds
from sluicemq.cluster.cluster import NodeCluster
from sluicemq.cluster.introduction import NodeCard
from sluicemq.cluster.members import Member
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.world import Log, World
from sluicemq.sim.cluster.net import PipeNet, PipeNetwork
from sluicemq.sim.disk import SimDisk, SimFiles
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.units import MS
from sluicemq.sim.world import SimClock, SimDice, SimMemory

SECRET = b"a secret of some length"
PORT = 25_672
TURNS = 50


class Lines(Log):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, level: str, text: str) -> None:
        self.lines.append(text)


class Inbox(Actor):
    """Keeps what is posted to it."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.kept: list[object] = []

    def receive(self, message: object) -> None:
        self.kept.append(message)

    def of(self, kind: type) -> list[object]:
        return [each for each in self.kept if isinstance(each, kind)]

    @property
    def payloads(self) -> list[bytes]:
        return [each.payload for each in self.kept if isinstance(each, c.PeerMessage)]


class Machine:
    """A node with an inbox that handles and follows everything."""

    def __init__(self, run: Run, number: int, host: str, card: NodeCard, secret: bytes) -> None:
        self.host = host
        self.net = PipeNet(run.network, host)
        self.log = Lines()
        random = Random(f"{host} {number}")
        self.world = World(
            SimClock(run.timeline),
            SimDice(random),
            SimDisk(run.timeline, random, SimFiles()),
            self.net,
            SimMemory(1 << 30),
            self.log,
        )
        self.run = run
        self.is_frozen = False
        self.scheduler = Scheduler()
        self.scheduler.wake = self.wake
        self.faults: list[Exception] = []
        self.scheduler.witness = lambda _, error: self.faults.append(error)
        others = [each for each in (1, 2, 3) if each != number]
        members = [Member(each, f"h{each}", PORT) for each in others]
        self.cluster = NodeCluster(
            self.scheduler, self.world, card, secret, members, bounds=run.bounds
        )
        self.inbox = Inbox(self.scheduler)
        for frame_type in (c.RAFT_CONTROL, c.RAFT_DATA, c.GRANTS):
            self.cluster.handle(frame_type, self.inbox)
        self.cluster.follow(self.inbox)
        self.cluster.listen(host, PORT)
        self.cluster.start_links()

    def wake(self) -> None:
        self.run.timeline.after(1000, self.host, "run", self.go)

    def go(self, _: object) -> None:
        if not self.is_frozen and self.scheduler.run(TURNS):
            self.wake()

    def up(self, node: int) -> bool:
        return self.cluster.standing(node) is c.NodeStanding.UP

    def said(self, words: str) -> bool:
        return any(words in line for line in self.log.lines)


class Run:
    def __init__(self, bounds: LinkBounds | None = None) -> None:
        self.timeline = Timeline()
        self.network = PipeNetwork(self.timeline, Random(7))
        self.network.slow = 0
        self.bounds = bounds

    def machine(
        self, number: int, host: str = "", secret: bytes = SECRET, **changed: object
    ) -> Machine:
        host = host or f"h{number}"
        token = f"{host} {number}".ljust(16, ".").encode()
        card = NodeCard("test", f"n{number}", number, 1, token, token)
        return Machine(self, number, host, card._replace(**changed), secret)  # type: ignore[arg-type]

    def until(self, done: Callable[[], object], limit_ms: int = 60_000) -> None:
        until_ns = self.timeline.now_ns + limit_ms * MS
        while not done():
            assert self.timeline.now_ns < until_ns, "it does not come"
            self.timeline.step()

    def rest(self, passed_ms: int) -> None:
        until_ns = self.timeline.now_ns + passed_ms * MS
        while self.timeline.now_ns < until_ns:
            self.timeline.step()

    def pair(self) -> tuple[Machine, Machine]:
        one, two = self.machine(1), self.machine(2)
        self.until(lambda: one.up(2) and two.up(1))
        return one, two
