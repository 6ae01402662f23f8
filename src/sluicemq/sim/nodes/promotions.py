"""Knows the mirrored queues of which a mirror has gone on without a majority, and what they may
have lost by that: what the mirrors left behind had, and it had not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.kernel.address import node_of
from sluicemq.sim.records import promise

if TYPE_CHECKING:
    from sluicemq.raft.raft import Raft
    from sluicemq.sim.nodes.groups import GroupHistory

NEVER_NS: Final = 1 << 62
"""The time of something that has not happened."""


class Promotion:
    """The promotion of a mirror, by the new id `name`. `former` is the group that it has left, of
    whose committed entries it has those up to `kept`."""

    def __init__(self, name: int, former: GroupHistory, kept: int) -> None:
        self.name = name
        self.former = former
        self.kept = kept

    @property
    def lacks_from_ns(self) -> int:
        """Return when the former group first agreed on an entry that the mirror lacks."""
        times = (at_ns for commit, at_ns in self.former.commits if commit > self.kept)
        return next(times, NEVER_NS)


class Promotions:
    """All promotions of a run. `in_reach` are the nodes that certainly reach each other while no
    others are reached: only then there is one."""

    def __init__(self) -> None:
        self.of_groups: dict[int, list[Promotion]] = {}
        self.of_queues: dict[str, list[Promotion]] = {}
        self.in_reach: frozenset[int] = frozenset()

    def latest(self, group: int, name: int) -> int:
        """Return the id by which the present time of a group began for this member: that of the
        last promotion before the member was added, or its own; 0 without one."""
        ids = (each.name for each in self.of_groups.get(group, ()) if each.name <= name)
        return max(ids, default=0)

    def began(self, group: int, queue: str, name: int, former: GroupHistory) -> None:
        """Note that nodes have agreed that a mirror goes on alone. No mirror that it could reach
        may have more of what the former group has agreed on."""
        node = node_of(name)
        promise(node in self.in_reach, queue, "goes on at node", node, "without need")
        kept = {at: former.upto(each.raft) for at, each in former.members.items()}
        own = kept.get(node, 0)
        most = max((upto for at, upto in kept.items() if at in self.in_reach), default=0)
        promise(own >= most, queue, "goes on with", own, "entries, and another mirror has", most)
        promotion = Promotion(name, former, own)
        self.of_groups.setdefault(group, []).append(promotion)
        self.of_queues.setdefault(queue, []).append(promotion)

    def goes_on(self, group: int, raft: Raft, history: GroupHistory) -> None:
        """Begin the history of the group that a promoted mirror goes on as."""
        for each in self.of_groups.get(group, ()):
            if each.name == raft.member.name:
                each.kept = each.former.upto(raft)
                history.go_on_from(each.former, each.kept)

    def may_have_lost(self, queue: str, sent_ns: int, confirmed_ns: int) -> bool:
        """Tell whether a message may have been confirmed by mirrors that were left behind, and only
        by those."""
        return any(
            each.lacks_from_ns <= confirmed_ns and sent_ns <= each.former.served_ns
            for each in self.of_queues.get(queue, ())
        )

    def may_have_hidden(self, queue: str, began_ns: int, at_ns: int) -> bool:
        """Tell whether a delivery at that time, to a consumer that began at `began_ns`, may have
        been made without the knowledge of the mirror that went on."""
        return any(
            each.lacks_from_ns <= at_ns and began_ns <= each.former.served_ns
            for each in self.of_queues.get(queue, ())
        )
