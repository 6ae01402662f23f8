"""Reads the definitions of a cluster from their log on this node's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.metadata.proposals import DEFINITIONS_GROUP, declared_in
from sluicemq.raft.entry import DATA

if TYPE_CHECKING:
    from sluicemq.metadata.state import DeclaredState
    from sluicemq.storage.raft.groups import RaftGroups


def agreed_definitions(groups: RaftGroups) -> DeclaredState:
    """Return the definitions that this node knew to be committed. The group was checked
    (RaftAudit); missing parts of it are left out. Raises Corrupt for entries that no version
    writes."""
    group = groups.groups[DEFINITIONS_GROUP]
    entries = groups.found[DEFINITIONS_GROUP].entries
    agreed = (
        bytes(each.data) for each in entries if each.kind == DATA and each.index <= group.commit
    )
    return declared_in(groups.contents.get(DEFINITIONS_GROUP, b""), agreed)
