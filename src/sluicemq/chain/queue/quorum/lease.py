"""The lease under which a member may deliver messages that the group has assigned to its node.

A node that is out of reach for RAFT_LOST_MS loses the messages that its channels hold: others get
them. So a member delivers only under a lease, which ends well before: LEASE_MS after the sending of
the last heartbeat that was answered, by this node's own clock, which never goes back and runs while
the process is stopped. A leader needs answers of a majority; a follower needs one of its leader,
which steps down when it does not hear a majority. A new leader itself waits for RAFT_LOST_MS before
it takes a node for lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.kernel.address import node_of
from sluicemq.limits import LEASE_MS

if TYPE_CHECKING:
    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.kernel.world import Clock
    from sluicemq.raft.raft import Raft

NS_A_MS: Final = 1_000_000


class LeaseDue(NamedTuple):
    """Tells a queue to check whether it may deliver again."""


class DeliveryLease:
    """The lease of this node's member of one group."""

    __slots__ = ("clock", "cluster", "raft", "until_ns")

    def __init__(self, clock: Clock, cluster: ClusterPort, raft: Raft) -> None:
        self.clock = clock
        self.cluster = cluster
        self.raft = raft
        self.until_ns = 0

    def is_held(self) -> bool:
        """Tell whether messages may be delivered now."""
        now_ns = self.clock.now_ns()
        if now_ns < self.until_ns - LEASE_MS * NS_A_MS // 2:
            return True
        since_ns = self._contact_ns(now_ns)
        if since_ns:
            self.until_ns = max(self.until_ns, since_ns + LEASE_MS * NS_A_MS)
        return now_ns < self.until_ns

    def _contact_ns(self, now_ns: int) -> int:
        """Return when this node was last in contact with a majority, if it leads, or with its
        leader; 0: that is not known."""
        raft = self.raft
        if not raft.is_leader:
            leader = raft.member.leader
            return self._answered_ns(leader, now_ns) if leader else 0
        configuration = raft.configuration
        times = sorted(self._answered_ns(each, now_ns) for each in configuration.voters)
        return times[-configuration.majority]

    def _answered_ns(self, name: int, now_ns: int) -> int:
        """Return when this node sent the last heartbeat that the member's node has answered; 0 if
        there is none, or no link."""
        node = node_of(name)
        return now_ns if node == self.cluster.node else self.cluster.contact_ns(node) or 0
