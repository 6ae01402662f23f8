"""The nodes that have joined and left a cluster since it was founded, as agreed on.

The founders are in each node's own file (cluster/node_file.py): the members are the founders and
`added`, without `removed`. A number is never given again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.errors import Refused

if TYPE_CHECKING:
    from sluicemq.metadata.changes import AddNode, RemoveNode


class JoinedNodes:
    """The nodes that have come and gone, by their numbers."""

    def __init__(self) -> None:
        self.added: dict[int, AddNode] = {}
        """Those that have joined, and belong to it."""
        self.removed: dict[int, RemoveNode] = {}
        """Those that do not belong to it any more, founders too."""

    def add(self, node: AddNode) -> bool:
        """Add a node. Returns False when it is there. Raises Refused when its number or name
        belongs to another one, or it was removed."""
        if self.added.get(node.number) == node:
            return False
        if node.number in self.added or node.number in self.removed:
            raise Refused(f"there is, or was, another node {node.number}")
        for each in self.added.values():
            if each.name == node.name:
                raise Refused(f"the name '{node.name}' is that of node {each.number}")
        for gone in self.removed.values():
            if gone.home == node.home:
                raise Refused(was_removed(gone))
        self.added[node.number] = node
        return True

    def remove(self, node: RemoveNode) -> bool:
        """Remove a node. Returns False when that was done before."""
        if node.number in self.removed:
            return False
        self.added.pop(node.number, None)
        self.removed[node.number] = node
        return True

    def is_gone(self, node: int) -> bool:
        """Tell whether the node of that number was removed."""
        return node in self.removed


def was_removed(node: RemoveNode) -> str:
    """Return the sentence for a node that connects with the data directory of a removed node."""
    return (
        f"node {node.number} ({node.name}) was removed from the cluster by forget_cluster_node or"
        " force-boot; only with a new data directory can it join again, as a new node"
    )
