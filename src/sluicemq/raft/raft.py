"""A member of a Raft group: one object that is told of events and asked for the work they cause.

    raft = Raft(name, durable, settings, version, below)
    raft.step(message), raft.tick(), raft.propose(data), raft.synced(number)
    ready = raft.ready()            write, send, apply: see RaftReady

A member tells others nothing that is not durable, but does not stop for syncs: a host may hand the
next append to its storage before the last is synced. Rules are asserted where they could break; a
failed assertion means that going on could lose committed entries, so it has to end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container

from sluicemq.errors import Refused
from sluicemq.raft import election
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.election import Election
from sluicemq.raft.entry import CONFIGURATION, LogEntry
from sluicemq.raft.entry_data import EntryData
from sluicemq.raft.following import Following
from sluicemq.raft.leading import Leading
from sluicemq.raft.member import (
    CANDIDATE,
    FOLLOWER,
    LEADER,
    PRE_CANDIDATE,
    RaftMember,
)
from sluicemq.raft.messages import (
    AppendAnswer,
    AppendEntries,
    CommitNotice,
    LeaderBeat,
    LivePiece,
    RaftMessage,
    SnapshotPiece,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)
from sluicemq.raft.ready import NOTHING, RaftReady, Read
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot

FROM_LEADERS = (AppendEntries, CommitNotice, LeaderBeat, LivePiece, SnapshotPiece, TakeOver)


class Raft:
    """A member of a group, made of its roles: following, an election, leading."""

    def __init__(
        self,
        name: int,
        durable: Durable,
        settings: RaftSettings,
        version: int,
        below: Callable[[int], int],
        *,
        is_amnesiac: bool = False,
    ) -> None:
        self.member = RaftMember(name, durable, settings, version, below)
        self.following = Following(self.member)
        self.election: Election | None = None
        self.leading: Leading | None = None
        self.is_amnesiac = is_amnesiac
        """Its disk was damaged, so it may have forgotten a vote or an entry that it has
        acknowledged. It says nothing until it is removed and added again by another name."""
        self.applied = self.member.log.snapshot.index
        """Committed entries up to here were handed out."""
        self.written_state = (durable.term, durable.vote)
        """The term and the vote that were last handed out."""

    # requests of the host

    @property
    def is_leader(self) -> bool:
        """Whether it leads, as far as it knows."""
        return self.leading is not None

    @property
    def is_quiet(self) -> bool:
        """Whether the member ignores ticks, so that its host need not give any."""
        return (
            self.is_amnesiac
            or self.following.is_quiet
            or (self.leading is not None and self.leading.is_quiet)
        )

    @property
    def takes_proposals(self) -> bool:
        """Whether it leads, and not too much is uncommitted."""
        return self.leading is not None and self.leading.takes_proposals

    @property
    def is_all_committed(self) -> bool:
        """Whether this member leads, and its whole log is committed."""
        log = self.member.log
        return self.leading is not None and log.commit == log.last_index

    @property
    def uncommitted_bytes(self) -> int:
        """The weight of this leader's uncommitted entries."""
        return 0 if self.leading is None else self.leading.uncommitted_bytes

    def campaign(self) -> None:
        """Stand for election at once: the host knows that there is no other leader to wait for."""
        if self.leading is None and not self.is_amnesiac and self.member.may_campaign:
            self._campaign(is_pre=True)

    def propose(self, data: EntryData) -> int:
        """Propose an entry. Returns its index, or 0 if this member does not lead or takes no more
        now. If an entry of another term is committed at that index, the proposal was lost."""
        return self.leading.propose(data) if self.leading is not None else 0

    def read(self, context: object) -> bool:
        """Answer a read: `context` comes back in a RaftReady with the index that the machine must
        have applied. False if this member does not lead; if it ceases to, there is no answer."""
        if self.leading is not None:
            self.leading.read(context)
        return self.leading is not None

    def add_learner(self, name: int) -> int:
        """Add a member that is sent the log and does not vote; returns the index of the change.
        Raises Refused, as the next four do, when that is not possible now."""
        return self._change(self.configuration.with_learner(name))

    def promote(self, name: int) -> int:
        """Make a learner that has caught up a voter; returns the index of the change."""
        return self._change(self.configuration.with_promoted(name))

    def remove(self, name: int) -> int:
        """Remove a member; returns the index of the change. A leader that removes itself leads
        until that is committed."""
        return self._change(self.configuration.without(name))

    def rule_out(self, name: int) -> int:
        """Have no leader ever add a member that is not in the group; returns the index of the
        change."""
        return self._change(self.configuration.ruling_out(name))

    def transfer(self, heir: int) -> None:
        """Let another voter lead; give up if it does not take over within an election timeout."""
        self._leading().transfer(heir)

    def let_wait(self, patient: Collection[int], prompt: Collection[int] = ()) -> None:
        """Let these members hear later of commits, because nobody at their hosts waits for them,
        and be sent entries later, except those in `prompt`. This ends with the leadership."""
        if self.leading is not None:
            self.leading.let_wait(patient, prompt)

    def best_heir(self, preferred: Container[int] = ()) -> int:
        """The voter that could take over soonest: it can be reached, and lacks least of the log; a
        preferred one if any can be reached. 0 if there is none, or this member does not lead."""
        return 0 if self.leading is None else self.leading.best_heir(preferred)

    @property
    def is_handing_over(self) -> bool:
        """Whether another voter is about to take over from this leader."""
        return self.leading is not None and self.leading.heir > 0

    def has_caught_up(self, name: int) -> bool:
        """Whether a learner may be promoted, because it has nearly all of this leader's log."""
        return self.leading is not None and self.leading.has_caught_up(name)

    @property
    def is_settled(self) -> bool:
        """Whether this member leads, and has committed an entry of its term and the newest
        configuration: then members may be changed."""
        log = self.member.log
        knows = self.leading is not None and self.leading.knows_commit
        return knows and log.configurations.current_index <= log.commit

    def resign(self) -> None:
        """Stop leading, because the host has lost the machine's state."""
        if self.leading is not None:
            self._follow(0)

    def go_on_alone(self, name: int, term: int) -> None:
        """Be the only member of the group from now on, by a new name, with the log as it is here
        and in terms from `term` on. The host must see to it that the members left behind are never
        heard again: they may have committed something else."""
        member = self.member
        log = member.log
        assert not self.is_amnesiac, "who has forgotten something must not go on"
        self._enter_term(max(term, member.term + 1))
        for step in log.configuration.steps_to_newcomer(name):
            entry = LogEntry(log.last_index + 1, member.term, CONFIGURATION, step.encoded())
            log.append(entry, member.next_number)
        member.name = name
        member.lost.clear()
        self.campaign()

    def send_anew(self, name: int) -> None:
        """The host cannot read any more what that follower was being sent: begin with what there is
        now."""
        if self.leading is not None and name in self.leading.progress:
            progress = self.leading.progress[name]
            progress.probe(progress.match + 1)

    @property
    def configuration(self) -> Configuration:
        """The members as this one knows them."""
        return self.member.log.configuration

    def _change(self, configuration: Configuration) -> int:
        return self._leading().change(configuration)

    def _leading(self) -> Leading:
        if self.leading is None:
            raise Refused(f"member {self.member.name} does not lead the group")
        return self.leading

    # snapshots of the machine

    @property
    def snapshot_index_max(self) -> int:
        """The index up to which the log may be compacted: applied, durable here, and with known
        members. An added member does not know them before the entry that added it."""
        log = self.member.log
        index = max(min(self.applied, log.durable), log.snapshot.index)
        return index if log.configurations.at(index).voters else log.snapshot.index

    def snapshot_at(self, index: int, size_bytes: int, live_upto: int = 0) -> LogSnapshot:
        """The metadata of a snapshot of the machine after the entry at `index`. Its content has
        `size_bytes` and needs entries up to `live_upto`; 0: none."""
        assert index <= self.snapshot_index_max, "the log still needs what is not durable"
        return self.member.log.snapshot_at(index, size_bytes, live_upto)

    def has_sent(self, index: int) -> bool:
        """Whether no other member would be sent a snapshot instead of entries, as far as this one
        knows, if the log began behind that index."""
        return self.leading is None or self.leading.has_sent(index)

    def compact(self, snapshot: LogSnapshot) -> None:
        """That snapshot is durable: let the log begin after it. Ignored if a leader's snapshot is
        newer."""
        if snapshot.index > self.member.log.snapshot.index:
            self.member.log.compact(snapshot)
            if self.leading is not None:
                self.leading.compacted()

    def pinned(self) -> list[LogSnapshot]:
        """The snapshots whose content, with the entries that it names, must stay: the newest, and
        those being sent."""
        running = (
            [each.snapshot for each in self.leading.progress.values() if each.snapshot]
            if self.leading is not None
            else []
        )
        return [self.member.log.snapshot, *running]

    # events

    def tick(self) -> None:
        """Let one tick of the clock pass."""
        member = self.member
        if self.is_quiet:
            return
        if self.leading is not None:
            if not self.leading.tick():
                self._follow(0)
            return
        member.silent_ticks += 1
        if member.silent_ticks >= member.patience_ticks:
            member.leaderless += 1
            if member.may_campaign:
                self._campaign(is_pre=True)
            else:
                self._follow(0)

    def link_lost(self, name: int) -> None:
        """That member cannot be reached any more, or is suspected."""
        member = self.member
        member.lost.add(name)
        self._wake(name)
        if self.election is not None:
            if self.election.is_lost:
                self._lose()
        elif name == member.leader:
            member.miss_leader()

    def link_back(self, name: int) -> None:
        """That member can be reached again."""
        self.member.lost.discard(name)
        self._wake(name)

    def _wake(self, cause: int) -> None:
        """That member, or the link to it, needs attention. If it is in the group, no member may be
        quiet."""
        if cause not in self.configuration.members:
            return
        if self.leading is not None:
            self.leading.hurry()
            self.leading.wake()
        elif self.following.is_quiet:
            self.following.is_quiet = False
            self.member.silent_ticks = 0

    def synced(self, number: int) -> None:
        """The append of that number is durable, with all before it."""
        for message in self.member.synced(number):
            self.step(message)
        if self.leading is not None:
            self.leading.advance_commit()
            self._end_if_removed()

    def step(self, message: RaftMessage) -> None:
        """Handle a message. It may come late, twice, in any order, or after a restart."""
        member = self.member
        assert message.to == member.name
        if self.is_amnesiac:
            return
        if isinstance(message, VoteRequest):
            self._vote_request(message)
            return
        if message.term > member.term and not (
            isinstance(message, VoteAnswer) and message.is_pre and message.is_granted
        ):
            self._enter_term(message.term)
        if message.term < member.term:
            self._answer_stale(message)
        elif isinstance(message, FROM_LEADERS):
            self._from_leader(message)
        elif isinstance(message, VoteAnswer):
            self._vote_answer(message)
        elif self.leading is not None:
            self.leading.step(message)
            self._end_if_removed()

    def _vote_request(self, request: VoteRequest) -> None:
        """Answer a candidate. A member that hears a leader does not even adopt the term."""
        member = self.member
        self._wake(request.sender)
        if not request.is_pre and request.term > member.term:
            if election.loyal(member, request.sender) and not request.is_forced:
                return
            self._enter_term(request.term)
        is_granted = election.answer(member, request)
        if is_granted and member.role == PRE_CANDIDATE:
            self._end_roles(FOLLOWER, 0)
            if request.is_pre:
                member.try_again()

    def _answer_stale(self, message: RaftMessage) -> None:
        """Tell a leader of a former term about the newer one, or it would go on for ever."""
        if isinstance(message, FROM_LEADERS):
            member = self.member
            member.send(AppendAnswer(member.name, message.sender, member.term, match=0))

    def _from_leader(self, message: RaftMessage) -> None:
        member = self.member
        assert self.leading is None, "two leaders in a term"
        assert member.leader in (0, message.sender), "two leaders in a term"
        is_lost = message.sender in member.lost  # it may hear nobody
        if self.election is not None and not is_lost:
            self._follow(message.sender)
        member.leader = message.sender
        member.leaderless = 0
        if not is_lost:
            member.silent_ticks = member.lost_rounds = 0
        if isinstance(message, AppendEntries):
            self.following.append(message)
        elif isinstance(message, CommitNotice):
            self.following.hear_commit(message)
        elif isinstance(message, LeaderBeat):
            self.following.heartbeat(message)
        elif isinstance(message, LivePiece):
            self.following.live_piece(message)
        elif isinstance(message, SnapshotPiece):
            self.following.piece(message)
        elif member.may_campaign:
            self._campaign(is_pre=False, is_forced=True)

    def _vote_answer(self, message: VoteAnswer) -> None:
        round_ = self.election
        if round_ is None:
            return
        round_.count(message)
        if round_.is_won:
            if round_.is_pre:
                self._campaign(is_pre=False)
            else:
                self._lead()
        elif round_.is_lost:
            self._lose()

    # changes of role

    def _campaign(self, *, is_pre: bool, is_forced: bool = False) -> None:
        member = self.member
        self._end_roles(PRE_CANDIDATE if is_pre else CANDIDATE, 0)
        if not is_pre:
            member.adopt(member.term + 1, member.name)
            self.following.begin()
        member.be_patient()
        self.election = Election(member, is_pre, is_forced)
        if is_pre and self.election.is_won:
            self._campaign(is_pre=False)

    def _lead(self) -> None:
        member = self.member
        assert member.vote == member.name, "a leader has voted for itself"
        self._end_roles(LEADER, member.name)
        member.leaderless = member.lost_rounds = 0
        self.leading = Leading(member)

    def _enter_term(self, term: int) -> None:
        self.member.adopt(term, 0)
        self.following.begin()
        self._follow(0)

    def _follow(self, leader: int) -> None:
        self._end_roles(FOLLOWER, leader)
        self.member.be_patient()

    def _lose(self) -> None:
        """Give up the present election, which is lost."""
        self._end_roles(FOLLOWER, 0)
        self.member.try_again()

    def _end_roles(self, role: str, leader: int) -> None:
        self.leading = None
        self.election = None
        self.following.is_quiet = False
        self.member.role = role
        self.member.leader = leader

    def _end_if_removed(self) -> None:
        """Stop leading once this member's removal is committed."""
        if self.leading is not None and self.leading.is_removed:
            self.leading.replicate()
            self._follow(0)

    # work for the host

    @property
    def has_work(self) -> bool:
        """Whether `ready` may return any work."""
        if self._has_something():
            return True
        leading = self.leading
        return leading is not None and leading.has_work

    def ready(self) -> RaftReady:
        """Take the work that has come up since the last call."""
        member = self.member
        log = member.log
        reads: list[Read] = []
        if self.leading is not None:
            self.leading.replicate()
            reads, self.leading.due_reads = self.leading.due_reads, reads
        if not (reads or self._has_something()):
            return NOTHING
        pieces, install = self.following.take_pieces()
        truncate_from, entries = log.take_unwritten()
        state = (member.term, member.vote)
        is_new = state != self.written_state
        self.written_state = state
        if is_new or pieces or install or truncate_from or entries:
            member.number += 1
            number = member.number
        else:
            number = 0
        return RaftReady(
            number,
            state if is_new else None,
            pieces,
            install,
            truncate_from,
            entries,
            member.outbox.take(),
            self._take_committed(),
            reads,
        )

    def _has_something(self) -> bool:
        """Whether there is any work except reads."""
        member, log, following = self.member, self.member.log, self.following
        return bool(
            member.outbox.free
            or log.given != log.last_index
            or log.truncate_from
            or log.commit > self.applied
            or self.written_state != (member.term, member.vote)
            or following.pieces
            or following.install
        )

    def _take_committed(self) -> list[LogEntry]:
        log = self.member.log
        start = max(self.applied, log.snapshot.index)
        until = log.commit
        if until <= start:
            self.applied = start
            return []
        if log.versions.current > self.member.version:
            newer = (
                since for since, version in log.versions.since if version > self.member.version
            )
            until = min(until, next(newer) - 1)
        self.applied = max(start, until)
        offset = log.snapshot.index
        return log.entries[start - offset : self.applied - offset]
