"""Elections: a round of votes for a candidate, and how a member answers those of others.

Before a candidate raises its term it asks in a pre-vote whether it would be elected, so that one
which was cut off does not unseat a leader that the others hear. Of two that ask at one time one
gives way then, so that votes are not split.
"""

from __future__ import annotations

from sluicemq.raft.member import FOLLOWER, LEADER, PRE_CANDIDATE, RaftMember
from sluicemq.raft.messages import VoteAnswer, VoteRequest


class Election:
    """One round of a candidate. Pre-votes ask for the next term, votes for the candidate's own.

    Its own vote counts when it is durable; its own pre-vote, which changes nothing, at once."""

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
        """Take an answer into account, if it is one to this round. A refusal bears its sender's
        term, which is this member's at most."""
        if answer.is_pre != self.is_pre or (answer.is_granted and answer.term != self.term):
            return
        (self.granted if answer.is_granted else self.refused).add(answer.sender)

    @property
    def is_won(self) -> bool:
        """A majority of the voters grants it; learners are not asked, and do not count."""
        return self.member.log.configuration.has_majority(self.granted)

    @property
    def is_lost(self) -> bool:
        """So many refuse, or cannot be reached, that no majority is left."""
        configuration = self.member.log.configuration
        left = {*configuration.voters} - self.refused - self.member.lost
        return not configuration.has_majority(left)


def loyal(member: RaftMember) -> bool:
    """Whether a member does not want another leader: it leads, or hears one."""
    return member.role == LEADER or member.is_loyal


def goes_first(member: RaftMember, request: VoteRequest) -> bool:
    """Whether a member asks for the same pre-votes, has as much in its log, and is the one of the
    two that does not give way. When its own round is not decided for long it gives way."""
    log = member.log
    return (
        member.role == PRE_CANDIDATE
        and member.name < request.sender
        and request.term == member.term + 1
        and (request.last_index, request.last_term) == (log.last_index, log.last_term)
        and member.silent_ticks < member.settings.stagger_ticks
    )


def is_grantable(member: RaftMember, request: VoteRequest) -> bool:
    """Whether the request may be granted: the candidate lacks nothing that may be committed, and
    nobody else has the vote or leads."""
    if not member.log.is_covered_by(request.last_index, request.last_term):
        return False
    if request.is_pre:
        return request.term > member.term and not goes_first(member, request)
    return member.vote == request.sender or (member.vote == 0 and member.leader == 0)


def answer(member: RaftMember, request: VoteRequest) -> bool:
    """Grant the request or refuse it; returns whether it is granted. A real one has this member's
    term by now, or a lower one."""
    is_covered = member.log.is_covered_by(request.last_index, request.last_term)
    is_granted = is_grantable(member, request) and (
        request.term == member.term or (request.is_pre and (request.is_forced or not loyal(member)))
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
