"""Where the file of a node is, which tells a node of a cluster from a broker that is alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files

DIRECTORY: Final = "cluster"
PATH: Final = "cluster/node"
UNFINISHED: Final = "cluster/node.tmp"


def is_there(files: Files) -> bool:
    """Tell whether the data directory is that of a node of a cluster, or of one to be founded."""
    return files.size(PATH) >= 0
