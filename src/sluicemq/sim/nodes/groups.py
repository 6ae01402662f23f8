"""Checks Raft groups whose members are in whole nodes, with a view of all nodes and all disks.

election safety        one leader a term, and one vote a member and term
log matching           an index and a term name one entry, with one entry before it
leader completeness    every elected leader has every committed entry
commitment             entries of the leader's own term, on the disks of a majority
application            the same index leaves the same bytes everywhere
durability             acknowledged entries and votes are on the disk

A member is checked after a turn of its node in which it has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from sluicemq.raft.messages import AppendAnswer, VoteAnswer
from sluicemq.sim.records import promise

if TYPE_CHECKING:
    from sluicemq.raft.messages import RaftMessage
    from sluicemq.raft.raft import Raft
    from sluicemq.sim.durable_image import DurableImage
    from sluicemq.sim.timeline import Timeline


class GroupMember(NamedTuple):
    """A member of a group in the present life of its node. `disk` is its durable state, and `name`
    what the group knows it by, also when it has gone on alone by another name."""

    group: int
    node: int
    raft: Raft
    disk: DurableImage
    name: int

    def has(self, index: int, term: int) -> bool:
        """Tell whether it has this entry on its disk. It has everything below its snapshot, and
        everything that a start found."""
        log = self.raft.member.log
        if index <= log.snapshot.index:
            return True
        if self.disk.raft_entries.get(self.group, {}).get(index) == term:
            return True
        return index <= log.last_index and not log.numbers[index - log.snapshot.index - 1]


class GroupHistory:
    """Everything that has happened in one group."""

    def __init__(self, group: int, timeline: Timeline) -> None:
        self.title = f"group {group}"
        self.timeline = timeline
        self.members: dict[int, GroupMember] = {}
        """The present members by node."""
        self.leaders: dict[int, int] = {}
        """The leaders by term."""
        self.votes: dict[tuple[int, int], int] = {}
        """The votes by voter and term."""
        self.known: dict[tuple[int, int], tuple[int, int]] = {}
        """By index and term: the term before it, and a digest of the entry."""
        self.committed: dict[int, tuple[int, int]] = {}
        """By index, the term of the committed entry, and the term of the leader that committed it
        first."""
        self.digests: dict[int, int] = {}
        """By index, the digest of the state after applying it."""
        self.commit = 0
        self.commits: list[tuple[int, int]] = []
        """The values of `commit`, and when it got them."""
        self.served_ns = -1
        """When a member last served the queue, if it is a mirrored one; -1: none has."""
        self.seen: dict[int, tuple[int, ...]] = {}
        """By node, the state of its member when last checked, in the present life."""
        self.commit_seen: dict[int, int] = {}
        self.led: dict[int, int] = {}
        """By node, the last term in which it led."""

    def go_on_from(self, former: GroupHistory, upto: int) -> None:
        """Begin with what another group has agreed on, up to this index: a member of it goes on as
        this one."""
        self.title = f"{former.title} after a promotion"
        self.known = {**former.known}
        self.committed = {at: what for at, what in former.committed.items() if at <= upto}
        self.digests = {at: what for at, what in former.digests.items() if at <= upto}
        self.commit = upto
        for commit, at_ns in former.commits:
            self.commits.append((min(commit, upto), at_ns))
            if commit >= upto:
                break

    def upto(self, raft: Raft) -> int:
        """Return how much of what this group has agreed on a member has."""
        log = raft.member.log
        upto = min(log.last_index, self.commit)
        while upto > log.snapshot.index and log.term_at(upto) != self.committed[upto][0]:
            upto -= 1
        return upto

    # -- a member after a turn of its node

    def begin(self, each: GroupMember) -> None:
        """Note a member that is new, or in a new life of its node, and check all of it."""
        self.members[each.node] = each
        self.seen.pop(each.node, None)
        self.commit_seen.pop(each.node, None)

    def look(self, each: GroupMember) -> None:
        """Check a member, if it has changed since the last time."""
        member, log = each.raft.member, each.raft.member.log
        leads = each.raft.is_leader
        now = (member.term, member.vote, log.last_index, log.last_term, log.commit, leads)
        if self.seen.get(each.node) == now:
            return
        self.seen[each.node] = now
        commit_seen = self.commit_seen.get(each.node, 0)
        first = max(log.snapshot.index, commit_seen) + 1
        for index in range(first, log.last_index + 1):
            entry = log.entry_at(index)
            before = log.term_at(index - 1)
            # Committed entries may have been trimmed, and contents are costly.
            is_plain = index > log.commit and isinstance(entry.data, bytes)
            digest = crc32(bytes(entry.data)) if is_plain else 0
            was = self.known.setdefault((index, entry.term), (before, digest))
            same = was[0] == before and (was[1] == digest or not (digest and was[1]))
            promise(same, self.title, "has different logs at", index, "of term", entry.term)
        if leads:
            self._leads(each)
        if log.commit > commit_seen:
            self.commit_seen[each.node] = log.commit
            self._commits(each, first)

    def _leads(self, each: GroupMember) -> None:
        term = each.raft.member.term
        self.led[each.node] = term
        if term not in self.leaders:
            self.leaders[term] = each.node
            self._is_complete(each)
        promise(self.leaders[term] == each.node, self.title, "has two leaders in term", term)

    def _is_complete(self, each: GroupMember) -> None:
        """Check a new leader's log. Leaders of later terms may have committed more before it heard
        of its election."""
        member = each.raft.member
        for index in range(member.log.snapshot.index + 1, self.commit + 1):
            term, by = self.committed[index]
            there = by > member.term or member.log.matches(index, term)
            promise(there, self.title, "is led by", each.node, "which lacks", index)

    def _commits(self, each: GroupMember, first: int) -> None:
        """Check what a member has committed from the index `first` on."""
        member, log = each.raft.member, each.raft.member.log
        led = self.led.get(each.node, 0)
        if led and log.commit > self.commit:
            term = log.term_at(log.commit)
            promise(
                term == led or led < member.term, self.title, "counts an entry of a former term"
            )
            if term == led:  # it may have heard of a later term in the same turn
                self._is_on_majority(each, led)
                for index in range(self.commit + 1, log.commit + 1):
                    self.committed[index] = log.term_at(index), led
                self.commit = log.commit
                self.commits.append((log.commit, self.timeline.now_ns))
        known = log.commit <= self.commit
        promise(known, self.title, "node", each.node, "takes for committed", log.commit)
        for index in range(first, log.commit + 1):
            term = self.committed[index][0]
            promise(term == log.term_at(index), self.title, "has committed two at", index)

    def _is_on_majority(self, each: GroupMember, term: int) -> None:
        """Check the voters at the time of the commit, in that term: the next change of members may
        have begun in the same turn."""
        log = each.raft.member.log
        for other in self.members.values():
            other.disk.look()
        durable = [other.name for other in self.members.values() if other.has(log.commit, term)]
        enough = any(
            configuration.has_majority(durable)
            for configuration in (log.configuration, log.configurations.at(log.commit))
        )
        promise(enough, self.title, "commits", log.commit, "which is durable on", *durable)

    # -- messages and entries of a member

    def says(self, each: GroupMember, message: RaftMessage) -> None:
        """Check that everything a message promises is on the sender's disk."""
        if isinstance(message, AppendAnswer) and message.match:
            log = each.raft.member.log
            if message.match > log.snapshot.index:
                each.disk.look()
                there = each.has(message.match, log.term_at(message.match))
                where = f"node {each.node} acknowledges {message.match} of {self.title}"
                promise(there, where, "and does not have it on its disk")
        elif isinstance(message, VoteAnswer) and message.is_granted and not message.is_pre:
            each.disk.look()
            term, vote = each.disk.raft_states.get(each.group, (0, 0))
            durable = term > message.term or (term, vote) == (message.term, message.to)
            promise(durable, self.title, "node", each.node, "gives a vote that is not on its disk")
            was = self.votes.setdefault((each.name, message.term), message.to)
            twice = f"node {each.node} votes twice in term {message.term}"
            promise(was == message.to, self.title, twice)

    def applied(self, node: int, index: int, content: bytes) -> None:
        """Check that the state at a node equals that of other nodes at the same index."""
        digest = crc32(content)
        was = self.digests.setdefault(index, digest)
        promise(was == digest, self.title, "is another at node", node, "after", index)
