"""Until when a member may deliver to channels of its node what the group has dealt to them.

A node that cannot be reached for RAFT_LOST_MS loses what its channels hold: others get it. So a
member delivers only under a lease, which ends well before: LEASE_MS after a heartbeat was sent that
was answered, by this node's own clock, which does not go back and goes on while the process is
stopped. Who leads needs answers of a majority; who follows needs one of whoever leads, who steps
down when it does not hear a majority. And whoever is elected waits for RAFT_LOST_MS itself before
it takes anybody for lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.kernel.address import node_of
from sluicemq.limits import LEASE_MS

if TYPE_CHECKING:
    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.kernel.world import Clock
    from sluicemq.raft.raft import Raft

NS_A_MS: Final = 1_000_000


class DeliveryLease:
    """The lease of this node's member of one group."""

    __slots__ = ("clock", "cluster", "raft", "until_ns")

    def __init__(self, clock: Clock, cluster: ClusterPort, raft: Raft) -> None:
        self.clock = clock
        self.cluster = cluster
        self.raft = raft
        self.until_ns = 0

    def is_held(self) -> bool:
        """Tell whether something may be delivered now."""
        now_ns = self.clock.now_ns()
        if now_ns < self.until_ns - LEASE_MS * NS_A_MS // 2:
            return True
        since_ns = self._contact_ns(now_ns)
        if since_ns:
            self.until_ns = max(self.until_ns, since_ns + LEASE_MS * NS_A_MS)
        return now_ns < self.until_ns

    def _contact_ns(self, now_ns: int) -> int:
        """Return since when it is known that no other leader takes this node for lost; 0: it is
        not."""
        raft = self.raft
        if not raft.is_leader:
            leader = raft.member.leader
            return self._answered_ns(leader, now_ns) if leader else 0
        configuration = raft.configuration
        times = sorted(self._answered_ns(each, now_ns) for each in configuration.voters)
        return times[-configuration.majority]

    def _answered_ns(self, name: int, now_ns: int) -> int:
        """Return when this node sent the last heartbeat that the member's node has answered; 0:
        none, or there is no link."""
        node = node_of(name)
        return now_ns if node == self.cluster.node else self.cluster.contact_ns(node) or 0
