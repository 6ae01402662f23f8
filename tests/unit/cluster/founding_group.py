"""Nodes of one list that found a cluster, in random runs: links come, break and lose what is on its
way; processes crash in the middle of a write; data directories are lost.
"""

from __future__ import annotations

from random import Random

from sluicemq.cluster.founding import (
    ClusterFounding,
    ClusterKept,
    FoundedCluster,
    FoundingCommand,
    FoundingMessage,
    FoundingProblem,
    FoundingSaid,
    JoinCluster,
    KeepCluster,
    MemberHeard,
    MemberLost,
    SayFounding,
    decode_founding,
    encode_founding,
)
from sluicemq.cluster.node_file import MetMember


class Broken(AssertionError):
    """What must hold did not."""


class Directory:
    """A data directory: its mark, and what is durable of the cluster."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.founded: FoundedCluster | None = None
        self.incarnation = 0


class Link:
    """What two processes have: in each direction what is on its way, and who has not seen its
    end yet."""

    def __init__(self, ends: tuple[int, int]) -> None:
        self.ends = ends
        self.ways: dict[int, list[FoundingMessage]] = {end: [] for end in ends}
        """What is on its way to that node."""
        self.open_at = {*ends}


class FoundingNode:
    """A node: its directory outlives its machine, which is there while it runs."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.directory = Directory("")
        self.machine: ClusterFounding | None = None
        self.inbox: list[FoundingCommand] = []
        self.writing: FoundedCluster | None = None
        self.problems: list[str] = []


