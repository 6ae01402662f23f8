"""The state of a group's member in any role: its term, vote, log, and the leader it believes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sluicemq.raft.durable import Durable
from sluicemq.raft.log import RaftLog
from sluicemq.raft.messages import AppendAnswer, RaftMessage, VoteRequest
from sluicemq.raft.outbox import Outbox
from sluicemq.raft.settings import RaftSettings

FOLLOWER: Final = "follower"
PRE_CANDIDATE: Final = "pre-candidate"
CANDIDATE: Final = "candidate"
LEADER: Final = "leader"


class RaftMember:
    """The state that all parts of a member share. `below(n)` is random: 0 <= below(n) < n."""

    def __init__(
        self,
        name: int,
        durable: Durable,
        settings: RaftSettings,
        version: int,
        below: Callable[[int], int],
    ) -> None:
        assert name > 0, "0 is nobody"
        self.name = name
        self.settings = settings
        self.version = version
        """The newest machine version that this member can apply."""
        self.below = below
        self.term = durable.term
        self.vote = durable.vote
        self.log = RaftLog(durable.snapshot, durable.entries)
        self.role = FOLLOWER
        self.leader = 0
        """The leader of this term, as far as it is known; 0: none."""
        self.number = 0
        """The number of the last append that was handed out."""
        self.state_number = 0
        """The append that makes term and vote durable."""
        self.outbox = Outbox()
        self.lost: set[int] = set()
        """Members to which the host has no link."""
        self.silent_ticks = 0
        """Ticks since the leader was heard or a vote was granted."""
        self.patience_ticks = 0
        """After so many this member stands for election."""
        self.lost_rounds = 0
        """Elections that it has lost in a row, without a leader or a vote in between."""
        self.leaderless = 0
        """How often in a row a learner has waited in vain for a leader."""
        self.be_patient()

    @property
    def next_number(self) -> int:
        """The number of the next append, which will have all changes until then."""
        return self.number + 1

    @property
    def is_loyal(self) -> bool:
        """Whether the leader was heard lately, so that no other is wanted."""
        return (
            self.leader != 0
            and self.leader not in self.lost
            and self.silent_ticks < self.settings.election_ticks
        )

    @property
    def may_campaign(self) -> bool:
        """Whether this member may stand for election: it is a voter, and can apply its whole log. A
        member that is to be removed may until that is committed: no other may have that entry. So
        may a learner when no voter has been elected for long: a candidate that counts it as a voter
        already, by an entry that it lacks, may still lack entries that it has, and so be refused by
        it."""
        log = self.log
        configuration = log.configuration
        is_candidate = (
            self.name in configuration.voters
            or (
                log.configurations.current_index > log.commit
                and self.name in log.configurations.at(log.commit).voters
            )
            or (
                self.name in configuration.learners
                and self.leaderless >= self.settings.learner_patience
            )
        )
        return is_candidate and self.version >= log.versions.current

    def be_patient(self) -> None:
        """Wait anew for a leader, for one to two election timeouts."""
        self.silent_ticks = 0
        ticks = self.settings.election_ticks
        self.patience_ticks = ticks + self.below(ticks)

    @property
    def place(self) -> int:
        """The number of reachable voters that stand for election before this one when the leader is
        lost. Members that miss the same ones have different places."""
        configuration = self.log.configuration
        missed = {*self.lost, self.leader}
        able = [each for each in configuration.voters if each not in missed]
        if self.name not in able:
            return len(able)
        return (able.index(self.name) + self.settings.turn + self.term) % len(able)

    def miss_leader(self) -> None:
        """The leader is known to be lost: wait only for those whose turn comes first."""
        settings = self.settings
        self.silent_ticks = max(self.silent_ticks, settings.election_ticks)
        self.patience_ticks = self.silent_ticks + 1 + self.place * settings.stagger_ticks

    def give_way(self) -> None:
        """Another member stands for election: give it time."""
        later = self.silent_ticks + self.settings.stagger_ticks
        self.patience_ticks = max(self.patience_ticks, later)

    def hurry(self) -> None:
        """Stand for election at the next tick, if allowed, because the present candidate lacks
        entries."""
        if self.may_campaign:
            self.patience_ticks = self.silent_ticks

    def try_again(self) -> None:
        """Wait anew after a lost election, longer each time in a row. A winner would be heard
        before that."""
        settings = self.settings
        self.lost_rounds += 1
        ticks = min(settings.election_ticks, self.lost_rounds * settings.stagger_ticks)
        self.silent_ticks = 0
        self.patience_ticks = ticks + 1 + self.below(ticks)

    def adopt(self, term: int, vote: int) -> None:
        """Change the term or the vote; no other member is told before that is durable."""
        assert term > self.term or (term == self.term and self.vote in (0, vote)), (
            "one vote a term, and terms never go back"
        )
        if (term, vote) != (self.term, self.vote):
            self.term = term
            self.vote = vote
            self.state_number = self.next_number

    def send(self, message: RaftMessage, after: int = 0) -> None:
        """Send a message once the append `after`, the term and the vote are durable. Only a
        pre-vote need not wait for term and vote."""
        if not (isinstance(message, VoteRequest) and message.is_pre):
            after = max(after, self.state_number)
        self.outbox.send(message, after)

    def acknowledge(self, leader: int, match: int) -> None:
        """Tell the leader, once it is so, that everything up to `match` is durable here."""
        answer = AppendAnswer(self.name, leader, self.term, match)
        self.send(answer, self.log.number_at(match))

    def withdraw_acknowledgements(self) -> None:
        """Drop acknowledgements of entries that a snapshot has replaced; its own acknowledgement,
        which follows, covers them."""
        outbox = self.outbox
        outbox.held = [each for each in outbox.held if not isinstance(each[1], AppendAnswer)]

    def synced(self, number: int) -> list[RaftMessage]:
        """Note that the appends up to this one are durable. Frees the messages that waited for
        them, except those of a former term; returns those to this member itself."""
        assert number <= self.number, "only what was handed out can be durable"
        self.log.synced(number)
        own: list[RaftMessage] = []
        for message in self.outbox.synced(number):
            if message.term < self.term:
                continue
            if isinstance(message, AppendAnswer):
                assert message.match <= self.log.durable, "only what is durable is acknowledged"
            if message.to == self.name:
                own.append(message)
            else:
                self.outbox.free.append(message)
        return own
