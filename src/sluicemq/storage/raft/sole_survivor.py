"""Raft groups that have lost their majority for good, and go on with the one member that is left.

Each gets configurations at the end of its log, a step each, until that member is the only voter:
so it elects itself and commits all that it has. Nothing else of Raft is bent. What the lost members
had agreed on and this one had not heard of is lost; and should they come back, they would be
another group with the same history, so they must never be spoken with again (decision 0028).
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
    """Let the members of a node be the only ones of their groups, and return the ids of the groups
    in which that changes something. All groups were looked at (RaftAudit); it lasts with the next
    checkpoint, as part of what is carried. Groups of which the node has no member stay as they are,
    and so do those whose member is amnesiac: it does not know what it lacks."""
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
    """Return the entries after which a group has the newest member of that node alone. Their term
    is one that nobody has led, as far as is known here."""
    log = RaftLog(durable.snapshot, durable.entries)
    now = log.configuration
    survivor = max((each for each in now.members if node_of(each) == node), default=0)
    steps = now.steps_to_sole(survivor) if survivor else []
    return [
        LogEntry(index, durable.term + 1, CONFIGURATION, each.encoded())
        for index, each in enumerate(steps, log.last_index + 1)
    ]
