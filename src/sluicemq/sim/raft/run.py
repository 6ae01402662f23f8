"""One run: a group of three or five, its clients, faults; then healing, after which there must be
progress, equal logs, and silence.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from sluicemq.errors import Refused
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.messages import RaftMessage
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.sim.raft.checkers import RaftCheckers
from sluicemq.sim.raft.clients import Clients, SimClients
from sluicemq.sim.raft.events import Events
from sluicemq.sim.raft.host import SimMember
from sluicemq.sim.raft.nemesis import Nemesis
from sluicemq.sim.raft.net import RaftNet
from sluicemq.sim.raft.promise import rule
from sluicemq.sim.raft.stored_member import StoredMember

STEPS = 9000
"""Events of the phase with faults."""

HEALING_MS = 20_000
"""A healed group must be done within that time; it takes a few election timeouts."""

LATEST_MS = 200
"""No message travels longer than that."""


@dataclass(slots=True)
class Report:
    """The figures of a finished run. Plain data: it travels between processes."""

    seed: int
    failure: str = ""
    trace: str = ""
    phase: str = ""
    events: int = 0
    digest: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return one line about the run, for a list of runs."""
        shown = " ".join(f"{value} {name}" for name, value in self.figures.items())
        verdict = f"FAILED in {self.phase}: {self.failure}" if self.failure else "passed"
        return f"seed {self.seed:6} {self.digest:08x} {self.events:6} events {shown}  {verdict}"


class RaftRun:
    """A run in progress, with its group."""

    member_type: type[SimMember] = SimMember

    def __init__(self, seed: int, steps: int) -> None:
        self.seed = seed
        self.steps = steps
        self.phase = "birth"
        self.events = events = Events(seed)
        names = (*range(1, events.random.choice([3, 3, 5]) + 1),)
        birth = Configuration(names)
        self.checkers = self.make_checkers(birth)
        self.net = RaftNet(events, self.deliver, self.tell_link)
        for name in names:
            self.net.join(name, range(1, name))
        self.hosts: dict[int, SimMember] = {}
        for name in names:
            disk = self.member_type.disk_type()
            disk.platter.snapshot = LogSnapshot(0, 0, birth)
            self.hosts[name] = self.member_type(name, disk, events, self.net, self.checkers)
        self.clients = self.make_clients(events.random.randint(2, 8))
        self.nemesis = Nemesis(events, self.net, self.checkers, self.hosts, self.member_type)

    def make_checkers(self, birth: Configuration) -> RaftCheckers:
        """Return the checkers of the run's promises."""
        return RaftCheckers(birth)

    def make_clients(self, count: int) -> SimClients:
        """Return the clients of the group."""
        return Clients(self.events, self.hosts, count)

    def deliver(self, message: RaftMessage) -> None:
        """Give a member a message that has arrived."""
        self.hosts[message.to].hear(message)

    def tell_link(self, name: int, other: int, is_up: bool) -> None:
        """Tell a member about its link to another."""
        host = self.hosts[name]
        host.do(lambda: (host.raft.link_back if is_up else host.raft.link_lost)(other))

    def go(self) -> None:
        """Run all phases, one after the other."""
        self.phase = "faults"
        self.events.go_on(self.steps)
        self.phase = "healing"
        self.nemesis.call_off()
        self.until(self.is_repaired, "the members are not all right again")
        self.phase = "progress"
        answers = self.clients.answers()
        self.until(lambda: self.has_answered(answers), "clients get no answers")
        self.phase = "silence"
        self.clients.is_over = True
        self.until(self.is_quiet, "the group does not fall quiet")
        self.pass_ms(LATEST_MS)
        rule(self.is_quiet(), "what comes late wakes a quiet group")
        sent = self.net.sent
        self.pass_ms(LATEST_MS)
        rule(self.net.sent == sent, "a quiet group sends something")
        for host in self.hosts.values():
            if host.is_up and not host.is_amnesiac:
                host.check_log()

    def until(self, condition: Callable[[], bool], failure: str) -> None:
        """Go on until the condition holds."""
        end_ms = self.events.now_ms + HEALING_MS
        while not condition():
            rule(self.events.now_ms < end_ms, failure)
            self.events.step()

    def pass_ms(self, duration_ms: float) -> None:
        """Go on for this many milliseconds."""
        end_ms = self.events.now_ms + duration_ms
        while self.events.now_ms < end_ms:
            self.events.step()

    def leader(self) -> SimMember | None:
        """Return the leader of the newest term."""
        leading = [each for each in self.hosts.values() if each.raft.is_leader]
        return max(leading, key=lambda each: each.raft.member.term, default=None)

    def is_repaired(self) -> bool:
        """Tell whether no member of the leader's group has forgotten anything, all have and have
        applied all of its log, and removed members have gone. A leader that does not know what is
        committed may be followed by one of another group; so may one whose term is over."""
        leader = self.leader()
        if leader is None or leader.raft.leading is None or not leader.raft.leading.knows_commit:
            return False
        members = leader.raft.configuration.members
        term = leader.raft.member.term
        if any(self.hosts[name].raft.member.term > term for name in members):
            return False
        for name in members:
            if self.hosts[name].is_amnesiac:
                self.replace(leader, name)
                return False
        last = leader.raft.member.log.commit
        if any(self.hosts[name].applied < last - 20 for name in members):
            return False
        log = leader.raft.member.log
        if log.configurations.current_index > log.commit:
            return False
        for host in self.hosts.values():
            if host.is_up and host.name not in members:
                self.nemesis.crash_of(host)
        return True

    def replace(self, leader: SimMember, name: int) -> None:
        """Remove a member that has forgotten something, as soon as possible."""
        try:
            leader.raft.remove(name)
            leader.pump()
        except Refused:
            return

    def has_answered(self, before: list[int]) -> bool:
        """Tell whether clients got answers of every kind."""
        answers = self.clients.answers()
        return all(now >= was + 3 for now, was in zip(answers, before, strict=True))

    def is_quiet(self) -> bool:
        """Tell whether all members are quiet."""
        leader = self.leader()
        return leader is not None and all(
            self.hosts[name].raft.is_quiet and not self.hosts[name].disk.waiting
            for name in leader.raft.configuration.members
        )

    def report(self, failure: str, trace: str) -> Report:
        """Return the report of this run."""
        rafts = [host.raft for host in self.hosts.values()]
        figures = {
            "members": len(rafts),
            "leaders": len(self.checkers.leaders),
            "committed": self.checkers.commit,
            "changes": len(self.checkers.configurations) - 1,
            **self.clients.figures(),
            **self.checkers.happened,
        }
        return Report(
            self.seed,
            failure,
            trace,
            self.phase,
            self.events.happened,
            self.events.digest,
            figures,
            self.events.notes[-40:] if failure else [],
        )


class StoredRun(RaftRun):
    """A run whose members keep their logs in the storage of a node."""

    member_type = StoredMember


def simulate(seed: int, steps: int = STEPS, *, with_storage: bool = False) -> Report:
    """Run a seed. With storage the members keep their logs in the storage of a node."""
    return outcome_of((StoredRun if with_storage else RaftRun)(seed, steps))


def outcome_of(run: RaftRun) -> Report:
    """Run everything. An assertion that fails, here or in Raft, is the run's failure."""
    try:
        run.go()
    except AssertionError as broken:
        return run.report(str(broken) or "an assertion", traceback.format_exc())
    return run.report("", "")
