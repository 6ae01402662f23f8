"""Elections: one candidate's round of votes, and a member's answers to other candidates.

Before a candidate raises its term it asks in a pre-vote whether it would win, so that one which was
cut off does not unseat a leader that the others hear. If two ask at the same time one gives way, so
that votes are not split.
"""

from __future__ import annotations

from sluicemq.raft.member import FOLLOWER, LEADER, PRE_CANDIDATE, RaftMember
from sluicemq.raft.messages import VoteAnswer, VoteRequest


class Election:
    """One round of a candidate. Pre-votes ask for the next term, votes for the candidate's own
    term.

    Its own vote counts when it is durable; its own pre-vote changes nothing and counts at once.
    """

    def __init__(self, member: RaftMember, is_pre: bool, is_forced: bool) -> None:
        self.member = member
        self.is_pre = is_pre
        self.term = member.term + is_pre
        self.granted: set[int] = set()
        self.refused: set[int] = set()
        log = member.log
        for voter in log.configuration.voters:
            if voter != member.name:
                request = VoteRequest(
                    member.name,
                    voter,
                    self.term,
                    log.last_index,
                    log.last_term,
                    is_pre,
                    is_forced,
                )
                member.send(request)
            elif is_pre:
                self.granted.add(voter)
            else:
                member.send(VoteAnswer(voter, voter, self.term, is_granted=True, is_pre=False))

    def count(self, answer: VoteAnswer) -> None:
        """Count an answer if it belongs to this round. A refusal has its sender's term, which is at
        most this member's."""
        if answer.is_pre != self.is_pre or (answer.is_granted and answer.term != self.term):
            return
        (self.granted if answer.is_granted else self.refused).add(answer.sender)

    @property
    def is_won(self) -> bool:
        """Whether a majority of the voters grants it; learners are not asked, and do not count."""
        return self.member.log.configuration.has_majority(self.granted)

    @property
    def is_lost(self) -> bool:
        """Whether so many voters refuse, or cannot be reached, that no majority is left."""
        configuration = self.member.log.configuration
        left = {*configuration.voters} - self.refused - self.member.lost
        return not configuration.has_majority(left)


def loyal(member: RaftMember, candidate: int) -> bool:
    """Whether a member wants no other leader, because it leads or hears one. A new member, which
    has received no entry, may have no ticks yet by which it would notice that its leader has ceased
    to lead; it does when that one stands for election."""
    is_new = not member.log.configuration.voters
    return member.role == LEADER or (
        member.is_loyal and not (is_new and member.leader == candidate)
    )


def goes_first(member: RaftMember, request: VoteRequest) -> bool:
    """Whether a member asks for pre-votes of the same term with an equal log, and the other one has
    to give way. Once its own round has been undecided for long, it gives way."""
    log = member.log
    return (
        member.role == PRE_CANDIDATE
        and member.name < request.sender
        and request.term == member.term + 1
        and (request.last_index, request.last_term) == (log.last_index, log.last_term)
        and member.silent_ticks < member.settings.stagger_ticks
    )


def is_grantable(member: RaftMember, request: VoteRequest) -> bool:
    """Whether the request may be granted: the candidate lacks no entry that may be committed, and
    no other one has the vote or leads."""
    if not member.log.is_covered_by(request.last_index, request.last_term):
        return False
    if request.is_pre:
        return request.term > member.term and not goes_first(member, request)
    return member.vote == request.sender or (member.vote == 0 and member.leader == 0)


def answer(member: RaftMember, request: VoteRequest) -> bool:
    """Grant or refuse the request; returns whether it is granted. A real one has this member's term
    by now, or a lower one."""
    is_covered = member.log.is_covered_by(request.last_index, request.last_term)
    is_granted = is_grantable(member, request) and (
        request.term == member.term
        or (request.is_pre and (request.is_forced or not loyal(member, request.sender)))
    )
    if is_granted and request.is_pre:
        member.give_way()
    elif is_granted:
        member.adopt(request.term, request.sender)
        member.be_patient()
        member.lost_rounds = 0
    elif request.is_pre and member.role == FOLLOWER and not (member.is_loyal or is_covered):
        member.hurry()
    term = request.term if is_granted else member.term
    member.send(VoteAnswer(member.name, request.sender, term, is_granted, request.is_pre))
    return is_granted
