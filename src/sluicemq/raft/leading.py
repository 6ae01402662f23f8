"""The work of a leader: it sends its log to all members, commits entries, serves reads, changes the
members, hands over, and lets an idle group fall quiet.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import Final

from sluicemq.errors import Refused
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import CONFIGURATION, DATA, LogEntry, noop
from sluicemq.raft.entry_data import EntryData
from sluicemq.raft.member import RaftMember
from sluicemq.raft.messages import (
    AppendAnswer,
    AppendEntries,
    BeatAnswer,
    CommitNotice,
    LeaderBeat,
    LivePiece,
    PieceAnswer,
    RaftMessage,
    SnapshotPiece,
    TakeOver,
)
from sluicemq.raft.progress import PROBE, SNAPSHOT, STREAM, FollowerProgress
from sluicemq.raft.read_rounds import ReadRounds
from sluicemq.raft.ready import Read

STUCK_TICKS: Final = 2
"""After so long without a commit the reason is not just a slow disk."""


class Leading:
    """One leadership, from the election to its end."""

    def __init__(self, member: RaftMember) -> None:
        self.member = member
        self.progress: dict[int, FollowerProgress] = {}
        """The progress of each other member, including learners."""
        self.round = 0
        """The number of the last heartbeat sent."""
        self.reads = ReadRounds()
        self.due_reads: list[Read] = []
        self.heir = 0
        """The voter that should take over; 0: none. Until it has, nothing is proposed."""
        self.heir_ticks = 0
        self.heartbeat_is_due = False
        self.heartbeat_age_ticks = 0
        self.quorum_ticks = 0
        self.calm_ticks = 0
        """For how long there was nothing to do."""
        self.quiet_round = 0
        """The first heartbeat after which followers may miss further ones; 0: none."""
        self.is_quiet = False
        self.patient: Collection[int] = ()
        """Followers that need not hear of commits at once: see `let_wait`."""
        self.prompt: Collection[int] = ()
        """Those of them that are sent entries at once all the same."""
        self.late: list[int] = []
        """Patient followers that are not even sent entries at once: others are a majority."""
        self.commit_at_tick = 0
        """The commit index at the last tick."""
        self.stuck_ticks = 0
        """For how long nothing was committed, though entries wait for it."""
        self.wait_is_over = False
        """Patient followers get now what they lack."""
        self.waited_ticks = 0
        """Ticks since they last did."""
        self.sent_then = (0, 0)
        """The commit index when they last did, and the time before."""
        self.last_at_tick = 0
        """The last index at the last tick."""
        log = member.log
        self.first_index = log.last_index + 1
        """The index of the no-op. Before it is committed the leader does not know the commit
        index."""
        self.uncommitted_bytes = sum(
            log.entry_at(i).size_bytes for i in range(log.commit + 1, self.first_index)
        )
        self.follow_configuration()
        self.add(noop(self.first_index, member.term, member.version))

    # proposals

    @property
    def knows_commit(self) -> bool:
        """Whether an entry of this term is committed."""
        return self.member.log.commit >= self.first_index

    @property
    def is_full(self) -> bool:
        """Whether so much is uncommitted that nothing more is proposed."""
        log, settings = self.member.log, self.member.settings
        return (
            log.last_index - log.commit >= settings.uncommitted_entries
            or self.uncommitted_bytes >= settings.uncommitted_bytes
        )

    @property
    def takes_proposals(self) -> bool:
        """Whether an entry may be added now."""
        return not (self.heir or self.is_full)

    def propose(self, data: EntryData) -> int:
        """Add an entry to the log; returns its index, or 0 if that is not possible now."""
        if not self.takes_proposals:
            return 0
        log = self.member.log
        self.add(LogEntry(log.last_index + 1, self.member.term, DATA, data))
        return log.last_index

    def add(self, entry: LogEntry) -> None:
        """Append an entry of this term to the log."""
        log = self.member.log
        assert entry.term == self.member.term, "a leader only adds entries of its own term"
        assert entry.kind != CONFIGURATION or (
            self.knows_commit and log.configurations.current_index <= log.commit
        ), "one change of members at a time, and none before an entry of the own term is committed"
        log.append(entry, self.member.next_number)
        size_bytes = entry.size_bytes
        self.uncommitted_bytes += size_bytes
        for progress in self.progress.values():
            progress.unsent_bytes += size_bytes
        self.wake()

    # members

    def change(self, configuration: Configuration) -> int:
        """Add a configuration to the log, which counts at once; returns its index. Raises Refused
        when that is not possible now."""
        self.check_change(configuration)
        log = self.member.log
        term = self.member.term
        self.add(LogEntry(log.last_index + 1, term, CONFIGURATION, configuration.encoded()))
        self.follow_configuration()
        return log.last_index

    def check_change(self, configuration: Configuration) -> None:
        """Raise Refused unless the configuration may change to this one now."""
        log = self.member.log
        if not self.knows_commit:
            raise Refused("no change of members before an entry of the leader's term is committed")
        if log.configurations.current_index > log.commit:
            raise Refused("the last change of members is not yet committed")
        if self.heir:
            raise Refused("another member is about to take over")
        for member in {*configuration.voters} - {*log.configuration.voters}:
            if not self.has_caught_up(member):
                raise Refused(f"member {member} has not caught up")

    def has_caught_up(self, name: int) -> bool:
        """Whether a follower has nearly all of this log. One that was never heard has nothing, even
        if the log is short: it may not be there any more."""
        progress = self.progress.get(name)
        match = 0 if progress is None else progress.match
        lag = self.member.settings.promote_lag_entries
        return match > 0 and match + lag >= self.member.log.last_index

    def follow_configuration(self) -> None:
        """Send the log to all present members, and to nobody else."""
        log = self.member.log
        was = self.progress
        self.progress = {
            name: was.get(name) or FollowerProgress(self.member.settings, log.last_index + 1)
            for name in log.configuration.members
            if name != self.member.name
        }
        self.hurry()

    # patient members

    def let_wait(self, patient: Collection[int], prompt: Collection[int] = ()) -> None:
        """Let these followers hear of commits with the next append only, because nobody at their
        hosts waits for them. While the others are a majority, and commit, some of these followers,
        except those in `prompt`, get entries only many at a time: writing many at once costs them
        as much as writing one. A tick before which nothing was added ends the wait, and so do
        `late_ticks` ticks."""
        self.patient = patient
        self.prompt = prompt
        self.hurry()

    def hurry(self) -> None:
        """Send all entries to all followers until the next tick, because one may be needed."""
        self.late = []

    def choose_late(self) -> None:
        """Choose the late followers, which are not sent entries at once: patient voters that no
        majority needs; those with the longest logs are needed first. A follower is not able to make
        a majority if it lacks entries that were committed at the last tick, or, if it was late,
        when it was sent entries. None is late when entries wait and nothing was committed for two
        ticks."""
        log = self.member.log
        was_committed, self.commit_at_tick = self.commit_at_tick, log.commit
        is_stuck = log.commit == was_committed < log.last_index
        self.stuck_ticks = self.stuck_ticks + 1 if is_stuck else 0
        were_late, self.late = self.late, []
        if self.stuck_ticks >= STUCK_TICKS or self.heir or not self.patient:
            return
        able = [
            name
            for name, progress in self.progress.items()
            if name in log.configuration.voters
            and name not in self.member.lost
            and progress.match >= (self.sent_then[1] if name in were_late else was_committed)
        ]
        waiting = [each for each in able if each in self.patient and each not in self.prompt]
        needed = log.configuration.majority - 1 - (len(able) - len(waiting))
        waiting.sort(key=lambda each: self.progress[each].match, reverse=True)
        self.late = waiting[max(0, needed) :]

    def look_at_wait(self) -> None:
        """Check, at a tick, whether patient followers have waited for long enough."""
        log = self.member.log
        self.waited_ticks += 1
        is_idle = log.last_index == self.last_at_tick
        self.last_at_tick = log.last_index
        if is_idle or self.waited_ticks >= self.member.settings.late_ticks:
            self.waited_ticks = 0
            self.sent_then = (log.commit, self.sent_then[0])
            self.wait_is_over = True
            self.wait_is_over = any(self.has_for(*each) for each in self.progress.items())

    # sending

    @property
    def has_work(self) -> bool:
        """Whether there may be something to send, or a read to answer."""
        if self.heartbeat_is_due or self.due_reads:
            return True
        return any(self.has_for(name, progress) for name, progress in self.progress.items())

    def has_for(self, name: int, progress: FollowerProgress) -> bool:
        """Whether there may be something to send to that follower other than heartbeats
        and pieces.
        """
        log, settings = self.member.log, self.member.settings
        if progress.next <= log.last_index:
            return name not in self.late or (
                self.wait_is_over
                or progress.state == PROBE
                or log.last_index + 1 - progress.next >= settings.late_entries
                or progress.unsent_bytes >= settings.late_bytes
            )
        is_untold = progress.commit_sent < min(progress.match, log.commit)
        return progress.state == PROBE or (
            is_untold and (self.wait_is_over or name not in self.patient)
        )

    def replicate(self) -> None:
        """Send every follower what it lacks, as far as there is room."""
        if self.heartbeat_is_due:
            self.send_heartbeats()
        for name, progress in self.progress.items():
            if self.has_for(name, progress):
                self.send_entries(name, progress)
        self.wait_is_over = False

    def send_entries(self, name: int, progress: FollowerProgress) -> None:
        """Send appends while there are entries and room; they carry the commit index, which is
        otherwise sent at the end."""
        log = self.member.log
        while progress.next <= log.last_index or progress.state == PROBE:
            if progress.next <= log.snapshot.index and progress.state != SNAPSHOT:
                self.send_snapshot(name, progress)
            if progress.room_entries <= 0:
                break
            self.send_append(name, progress, progress.room_entries)
        commit = min(progress.match, log.commit)
        if progress.state == STREAM and progress.commit_sent < commit:
            progress.commit_sent = commit
            progress.was_sent = True
            self.member.send(CommitNotice(self.member.name, name, self.member.term, commit))

    def send_append(self, name: int, progress: FollowerProgress, entries_max: int) -> None:
        """Send one append of at most so many entries."""
        member = self.member
        log = member.log
        previous = progress.next - 1
        entries = log.between(progress.next, entries_max, member.settings.append_bytes)
        term = log.term_at(previous)
        progress.sent(entries)
        progress.commit_sent = log.commit
        member.send(
            AppendEntries(member.name, name, member.term, previous, term, entries, log.commit)
        )

    def send_snapshot(self, name: int, progress: FollowerProgress) -> None:
        """Begin with the newest snapshot, unless the follower cannot be reached."""
        if name in self.member.lost:
            progress.probe(progress.next)
            progress.is_asked = True
            return
        progress.send_snapshot(self.member.log.snapshot)
        self.send_piece(name, progress, 0)

    def send_piece(self, name: int, progress: FollowerProgress, offset: int) -> None:
        """Send the snapshot's piece at that offset. The entries that the newest snapshot needs go
        before all content. Entries that a follower has got for an earlier snapshot serve the later
        one, too."""
        member = self.member
        if progress.lacks_entries:
            progress.snapshot = member.log.snapshot
            offset = 0
        snapshot = progress.snapshot
        assert snapshot is not None
        progress.is_asked = True
        progress.offset = offset
        progress.waited_ticks = 0
        if progress.lacks_entries:
            member.send(LivePiece(member.name, name, member.term, snapshot, progress.live))
            return
        size = min(member.settings.piece_bytes, snapshot.size_bytes - offset)
        member.send(SnapshotPiece(member.name, name, member.term, snapshot, offset, size))

    def has_sent(self, index: int) -> bool:
        """Whether every follower was sent the entries up to that index, and can be reached."""
        for name, progress in self.progress.items():
            if progress.state != STREAM or progress.next <= index or name in self.member.lost:
                return False
        return True

    def compacted(self) -> None:
        """A newer snapshot has replaced the last one: followers that are being sent entries get
        those that the new one needs, because the disk may not have all others any more."""
        for name, progress in self.progress.items():
            if progress.lacks_entries:
                self.send_piece(name, progress, 0)

    def send_heartbeats(self) -> None:
        """Begin a round of heartbeats to all followers. A follower that was sent something in the
        last round, and has acknowledged something, needs none, unless a read or quiet waits for it.
        """
        member = self.member
        self.heartbeat_is_due = False
        self.heartbeat_age_ticks = 0
        self.round += 1
        quiet_at = member.log.last_index if self.may_fall_quiet() else 0
        self.quiet_round = (self.quiet_round or self.round) if quiet_at else 0
        is_needed = quiet_at or self.reads.are_waiting
        for name, progress in self.progress.items():
            is_busy, progress.was_sent, progress.has_moved = (
                progress.was_sent and progress.has_moved,
                False,
                False,
            )
            if is_busy and not is_needed:
                continue
            commit = min(progress.match, member.log.commit)
            progress.commit_sent = max(progress.commit_sent, commit)
            beat = LeaderBeat(member.name, name, member.term, commit, self.round, quiet_at)
            member.send(beat)
        self.confirm_reads()

    # answers

    def step(self, message: RaftMessage) -> None:
        """Handle the answer of a follower, of whatever kind it is."""
        progress = self.progress.get(message.sender)
        if progress is None:
            return
        progress.is_active = True
        if isinstance(message, AppendAnswer):
            self.append_answer(message, progress)
        elif isinstance(message, BeatAnswer):
            self.heartbeat_answer(message, progress)
        elif isinstance(message, PieceAnswer):
            self.piece_answer(message, progress)

    def append_answer(self, message: AppendAnswer, progress: FollowerProgress) -> None:
        """A follower has made entries durable, or lacks the one before them."""
        log = self.member.log
        if message.refused:
            following = log.agreement_before(message.hint_index, message.hint_term) + 1
            progress.refused(message.refused, following)
            return
        assert message.match <= log.last_index, "nobody can match what this log does not have"
        if progress.acknowledged(message.match):
            self.advance_commit()
        if message.sender == self.heir:
            self.hand_over()

    def heartbeat_answer(self, message: BeatAnswer, progress: FollowerProgress) -> None:
        """A follower has heard a heartbeat; if it lags, a message may have got lost."""
        progress.round = max(progress.round, message.round)
        progress.is_quiet = message.is_quiet and 0 < self.quiet_round <= message.round
        self.confirm_reads()
        progress.lost_answer()
        log = self.member.log
        if progress.state == STREAM and log.snapshot.index < progress.next != progress.match + 1:
            self.send_append(message.sender, progress, 0)
        if self.may_fall_quiet() and all(each.is_quiet for each in self.progress.values()):
            self.is_quiet = True

    def piece_answer(self, message: PieceAnswer, progress: FollowerProgress) -> None:
        """A follower has made a piece durable: send the next one."""
        snapshot = progress.snapshot
        if snapshot is not None and snapshot.index == message.snapshot_index:
            progress.live = message.live
            self.send_piece(message.sender, progress, message.received)

    def advance_commit(self) -> None:
        """Commit what a majority has. Entries of former terms are only committed by a later entry
        of this term, never by being on a majority."""
        member = self.member
        log = member.log
        if log.commit == log.last_index:
            return
        agreed = log.configuration.agreed(self.durable_at)
        if agreed <= log.commit or log.term_at(agreed) != member.term:
            return
        self.commit(agreed)

    def commit(self, index: int) -> None:
        """Commit everything up to this index."""
        log = self.member.log
        assert log.term_at(index) == self.member.term, "an entry of a former term is not counted"
        self.uncommitted_bytes -= sum(
            log.entry_at(i).size_bytes for i in range(log.commit + 1, index + 1)
        )
        log.commit_to(index)
        if self.knows_commit:
            early, self.reads.early = self.reads.early, []
            for context in early:
                self.read(context)

    def durable_at(self, name: int) -> int:
        """The index up to which a member's log equals this one and is durable."""
        if name == self.member.name:
            return self.member.log.durable
        return self.progress[name].match

    @property
    def is_removed(self) -> bool:
        """Whether a committed change has made this member no voter, which ends its leadership:
        others have the entry that it was needed for."""
        log = self.member.log
        return (
            self.member.name not in log.configuration.voters
            and log.configurations.current_index <= log.commit
            and self.knows_commit
        )

    # reads

    def read(self, context: object) -> None:
        """Have a read answered once it is known that this member still leads."""
        if self.knows_commit:
            self.reads.add(context, self.member.log.commit, self.round + 1)
            self.heartbeat_is_due = True
        else:
            self.reads.early.append(context)
        self.wake()

    def confirm_reads(self) -> None:
        """Answer reads whose round a majority has answered."""
        if self.reads.waiting:
            answered = self.member.log.configuration.agreed(self.round_of)
            self.due_reads += self.reads.confirmed(answered)

    def round_of(self, name: int) -> int:
        """The last heartbeat that a member has answered; a leader hears its own."""
        return self.round if name == self.member.name else self.progress[name].round

    # handing over

    def best_heir(self, preferred: Container[int]) -> int:
        """The reachable voter that lacks least of this log, a preferred one if any can be reached;
        0 if there is none."""
        member = self.member
        voters = [
            each
            for each in member.log.configuration.voters
            if each != member.name and each not in member.lost
        ]
        return max(
            voters, key=lambda each: (each in preferred, self.progress[each].match), default=0
        )

    def transfer(self, heir: int) -> None:
        """Hand the leadership to another voter once it has the whole log. Raises Refused if that is
        no other voter, or a transfer is under way."""
        if heir == self.member.name or heir not in self.member.log.configuration.voters:
            raise Refused(f"member {heir} is no other voter of the group")
        if self.heir:
            raise Refused(f"member {self.heir} is about to take over")
        self.heir = heir
        self.heir_ticks = 0
        self.hurry()
        self.wake()
        self.hand_over()

    def hand_over(self) -> None:
        """Tell the heir to start an election, if it has the whole log."""
        member = self.member
        heir = self.progress.get(self.heir)
        if heir is not None and heir.match == member.log.last_index:
            member.send(TakeOver(member.name, self.heir, member.term))

    # time

    def tick(self) -> bool:
        """Let time pass. False: no majority was heard for too long, so another member may lead."""
        if self.is_quiet:
            return True
        settings = self.member.settings
        self.calm_ticks = self.calm_ticks + 1 if self.is_calm() else 0
        self.heartbeat_age_ticks += 1
        self.quorum_ticks += 1
        if self.heir:
            self.heir_ticks += 1
            if self.heir_ticks >= settings.election_ticks:
                self.heir = 0
        self.choose_late()
        for name, progress in self.progress.items():
            self.tick_snapshot(name, progress)
        self.look_at_wait()
        if self.quorum_ticks >= settings.election_ticks:
            self.quorum_ticks = 0
            if not self.has_quorum():
                return False
        if self.heartbeat_age_ticks >= settings.heartbeat_ticks:
            self.heartbeat_is_due = True
        if not self.progress and self.may_fall_quiet():
            self.is_quiet = True
        return True

    def tick_snapshot(self, name: int, progress: FollowerProgress) -> None:
        """Send a piece again if it was not answered for long; if the follower is silent, stop
        sending the snapshot, so that it need not be kept."""
        if progress.state == SNAPSHOT:
            progress.waited_ticks += 1
            if progress.waited_ticks >= self.member.settings.election_ticks:
                if progress.is_active:
                    self.send_piece(name, progress, progress.offset)
                else:
                    progress.probe(progress.match + 1)
                    progress.is_asked = True

    def has_quorum(self) -> bool:
        """Whether a majority was heard since the last call."""
        heard = {name for name, progress in self.progress.items() if progress.is_active}
        for progress in self.progress.values():
            progress.is_active = False
        return self.member.log.configuration.has_majority({*heard, self.member.name})

    # quiet groups

    def is_calm(self) -> bool:
        """Whether there is nothing to do: every member has the whole log, and can be reached."""
        log = self.member.log
        last = log.last_index
        return (
            log.commit == log.durable == last
            and not self.heir
            and not self.reads.are_waiting
            and not self.member.lost.intersection(self.progress)
            and all(each.match == last for each in self.progress.values())
        )

    def may_fall_quiet(self) -> bool:
        """Whether the group has been calm for a while."""
        return self.calm_ticks >= self.member.settings.quiet_ticks and self.is_calm()

    def wake(self) -> None:
        """Note that there is something to do, or a member to watch again. All followers hear of it
        with the next heartbeat."""
        self.calm_ticks = 0
        self.quiet_round = 0
        if self.is_quiet:
            self.is_quiet = False
            self.quorum_ticks = 0
            self.heartbeat_is_due = True
            for progress in self.progress.values():
                progress.is_quiet = False
