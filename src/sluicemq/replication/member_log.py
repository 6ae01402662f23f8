"""The log of a Raft group's member, as its replicator sees it.

It is not compiled: a compiled class could not know the place of a protocol's attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sluicemq.raft.messages import RaftMessage
    from sluicemq.raft.ready import RaftReady


class MemberLog(Protocol):
    """The place where a member's log is kept, and its way to the other members."""

    def write(self, ready: RaftReady) -> None:
        """Write what is due. When it is durable the owner learns of it, and calls `synced`."""
        raise NotImplementedError

    def send(self, messages: list[RaftMessage]) -> None:
        """Send messages to other members, at most once each, in any order."""
        raise NotImplementedError

    def committed(self, index: int) -> None:
        """Note that everything up to an index is committed."""
        raise NotImplementedError
