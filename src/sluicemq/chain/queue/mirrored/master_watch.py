"""What a member does while its queue has no master for long: it finds out whether a member has to
go on alone, and which one, if a policy wants that.

    no master for MIRROR_PROMOTE_MS --> all nodes with members are asked what they have
    no majority of them is up, and this one has most --> PromoteMember, which the cluster agrees on
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sluicemq.kernel.address import node_of
from sluicemq.limits import MIRROR_PROMOTE_MS
from sluicemq.metadata.changes import PromoteMember
from sluicemq.queues.mirrored.promotion import heir_of

if TYPE_CHECKING:
    from sluicemq.chain.queue.group.member_changes import MemberChanges
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.mirroring import Mirroring
    from sluicemq.replication.ask_post import LeaderKnown
    from sluicemq.replication.member_status import MemberStatus


class MasterMissing(NamedTuple):
    """Tells a member that its queue may have had no master for MIRROR_PROMOTE_MS: since that of
    `term` was lost, or, with 0, since the member has begun."""

    term: int


class MasterWatch:
    """Watches whether the queue of `member` has a master; `changes` knows its members."""

    def __init__(self, member: Actor, changes: MemberChanges) -> None:
        self.member = member
        self.changes = changes
        self.services = changes.services
        self.last_master = 0
        """The node of the last master that was heard of; 0: none was."""

    def lost(self, term: int) -> None:
        """Look after a while whether there is a master, for that of this term is lost."""
        self.services.world.clock.call_after(MIRROR_PROMOTE_MS, self.member, MasterMissing(term))

    def heard(self, known: LeaderKnown) -> None:
        """Take note of a master, or of the loss of one."""
        if known.node:
            self.last_master = known.node
        else:
            self.lost(known.term)

    def look(self, term: int, mirroring: Mirroring | None) -> None:
        """Ask all who may have something of the queue what they have, if there has been no master
        since that of `term`, and the policy wants one whatever is lost."""
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

        def tell(found: dict[int, MemberStatus]) -> None:
            own = node_of(changes.raft.member.name)
            if heir_of(found) == own:
                place = changes.vhost, changes.queue, changes.queue_id
                self.services.agreement.propose(PromoteMember(*place, own, members))

        post.ask(changes.queue_id, map(node_of, members), tell)

    def wants_heir(self, mirroring: Mirroring | None) -> bool:
        """Tell whether a policy wants a master that may lack messages, after what became of the
        last one. If that is not known here, it must want one in any case."""
        if mirroring is None:
            return False
        if not self.last_master:
            return mirroring.after_failure and mirroring.after_shutdown
        ask_post = self.services.ask_post
        was_stopped = ask_post is not None and self.last_master in ask_post.stopped
        return mirroring.after_shutdown if was_stopped else mirroring.after_failure
