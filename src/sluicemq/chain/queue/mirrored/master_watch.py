"""What a member does when its queue has had no master for long: if a policy wants it, it finds out
whether a member has to go on alone, and which one.

    no master for MIRROR_PROMOTE_MS --> asks all nodes what they have, and whom they know as master
    no majority of the members is up, this one has most, and nobody knows a master
        in touch with a majority of the cluster --> PromoteMember, which the cluster agrees on
        otherwise --> waits as long again
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.kernel.address import node_of
from sluicemq.limits import MIRROR_PROMOTE_MS
from sluicemq.metadata.changes import PromoteMember
from sluicemq.queues.mirrored.promotion import heir_of, may_be_led

if TYPE_CHECKING:
    from sluicemq.chain.queue.group.member_changes import MemberChanges
    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.mirroring import Mirroring
    from sluicemq.replication.ask_post import LeaderKnown
    from sluicemq.replication.member_status import MemberStatus

ANSWERED_NS: Final = 2_000_000_000
"""An answered heartbeat that is no older shows that the other node is in touch; there are ten a
second."""
SETTLED_NS: Final = 10_000_000_000
"""When links have been up for so long, those to all other nodes in reach are, too, and what nodes
tell of masters has come: the pause before the next attempt and a link's setup take 7 s at most."""


class MasterMissing(NamedTuple):
    """Tells a member that its queue may have had no master for MIRROR_PROMOTE_MS: since the master
    of `term` was lost, or, with 0, since the member began."""

    term: int


class MasterWatch:
    """Watches whether the queue of `member` has a master; `changes` knows its members."""

    def __init__(self, member: Actor, changes: MemberChanges) -> None:
        self.member = member
        self.changes = changes
        self.services = changes.services
        self.last_master = 0
        """The node of the last known master; 0: there was none."""

    def lost(self, term: int) -> None:
        """Check after a while whether there is a master, because that of this term is lost."""
        self.services.world.clock.call_after(MIRROR_PROMOTE_MS, self.member, MasterMissing(term))

    def heard(self, known: LeaderKnown) -> None:
        """Note a new master, or the loss of one."""
        if known.node:
            self.last_master = known.node
        else:
            self.lost(known.term)

    def look(self, term: int, mirroring: Mirroring | None) -> None:
        """Ask all nodes what they have, and whom they know as master, if there has been no master
        since that of `term`, and the policy wants one at any cost. Nodes without members are asked
        because a master may reach these that this node does not reach."""
        ask_post, post, changes = self.services.ask_post, self.services.status_post, self.changes
        assert ask_post is not None, "a member without its posts"
        known = ask_post.leaders.get(changes.queue_id)
        if term != (0 if known is None else known.term) or (known is not None and known.node):
            return
        self.lost(term)
        declared = changes.declared
        if declared is None or post is None or not self.wants_heir(mirroring):
            return
        members = declared.members

        nodes = [*map(node_of, members)]

        def tell(found: dict[int, MemberStatus], leaders: dict[int, int]) -> None:
            own = node_of(changes.raft.member.name)
            heir = heir_of({node: found[node] for node in nodes}, own)
            has_master = ask_post.leader_of(changes.queue_id) != 0 or may_be_led(found, leaders)
            if heir == own and self.reaches_majority and not has_master:
                place = changes.vhost, changes.queue, changes.queue_id
                self.services.agreement.propose(PromoteMember(*place, own, members))

        post.ask(changes.queue_id, {*nodes, *ask_post.cluster.nodes}, tell)

    @property
    def reaches_majority(self) -> bool:
        """Tell whether this node is in touch with a majority of the cluster, and has been for a
        while. Otherwise what it proposes could be agreed on when it is back, while the others have
        had a master for long."""
        ask_post = self.services.ask_post
        assert ask_post is not None, "a member without its posts"
        cluster, now_ns = ask_post.cluster, self.services.world.clock.now_ns()
        touched = [node for node in cluster.nodes if is_in_touch(cluster, node, now_ns)]
        return len(touched) > len(cluster.nodes) // 2

    def wants_heir(self, mirroring: Mirroring | None) -> bool:
        """Tell whether the policy wants a master that may lack messages, given how the last one
        ended. If this node does not know that, the policy must want one in any case."""
        if mirroring is None:
            return False
        if not self.last_master:
            return mirroring.after_failure and mirroring.after_shutdown
        ask_post = self.services.ask_post
        was_stopped = ask_post is not None and self.last_master in ask_post.stopped
        return mirroring.after_shutdown if was_stopped else mirroring.after_failure


def is_in_touch(cluster: ClusterPort, node: int, now_ns: int) -> bool:
    """Tell whether a node has just answered, over a link that was up for long. A node that itself
    stood still takes its links for up, but nobody has answered it since. One that has just come
    back may not have heard yet who is master."""
    if node == cluster.node:
        return True
    answered_ns, up_ns = cluster.contact_ns(node), cluster.up_ns(node)
    if answered_ns is None or up_ns is None:
        return False
    return now_ns - answered_ns <= ANSWERED_NS and now_ns - up_ns >= SETTLED_NS
