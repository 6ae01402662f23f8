"""What a master has to know of its Raft group: who votes, who can be reached, who has how much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sluicemq.raft.raft import Raft


class GroupStanding(NamedTuple):
    """How a group stands, as who leads it knows. `durable` says for each voter up to which index it
    has said that the leader's log is on its disk; `lost` are members that cannot be reached."""

    commit: int
    durable: Mapping[int, int]
    lost: frozenset[int]


def standing_of(raft: Raft) -> GroupStanding:
    """Return how the group stands that this member leads."""
    leading = raft.leading
    assert leading is not None, "only who leads knows how a group stands"
    durable = {name: leading.durable_at(name) for name in raft.configuration.voters}
    return GroupStanding(raft.member.log.commit, durable, frozenset(raft.member.lost))


def may_serve(raft: Raft) -> bool:
    """Tell whether this member may serve the queue: it leads, and has handed out for application an
    entry of its own term. Before that it does not know all that is agreed on, and what it lacks may
    have been confirmed."""
    leading = raft.leading
    return leading is not None and raft.applied >= leading.first_index


def has_all(standing: GroupStanding, in_sync: tuple[int, ...]) -> int:
    """Return up to which index all is committed, and on the disk of each of the in-sync set: what
    is up to there may be confirmed. A member that has no vote any more has nothing."""
    return min([standing.commit, *(standing.durable.get(member, 0) for member in in_sync)])
