"""The members of the definitions' group follow the nodes of the cluster: the leader adds nodes that
have joined, as learners first, and removes those that are gone. A member has the number of its
node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluicemq.metadata.joined_nodes import JoinedNodes
    from sluicemq.raft.raft import Raft


def follow_nodes(raft: Raft, nodes: JoinedNodes, incarnations: Mapping[int, int]) -> None:
    """Begin the next change of members, if one is due and this member leads. This is called at
    every occasion: a change that is not possible now is made later."""
    if not (nodes.added or nodes.removed) or not raft.is_leader:
        return
    try:
        change_one(raft, nodes, incarnations)
    except Refused:
        return  # one change at a time, and nobody votes who has not caught up


def change_one(raft: Raft, nodes: JoinedNodes, incarnations: Mapping[int, int]) -> None:
    """Begin the first change that is due. A learner votes when it has caught up and its node has
    started: one that never starts counts for no majority. Raises Refused when it is not possible
    now."""
    members = raft.configuration
    for name in members.members:
        if nodes.is_gone(name):
            raft.remove(name)
            return
    for name in nodes.added:
        if name not in members.members:
            raft.add_learner(name)
            return
        if name in members.learners and name in incarnations:
            raft.promote(name)
            return
