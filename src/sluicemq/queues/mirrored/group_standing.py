"""The state of a Raft group that its master needs: the voters, the members out of reach, and how
far each log goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sluicemq.raft.raft import Raft


class GroupStanding(NamedTuple):
    """The state of a group, as its leader knows it. `durable` is for each voter the index up to
    which it has acknowledged the leader's log; `lost` are members out of reach."""

    commit: int
    durable: Mapping[int, int]
    lost: frozenset[int]


def standing_of(raft: Raft) -> GroupStanding:
    """Return the state of the group that this member leads."""
    leading = raft.leading
    assert leading is not None, "only who leads knows how a group stands"
    durable = {name: leading.durable_at(name) for name in raft.configuration.voters}
    return GroupStanding(raft.member.log.commit, durable, frozenset(raft.member.lost))


def may_serve(raft: Raft) -> bool:
    """Tell whether this member may serve the queue: it leads, and has handed out for application an
    entry of its own term. Before that it does not know all committed entries, and those that it
    lacks may have been confirmed."""
    leading = raft.leading
    return leading is not None and raft.applied >= leading.first_index


def may_begin(raft: Raft) -> bool:
    """Tell whether this member, which may serve, may begin to: all of its log was handed out for
    application. A former master of its term may have written what is not committed yet."""
    return raft.applied >= raft.member.log.last_index


def has_all(standing: GroupStanding, in_sync: tuple[int, ...]) -> int:
    """Return the index up to which all is committed, and on the disk of each member of the in-sync
    set: messages up to there may be confirmed. A member that is no voter any more counts with 0."""
    return min([standing.commit, *(standing.durable.get(member, 0) for member in in_sync)])
