"""All Raft groups of a node, as they are on its disk. An idle group costs only its object: nothing
here goes through all of them except a start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.storage.raft.codec import RaftGroupGone
from sluicemq.storage.raft.group import RaftGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.raft.durable import Durable
    from sluicemq.storage.raft.codec import RaftRecord


class RaftGroups:
    """The Raft groups by their ids, which are never reused."""

    def __init__(self, groups: Iterable[RaftGroup] = ()) -> None:
        self.groups = {group.id: group for group in groups}
        self.found: dict[int, Durable] = {}
        """The state of each group's member on its disk; filled by a start. The owner of a member
        takes it out."""
        self.contents: dict[int, bytes] = {}
        """The contents of their snapshots, if they have any; filled and emptied likewise."""

    def group(self, group_id: int) -> RaftGroup:
        """Return the group with that id; a new one is empty."""
        known = self.groups.get(group_id)
        if known is None:
            known = self.groups[group_id] = RaftGroup(group_id)
        return known

    def apply(self, record: RaftRecord, file: int = 0, append: int = 0) -> None:
        """Change the group of a record by RaftGroup.apply."""
        if isinstance(record, RaftGroupGone):
            self.groups.pop(record.group, None)
        else:
            self.group(record.group).apply(record, file, append)

    def suspect_all(self) -> None:
        """Note that part of the journal was damaged: any member may have forgotten what it has
        promised."""
        for group in self.groups.values():
            group.is_amnesiac = True
