"""A member of a group, whatever its role: its term, vote, log, and whom it believes to lead."""

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
    """What all parts of a member share. `below(n)` throws dice: 0 <= below(n) < n."""

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
        """Who leads this term, as far as it is known; 0: nobody."""
        self.number = 0
        """Of the last append that was handed out."""
        self.state_number = 0
        """The append that makes term and vote durable."""
        self.outbox = Outbox()
        self.lost: set[int] = set()
        """Members to which the host has no link."""
        self.silent_ticks = 0
        """Since the leader was heard or a vote given."""
        self.patience_ticks = 0
        """After so many this member asks to be elected."""
        self.lost_rounds = 0
        """Elections that it has lost in a row, without a leader or a vote in between."""
        self.leaderless = 0
        """How often in a row a learner has waited so long for a leader."""
        self.be_patient()

    @property
    def next_number(self) -> int:
        """Of the append that will be handed out next, with everything that changes until then."""
        return self.number + 1

    @property
    def is_loyal(self) -> bool:
        """A leader was heard a short while ago, so that nobody else is wanted."""
        return (
            self.leader != 0
            and self.leader not in self.lost
            and self.silent_ticks < self.settings.election_ticks
        )

    @property
    def may_campaign(self) -> bool:
        """Only a voter may, and only one that can apply what is in its log. One that is to be
        removed is needed until that is committed: nobody else may have that entry. So is a learner
        when no voter is elected for long: one to whom it counts as a voter already, by an entry
        that the learner lacks, is refused by it if it lacks entries that the learner has."""
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
        """Wait anew for a leader, between one election timeout and two."""
        self.silent_ticks = 0
        ticks = self.settings.election_ticks
        self.patience_ticks = ticks + self.below(ticks)

    @property
    def place(self) -> int:
        """How many of the voters that can be reached ask to be elected before this one, when the
        leader is lost: members that miss the same ones have different places."""
        configuration = self.log.configuration
        missed = {*self.lost, self.leader}
        able = [each for each in configuration.voters if each not in missed]
        if self.name not in able:
            return len(able)
        return (able.index(self.name) + self.settings.turn + self.term) % len(able)

    def miss_leader(self) -> None:
        """The leader is known to be lost: wait only for those whose turn is first."""
        settings = self.settings
        self.silent_ticks = max(self.silent_ticks, settings.election_ticks)
        self.patience_ticks = self.silent_ticks + 1 + self.place * settings.stagger_ticks

    def give_way(self) -> None:
        """Somebody else asks to be elected: let that take its time."""
        later = self.silent_ticks + self.settings.stagger_ticks
        self.patience_ticks = max(self.patience_ticks, later)

    def hurry(self) -> None:
        """Ask to be elected with the next tick, if it may: who asks now lacks entries."""
        if self.may_campaign:
            self.patience_ticks = self.silent_ticks

    def try_again(self) -> None:
        """Wait anew after a lost election, for longer after each in a row. Who has won it is heard
        before that, if anybody has."""
        settings = self.settings
        self.lost_rounds += 1
        ticks = min(settings.election_ticks, self.lost_rounds * settings.stagger_ticks)
        self.silent_ticks = 0
        self.patience_ticks = ticks + 1 + self.below(ticks)

    def adopt(self, term: int, vote: int) -> None:
        """Change the term or the vote; neither is told to anybody before it is durable."""
        assert term > self.term or (term == self.term and self.vote in (0, vote)), (
            "one vote a term, and terms never go back"
        )
        if (term, vote) != (self.term, self.vote):
            self.term = term
            self.vote = vote
            self.state_number = self.next_number

    def send(self, message: RaftMessage, after: int = 0) -> None:
        """Say it when the append `after` is durable, and this member's term and vote are. Only a
        pre-vote says nothing of them."""
        if not (isinstance(message, VoteRequest) and message.is_pre):
            after = max(after, self.state_number)
        self.outbox.send(message, after)

    def acknowledge(self, leader: int, match: int) -> None:
        """Tell the leader, once it is so, that all up to `match` is durable here."""
        answer = AppendAnswer(self.name, leader, self.term, match)
        self.send(answer, self.log.number_at(match))

    def withdraw_acknowledgements(self) -> None:
        """Say nothing more of entries that a snapshot has replaced; its own acknowledgement, which
        follows, stands for them."""
        outbox = self.outbox
        outbox.held = [each for each in outbox.held if not isinstance(each[1], AppendAnswer)]

    def synced(self, number: int) -> list[RaftMessage]:
        """The appends up to this one are durable. Frees the messages that waited for them, but for
        those of a term that is over; returns those to this member itself."""
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
