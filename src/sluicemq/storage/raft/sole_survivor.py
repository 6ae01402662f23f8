"""Lets Raft groups that have lost their majority for good go on with the one remaining member.

Each gets configurations at the end of its log, one for each step, until that member is the only
voter: so it elects itself and commits its whole log. No other rule of Raft is bent. Entries that
the lost members had committed and this one lacks are lost; and should those members come back, they
would be another group with the same history, so they must never be contacted again (decision 0028).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.address import node_of
from sluicemq.raft.entry import CONFIGURATION, LogEntry
from sluicemq.raft.log import RaftLog
from sluicemq.storage.raft.codec import RaftEntries, TermAndVote

if TYPE_CHECKING:
    from sluicemq.raft.durable import Durable
    from sluicemq.storage.raft.groups import RaftGroups


def go_on_alone(groups: RaftGroups, node: int) -> list[int]:
    """Make the members of a node the only ones of their groups, and return the ids of the groups
    that this changes. All groups were checked (RaftAudit); the next checkpoint makes it durable, in
    its carried entries. Groups without a member on the node stay as they are, and so do those whose
    member is amnesiac, because it does not know what it lacks."""
    changed: list[int] = []
    for group_id, durable in groups.found.items():
        group = groups.groups[group_id]
        entries = [] if group.is_amnesiac else farewell(durable, node)
        if entries:
            durable.term, durable.vote = entries[0].term, 0
            durable.entries += entries
            group.apply(TermAndVote(group_id, durable.term, durable.vote))
            group.apply(RaftEntries(group_id, entries))
            changed.append(group_id)
    return changed


def farewell(durable: Durable, node: int) -> list[LogEntry]:
    """Return the entries after which a group's only member is the newest one of that node. Their
    term is one that nobody has led, as far as is known here."""
    log = RaftLog(durable.snapshot, durable.entries)
    now = log.configuration
    survivor = max((each for each in now.members if node_of(each) == node), default=0)
    steps = now.steps_to_sole(survivor) if survivor else []
    return [
        LogEntry(index, durable.term + 1, CONFIGURATION, each.encoded())
        for index, each in enumerate(steps, log.last_index + 1)
    ]
