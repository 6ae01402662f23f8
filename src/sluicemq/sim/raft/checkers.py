"""The rules checked after every event, with a view of all members and all disks.

election safety        one leader a term, and one vote a member and term
log matching           an index and a term name one entry, with one entry before it
leader completeness    every elected leader has every committed entry
state machine safety   every index is applied as the same entry, and leaves the same bytes
durability             acknowledged entries and votes are on the disk, committed ones on those
                       of a majority
members                one change at a time, none before the leader's own term is committed;
                       a snapshot has the configuration that was committed below it
quiet                  a leader falls quiet only when all members have everything
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.raft.configuration import Configuration, decoded
from sluicemq.raft.entry import CONFIGURATION, LogEntry
from sluicemq.raft.messages import AppendAnswer, RaftMessage, VoteAnswer
from sluicemq.raft.ready import NOTHING
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.sim.raft.promise import rule

if TYPE_CHECKING:
    from sluicemq.raft.ready import RaftReady
    from sluicemq.sim.raft.port import CheckedMember


class RaftCheckers:
    """Checks the rules for one run."""

    def __init__(self, birth: Configuration) -> None:
        self.hosts: dict[int, CheckedMember] = {}
        self.leaders: dict[int, int] = {}
        """The leaders by term."""
        self.votes: dict[tuple[int, int], int] = {}
        """The votes by voter and term."""
        self.known: dict[tuple[int, int], tuple[LogEntry, int]] = {}
        """By index and term: the entry, and the term before it."""
        self.committed: dict[int, tuple[int, int]] = {}
        """By index, the term of the entry that some leader has committed, and the term of that
        leader."""
        self.commit = 0
        self.last_applied: dict[int, LogEntry] = {}
        self.digests: dict[int, int] = {0: 0}
        self.configurations: list[tuple[int, Configuration]] = [(0, birth)]
        """The committed configurations with their indexes."""
        self.commit_seen: dict[int, int] = {}
        """By member, its last commit index."""
        self.led: dict[int, int] = {}
        """By member, the last term in which it led."""
        self.happened = dict.fromkeys(("truncations", "snapshots", "silences", "pieces"), 0)
        """Counts of the events that put the rules to the test."""

    # acts of members

    def started(self, host: CheckedMember) -> None:
        """Note that a member has started with the content of its disk."""
        self.hosts[host.name] = host
        member = host.raft.member
        self.commit_seen[host.name] = member.log.commit
        vote = self.votes.get((host.name, member.term), member.vote)
        rule(vote == member.vote or host.is_amnesiac, f"{host.name} has forgotten its vote")

    def look(self, host: CheckedMember, ready: RaftReady) -> None:
        """Check a member after an event, before it acts on it."""
        if ready is NOTHING:
            leading = host.raft.leading
            if leading is not None and leading.is_quiet:
                self._is_silent(host)
            return
        member = host.raft.member
        self.happened["truncations"] += ready.truncate_from != 0
        self.happened["snapshots"] += ready.install is not None
        self.happened["pieces"] += len(ready.pieces)
        log = member.log
        for entry in ready.entries:
            before = log.term_at(entry.index - 1) if entry.index - 1 >= log.snapshot.index else 0
            was = self.known.setdefault((entry.index, entry.term), (entry, before))
            rule(was == (entry, before), f"logs differ at {entry.index} of term {entry.term}")
        if host.raft.leading is not None:
            self._leads(host, ready)
        if log.commit > self.commit_seen[host.name]:
            self.commit_seen[host.name] = log.commit
            if self.led.get(host.name) == member.term:
                self._commits(host)
            rule(log.commit <= self.commit, f"{host.name} takes {log.commit} for committed")

    def _leads(self, host: CheckedMember, ready: RaftReady) -> None:
        member = host.raft.member
        self.led[host.name] = member.term
        if member.term not in self.leaders:
            self.leaders[member.term] = host.name
            self._is_complete(host)
        rule(self.leaders[member.term] == host.name, f"two leaders in term {member.term}")
        changes = [entry for entry in ready.entries if entry.kind == CONFIGURATION]
        if changes:
            log = member.log
            rule(len(changes) == 1, "one change of members at a time")
            rule(
                log.commit >= log.snapshot.index and log.term_at(log.commit) == member.term,
                f"members change before {host.name} has committed an entry of its term",
            )
        assert host.raft.leading is not None
        if host.raft.leading.is_quiet:
            self._is_silent(host)

    def _is_complete(self, host: CheckedMember) -> None:
        """Check a new leader's log. Leaders of later terms may have committed more before it heard
        of its election."""
        member = host.raft.member
        for index in range(member.log.snapshot.index + 1, self.commit + 1):
            term, in_term = self.committed[index]
            rule(
                in_term > member.term or member.log.matches(index, term),
                f"{host.name} leads and lacks the committed entry at {index}",
            )

    def _commits(self, host: CheckedMember) -> None:
        member = host.raft.member
        log = member.log
        rule(log.term_at(log.commit) == member.term, "an entry of a former term was counted")
        voters = [self.hosts[name] for name in log.configuration.voters]
        durable = [
            each
            for each in voters
            if each.is_amnesiac or each.disk.platter.has(log.commit, member.term)
        ]
        rule(
            len(durable) >= log.configuration.majority,
            f"{log.commit} is committed and not durable on a majority",
        )
        for index in range(max(log.snapshot.index, 0) + 1, log.commit + 1):
            term, _ = self.committed.setdefault(index, (log.term_at(index), member.term))
            rule(term == log.term_at(index), f"two entries are committed at {index}")
        for index in range(self.commit + 1, log.commit + 1):
            entry = log.entry_at(index)
            if entry.kind == CONFIGURATION:
                self.configurations.append((index, decoded(bytes(entry.data))))
        self.commit = max(self.commit, log.commit)
        for other in self.hosts.values():
            if other.is_up and other.raft.is_leader and other.raft.member.term > member.term:
                self._is_complete(other)

    def _is_silent(self, leader: CheckedMember) -> None:
        self.happened["silences"] += 1
        last = leader.raft.member.log.last_index
        for name in leader.raft.configuration.members:
            log = self.hosts[name].raft.member.log
            rule(log.last_index >= last, f"the group is quiet, and {name} does not have {last}")

    def applied(self, host: CheckedMember, entry: LogEntry) -> None:
        """Note that a member has applied an entry."""
        was = self.last_applied.setdefault(entry.index, entry)
        rule(was == entry, f"two entries are applied at {entry.index}")
        self._same_bytes(host, entry.index)

    def installed(self, host: CheckedMember, snapshot: LogSnapshot) -> None:
        """Note that a member has taken a snapshot for its machine."""
        self._same_bytes(host, snapshot.index)
        self.snapshot(host, snapshot)

    def snapshot(self, host: CheckedMember, snapshot: LogSnapshot) -> None:
        """Note that a member takes a snapshot, its own or a leader's, for its log."""
        rule(snapshot.index <= self.commit, f"{host.name} has a snapshot of what is not committed")
        held = next(held for at, held in reversed(self.configurations) if at <= snapshot.index)
        rule(
            snapshot.configuration == held,
            f"the snapshot at {snapshot.index} says {snapshot.configuration}, and it was {held}",
        )

    def _same_bytes(self, host: CheckedMember, index: int) -> None:
        digest = self.digests.setdefault(index, host.register.digest)
        rule(digest == host.register.digest, f"{host.name} is another machine after {index}")

    # messages of members

    def says(self, host: CheckedMember, message: RaftMessage) -> None:
        """Check that everything a member's message promises is on its disk."""
        platter = host.disk.platter
        if isinstance(message, AppendAnswer) and message.match:
            log = host.raft.member.log
            is_there = message.match <= platter.last_index
            if message.match > log.snapshot.index:
                is_there = platter.has(message.match, log.term_at(message.match))
            rule(
                is_there,
                f"{host.name} acknowledges {message.match} and does not have it on its disk",
            )
        elif isinstance(message, VoteAnswer) and message.is_granted and not message.is_pre:
            rule(
                platter.term > message.term or platter.vote == message.to,
                f"{host.name} gives a vote that is not on its disk",
            )
            was = self.votes.setdefault((host.name, message.term), message.to)
            rule(was == message.to, f"{host.name} votes twice in term {message.term}")
