"""The path of a node's file, which only nodes of clusters have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files

DIRECTORY: Final = "cluster"
PATH: Final = "cluster/node"
UNFINISHED: Final = "cluster/node.tmp"


def is_there(files: Files) -> bool:
    """Tell whether the data directory belongs to a node of a cluster, founded or yet to
    be founded.
    """
    return files.size(PATH) >= 0