class FoundingGroup:
    """All nodes of the list; `random` decides what happens. In half of the runs links are as the
    roster of a member allows them, in the others the machines have nothing but themselves."""

    def __init__(self, size: int, random: Random) -> None:
        self.random = random
        self.has_rosters = random.random() < 0.5
        self.nodes = {number: FoundingNode(number) for number in range(1, size + 1)}
        self.list = [f"h:{number}" for number in self.nodes]
        self.links: dict[frozenset[int], Link] = {}
        self.tokens = 0
        for node in self.nodes.values():
            node.directory = Directory(self.token())

    def token(self) -> str:
        self.tokens += 1
        return f"{self.tokens:032x}"

    # -- processes

    def start(self, node: FoundingNode) -> None:
        directory = node.directory
        directory.incarnation += 1
        own = MetMember(node.number, f"n{node.number}", directory.home, directory.incarnation)
        node.machine = ClusterFounding(own, self.list, self.token(), directory.founded)
        node.inbox, node.writing = [], None
        self.do(node, node.machine.begin())

    def crash(self, node: FoundingNode, keeps_write: bool) -> None:
        if node.writing is not None and keeps_write:
            node.directory.founded = node.writing
        node.machine = node.writing = None
        for key, link in self.links.items():
            if node.number in key:
                link.open_at.discard(node.number)

    def wipe(self, node: FoundingNode) -> None:
        if node.machine is not None:
            self.crash(node, keeps_write=False)
        node.directory = Directory(self.token())

    # -- links

    def connect(self, one: FoundingNode, other: FoundingNode) -> None:
        """A new link, if each takes the other for who it was; the old one is over."""
        key = frozenset((one.number, other.number))
        old = self.links.pop(key, None)
        for node in (one, other):
            if old is not None and node.number in old.open_at:
                self.end_at(old, node)
        if self.has_rosters and (self.refuses(one, other) or self.refuses(other, one)):
            return
        self.links[key] = Link((one.number, other.number))
        one.inbox.append(MemberHeard(other.number))
        other.inbox.append(MemberHeard(one.number))

    def refuses(self, one: FoundingNode, other: FoundingNode) -> bool:
        assert one.machine is not None
        assert other.machine is not None
        founded = one.machine.founded if one.machine.is_member else None
        return founded is not None and (
            founded.members[other.number - 1].home != other.directory.home
            or (other.machine.is_member and other.machine.founded.cluster != founded.cluster)  # type: ignore[union-attr]
        )

    def end_at(self, link: Link, node: FoundingNode) -> None:
        link.open_at.discard(node.number)
        (other,) = {*link.ends} - {node.number}
        node.inbox.append(MemberLost(other))

    def deliver(self, link: Link, to: FoundingNode) -> None:
        if to.number in link.open_at and link.ways[to.number]:
            (other,) = {*link.ends} - {to.number}
            to.inbox.append(FoundingSaid(other, link.ways[to.number].pop(0)))

    # -- turns

    def turn(self, node: FoundingNode) -> None:
        if node.machine is not None and node.inbox:
            self.do(node, node.machine.apply(node.inbox.pop(0)))

    def write_done(self, node: FoundingNode) -> None:
        if node.writing is not None:
            node.directory.founded, node.writing = node.writing, None
            node.inbox.append(ClusterKept())

    def do(self, node: FoundingNode, effects: list[object]) -> None:  # type: ignore[type-arg]
        for effect in effects:
            if isinstance(effect, SayFounding):
                link = self.links.get(frozenset((node.number, effect.node)))
                if link is not None and node.number in link.open_at:
                    message = decode_founding(encode_founding(effect.message))
                    link.ways[effect.node].append(message)
            elif isinstance(effect, KeepCluster):
                node.writing = effect.founded
            elif isinstance(effect, JoinCluster):
                self.joined(node, effect.founded)
            elif isinstance(effect, FoundingProblem):
                node.problems.append(effect.sentence)
        self.check()

    def joined(self, node: FoundingNode, founded: FoundedCluster) -> None:
        if node.directory.founded != founded:
            raise Broken("a member of what is not durable")
        for key, link in self.links.items():
            if self.has_rosters and node.number in key and node.number in link.open_at:
                (other,) = key - {node.number}
                if founded.members[other - 1].home != self.nodes[other].directory.home:
                    self.end_at(link, node)

    def check(self) -> None:
        founded = [each.directory.founded for each in self.nodes.values()]
        if len({each.cluster for each in founded if each is not None}) > 1:
            raise Broken("two clusters")
        for node in self.nodes.values():
            known = node.directory.founded
            if known is not None and known.members[node.number - 1].home != node.directory.home:
                raise Broken("a data directory of a cluster that does not know it")

    # -- runs

    def step(self) -> None:
        random = self.random
        node = self.nodes[random.choice([*self.nodes])]
        what = random.randrange(100)
        if node.machine is None:
            if what < 30:
                self.start(node)
            return
        if what < 40:
            self.turn(node)
        elif what < 65 and self.links:
            link = self.links[random.choice(sorted(self.links, key=sorted))]
            self.deliver(link, self.nodes[random.choice(link.ends)])
        elif what < 80:
            other = self.nodes[random.choice([*self.nodes])]
            if other is not node and other.machine is not None:
                self.connect(node, other)
        elif what < 90:
            self.write_done(node)
        elif what < 95:
            self.crash(node, random.random() < 0.5)
        elif what < 97 and self.links:
            link = self.links[random.choice(sorted(self.links, key=sorted))]
            end = random.choice(link.ends)
            if end in link.open_at:
                self.end_at(link, self.nodes[end])
        elif what == 97:
            self.wipe(node)

    def heal(self) -> None:
        """Everything runs, is linked and gets turns until nothing moves."""
        for node in self.nodes.values():
            if node.machine is None:
                self.start(node)
        numbers = [*self.nodes]
        for one in numbers:
            for other in numbers[one:]:
                self.connect(self.nodes[one], self.nodes[other])
        for _ in range(50):
            for node in self.nodes.values():
                self.write_done(node)
                while node.inbox:
                    self.turn(node)
            for link in self.links.values():
                for end in link.ends:
                    self.deliver(link, self.nodes[end])

    @property
    def is_known_lost(self) -> bool:
        """A data directory is lost that belongs to a cluster, or was heard by who has founded
        one."""
        founded = [each.directory.founded for each in self.nodes.values()]
        return any(
            each is not None and each.members[number - 1].home != node.directory.home
            for each in founded
            for number, node in self.nodes.items()
        )

    @property
    def members(self) -> list[int]:
        return [
            number
            for number, node in self.nodes.items()
            if node.machine is not None and node.machine.is_member
        ]


def run(seed: int, size: int) -> FoundingGroup:
    """A whole run. Raises Broken when something does not hold."""
    group = FoundingGroup(size, Random(f"founding {seed}"))
    for _ in range(120 * size):
        group.step()
    group.heal()
    if not group.is_known_lost and group.members != [*group.nodes]:
        raise Broken(f"only {group.members} are members")
    return group
