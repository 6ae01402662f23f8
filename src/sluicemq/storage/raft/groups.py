"""All Raft groups of a node, as they are on its disk. One that is idle is an object and no more:
nothing here goes through all of them but a start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.storage.raft.codec import RaftGroupGone
from sluicemq.storage.raft.group import RaftGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.raft.durable import Durable
    from sluicemq.storage.raft.codec import RaftRecord


class RaftGroups:
    """The groups by their ids. Ids are never used again."""

    def __init__(self, groups: Iterable[RaftGroup] = ()) -> None:
        self.groups = {group.id: group for group in groups}
        self.found: dict[int, Durable] = {}
        """What the member of each group finds on its disk; filled by a start. Whoever makes the
        members takes it out."""
        self.contents: dict[int, bytes] = {}
        """The contents of their snapshots, of those that have any; filled and emptied likewise."""

    def group(self, group_id: int) -> RaftGroup:
        """Return the group with that id; a new one has nothing."""
        known = self.groups.get(group_id)
        if known is None:
            known = self.groups[group_id] = RaftGroup(group_id)
        return known

    def apply(self, record: RaftRecord, file: int = 0, append: int = 0) -> None:
        """Change the group of a record, as RaftGroup.apply does it."""
        if isinstance(record, RaftGroupGone):
            self.groups.pop(record.group, None)
        else:
            self.group(record.group).apply(record, file, append)

    def suspect_all(self) -> None:
        """Take note that something of the journal was damaged: any member may have forgotten what
        it has said."""
        for group in self.groups.values():
            group.is_amnesiac = True
