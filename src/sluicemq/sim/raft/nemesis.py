"""Injects faults, and acts as operator meanwhile. Each seed has its own mixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluicemq.errors import Refused

if TYPE_CHECKING:
    from sluicemq.sim.raft.checkers import RaftCheckers
    from sluicemq.sim.raft.events import Events
    from sluicemq.sim.raft.host import SimMember
    from sluicemq.sim.raft.net import RaftNet

MEMBERS_MAX = 6
"""The most members of a group, with added ones."""

QUICK: list[tuple[float, float]] = [(0.2, 1), (0.5, 4)]
MIXED: list[tuple[float, float]] = [*QUICK, (2, 15), (20, 200)]
SLOW: list[tuple[float, float]] = [(2, 15), (20, 80), (40, 200)]
"""Durations of syncs in milliseconds: with slow ones an index is overwritten before it
is durable.
"""


class Nemesis:
    """Acts every so often until it is called off."""

    def __init__(
        self,
        events: Events,
        net: RaftNet,
        checkers: RaftCheckers,
        group: dict[int, SimMember],
        member_type: type[SimMember],
    ) -> None:
        self.events = events
        self.net = net
        self.checkers = checkers
        self.group = group
        self.member_type = member_type
        self.is_over = False
        self.names = max(group)
        self.every_ms = events.between(8, 40)
        self.done: dict[str, int] = {}
        random = events.random
        self.paces = random.choice([QUICK, MIXED, SLOW])
        deeds: list[tuple[Callable[[], None], int]] = [
            (self.crash, 3),
            (self.blink, 3),
            (self.start, 8),
            (self.isolate, 2),
            (self.isolate_leader, 5),
            (self.split, 2),
            (self.one_way, 2),
            (self.heal, 8),
            (self.pause, 1),
            (self.pause_leader, 3),
            (self.resume, 4),
            (self.transfer, 3),
            (self.let_wait, 8),
            (self.add, 3),
            (self.promote, 6),
            (self.remove, 2),
            (self.change_early, 2),
            (self.disks, 2),
            (self.damage, 1),
            (self.upgrade, 1),
        ]
        always = {"start", "heal", "resume", "promote"}
        self.deeds = [
            (deed, weight)
            for deed, weight in deeds
            if deed.__name__ in always or events.chance(0.7)
        ]
        net.loss = random.choice([0, 0.01, 0.05, 0.15])
        net.doubling = random.choice([0, 0.02, 0.1])
        net.slow = random.choice([0, 0.02, 0.1, 0.3])
        for host in group.values():
            self._temper(host)
        self._act_later()

    def _temper(self, host: SimMember) -> None:
        random = self.events.random
        host.snapshot_every = random.choice([6, 12, 30])
        host.sync_ms = random.choice(self.paces)

    def _act_later(self) -> None:
        self.events.after(self.events.random.expovariate(1 / self.every_ms), self._act)

    def _act(self) -> None:
        if self.is_over:
            return
        deeds, weights = zip(*self.deeds, strict=True)
        (deed,) = self.events.random.choices(deeds, weights)
        try:
            deed()
        except Refused as refusal:
            self.events.note(f"{deed.__name__} was refused: {refusal}")
        self.done[deed.__name__] = self.done.get(deed.__name__, 0) + 1
        self._act_later()

    # the members

    @property
    def hosts(self) -> list[SimMember]:
        """Return all members that there are."""
        return [*self.group.values()]

    def leader(self) -> SimMember | None:
        """Return a member that leads, or believes so."""
        leading = [each for each in self.hosts if each.is_up and each.raft.is_leader]
        moving = [each for each in leading if not each.is_paused]
        return self.events.random.choice(moving) if moving else None

    def any_of(self, hosts: list[SimMember]) -> SimMember | None:
        """Return a random one of them, None without any."""
        return self.events.random.choice(hosts) if hosts else None

    # processes

    def crash(self) -> None:
        """Kill a process, which loses unsynced data."""
        host = self.any_of([each for each in self.hosts if each.is_up])
        if host is not None:
            self.crash_of(host)

    def crash_of(self, host: SimMember) -> None:
        """Kill the process of this member."""
        host.crash()
        self.net.down.add(host.name)
        self.net.look()

    def blink(self) -> None:
        """Kill a process and start it again at once."""
        host = self.any_of([each for each in self.hosts if each.is_up])
        if host is not None:
            self.crash_of(host)
            self.start_of(host)

    def start(self) -> None:
        """Start a process that is down, perhaps with a disk of another speed."""
        host = self.any_of([each for each in self.hosts if not each.is_up])
        if host is not None:
            self.start_of(host)

    def start_of(self, host: SimMember) -> None:
        """Start the process of this member."""
        self.net.down.discard(host.name)
        host.start()
        self.net.look()
        self.events.note(f"{host.name} starts")

    def pause(self) -> None:
        """Freeze a process for a while, without its knowing."""
        self._pause(self.any_of([each for each in self.hosts if each.is_up]))

    def pause_leader(self) -> None:
        """Freeze the process of a leader."""
        self._pause(self.leader())

    def _pause(self, host: SimMember | None) -> None:
        if host is not None:
            host.is_paused = True
            self.net.down.add(host.name)
            self.net.look()
            self.events.note(f"{host.name} stops moving")

    def resume(self) -> None:
        """Let a frozen process run again."""
        host = self.any_of([each for each in self.hosts if each.is_paused])
        if host is not None:
            self.resume_of(host)

    def resume_of(self, host: SimMember) -> None:
        """Let this member's process run again."""
        self.net.down.discard(host.name)
        self.net.look()
        self.events.note(f"{host.name} moves again")
        host.resume()

    def upgrade(self) -> None:
        """Give a member a newer machine version from its next start on."""
        host = self.any_of(self.hosts)
        if host is not None and host.version < 3:
            host.version += 1

    def disks(self) -> None:
        """Make a disk slower, or faster."""
        host = self.any_of(self.hosts)
        if host is not None:
            self._temper(host)

    def damage(self) -> None:
        """Damage a disk, which the next start detects: the member has forgotten something, and
        knows it. A majority never has."""
        voters = {name for each in self.hosts for name in each.raft.configuration.voters}
        sizes = [len(each.raft.configuration.voters) for each in self.hosts]
        forgetful = sum(self.group[name].is_amnesiac for name in voters)
        host = self.any_of([each for each in self.hosts if not each.is_up])
        smallest = min((size for size in sizes if size), default=0)
        if host is not None and not host.is_amnesiac and forgetful + 1 <= (smallest - 1) // 2:
            host.damage()
            self.start_of(host)
            self.events.note(f"{host.name} has lost its disk")

    # the network

    def block(self, what: str, pairs: set[tuple[int, int]]) -> None:
        """Block these ways of the network."""
        self.events.note(what)
        self.net.block(pairs)

    def heal(self) -> None:
        """Restore all links between members."""
        if self.net.blocked:
            self.block("the network is whole", set())

    def isolate(self) -> None:
        """Cut a member off from all others."""
        host = self.any_of(self.hosts)
        if host is not None:
            self._isolate(host)

    def isolate_leader(self) -> None:
        """Cut a leader off from all others."""
        host = self.leader()
        if host is not None:
            self._isolate(host)

    def _isolate(self, host: SimMember) -> None:
        others = [name for name in self.group if name != host.name]
        ways = {way for other in others for way in ((host.name, other), (other, host.name))}
        self.block(f"{host.name} is cut off", ways)

    def split(self) -> None:
        """Split the members into two parts without contact."""
        one = {name for name in self.group if self.events.chance(0.5)}
        other = {*self.group} - one
        ways = {way for a in one for b in other for way in ((a, b), (b, a))}
        self.block(f"{sorted(one)} and {sorted(other)} are parted", ways)

    def one_way(self) -> None:
        """Block some ways in one direction only."""
        names = [*self.group]
        ways = {(a, b) for a in names for b in names if a != b and self.events.chance(0.3)}
        self.block(f"nothing goes {sorted(ways)}", ways)

    # the operator

    def transfer(self) -> None:
        """Make another member the leader."""
        host = self.leader()
        if host is not None:
            heir = self.events.random.choice(host.raft.configuration.voters)
            self.events.note(f"{host.name} is told to hand over to {heir}")
            raft = host.raft
            host.do(lambda: raft.transfer(heir))

    def let_wait(self) -> None:
        """Tell the leader that nobody at some members waits for commits."""
        host = self.leader()
        if host is not None:
            members = host.raft.configuration.members
            patient = [each for each in members if self.events.chance(0.6)]
            self.events.note(f"{patient} may wait for what {host.name} says")
            raft = host.raft
            host.do(lambda: raft.let_wait(patient))

    def add(self) -> None:
        """Add a new member, as a learner with an empty disk."""
        host = self.leader()
        if host is None or len(host.raft.configuration.members) >= MEMBERS_MAX:
            return
        name = self.names + 1
        raft = host.raft
        host.do(lambda: self._told(raft.add_learner(name), f"{host.name} adds {name}"))
        self.names = name
        if host.is_up:
            self.net.join(name, self.group)
            disk = self.member_type.disk_type()
            new = self.member_type(name, disk, self.events, self.net, self.checkers)
            self.group[name] = new
            self._temper(new)

    def promote(self) -> None:
        """Make a learner a voter."""
        host = self.leader()
        if host is not None and host.raft.configuration.learners:
            name = self.events.random.choice(host.raft.configuration.learners)
            raft = host.raft
            host.do(lambda: self._told(raft.promote(name), f"{host.name} promotes {name}"))

    def remove(self) -> None:
        """Remove a member, perhaps the leader itself."""
        host = self.leader()
        if host is not None and len(host.raft.configuration.voters) > 2:
            name = self.events.random.choice(host.raft.configuration.members)
            self.remove_of(host, name)

    def remove_of(self, host: SimMember, name: int) -> None:
        """Remove this member, unless too few would be left that remember."""
        raft = host.raft
        left = [self.group[each] for each in raft.configuration.voters if each != name]
        if sum(each.is_amnesiac for each in left) <= (len(left) - 1) // 2:
            host.do(lambda: self._told(raft.remove(name), f"{host.name} removes {name}"))

    def change_early(self) -> None:
        """Change members as soon as there is a leader, whatever it knows."""
        for host in self.hosts:
            leading = host.raft.leading
            if host.is_up and not host.is_paused and leading and not leading.knows_commit:
                self.remove_of(host, self.events.random.choice(host.raft.configuration.members))
                return

    def _told(self, index: int, what: str) -> None:
        self.events.note(f"{what}, at {index}")

    # afterwards

    def call_off(self) -> None:
        """Heal everything: the links, the processes, the disks' speed."""
        self.is_over = True
        self.events.note("everything is healed")
        self.net.loss = self.net.doubling = self.net.slow = 0
        self.net.block(())
        newest = max(each.version for each in self.hosts)
        for host in self.hosts:
            host.sync_ms = (0.5, 2)
            if host.is_up and host.raft.member.version < newest:
                if host.is_paused:
                    self.resume_of(host)
                self.crash_of(host)
            host.version = newest
            if not host.is_up:
                self.start_of(host)
            elif host.is_paused:
                self.resume_of(host)
