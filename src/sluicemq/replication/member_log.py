"""The log of a member of a Raft group, as what replicates through it sees it.

It is not compiled: a protocol has no attributes of which a compiled class could know the place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sluicemq.raft.messages import RaftMessage
    from sluicemq.raft.ready import RaftReady


class MemberLog(Protocol):
    """Where a member's log is kept, and by which it reaches the others."""

    def write(self, ready: RaftReady) -> None:
        """Make durable what is to be written. The owner hears of it, and says so by `synced`."""
        raise NotImplementedError

    def send(self, messages: list[RaftMessage]) -> None:
        """Send messages to other members, at most once each, in any order."""
        raise NotImplementedError

    def committed(self, index: int) -> None:
        """Hear that everything up to an index is committed."""
        raise NotImplementedError
