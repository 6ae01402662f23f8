"""Elections: a round of votes for a candidate, and how a member answers those of others.

Before a candidate raises its term it asks in a pre-vote whether it would be elected, so that one
which was cut off does not unseat a leader that the others hear.
"""

from __future__ import annotations

from sluicemq.raft.member import LEADER, RaftMember
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
        """So many refuse that no majority is left."""
        return self.member.log.configuration.has_majority(self.refused)


def loyal(member: RaftMember) -> bool:
    """Whether a member does not want another leader: it leads, or hears one."""
    return member.role == LEADER or member.is_loyal


def is_grantable(member: RaftMember, request: VoteRequest) -> bool:
    """Whether the request may be granted: the candidate lacks nothing that may be committed, and
    nobody else has the vote or leads."""
    if not member.log.is_covered_by(request.last_index, request.last_term):
        return False
    if request.is_pre:
        return request.term > member.term
    return member.vote == request.sender or (member.vote == 0 and member.leader == 0)


def answer(member: RaftMember, request: VoteRequest) -> None:
    """Grant the request or refuse it. A real one has this member's term by now, or a lower one."""
    is_granted = is_grantable(member, request) and (
        request.term == member.term or (request.is_pre and (request.is_forced or not loyal(member)))
    )
    if is_granted and not request.is_pre:
        member.adopt(request.term, request.sender)
        member.be_patient()
    term = request.term if is_granted else member.term
    member.send(VoteAnswer(member.name, request.sender, term, is_granted, request.is_pre))
