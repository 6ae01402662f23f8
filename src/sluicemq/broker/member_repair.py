"""Replacement of this node's damaged members of quorum queues. They may have forgotten something,
so they stay silent and are replaced by new members, which get everything from the others.

    damaged ---RemoveMember---> leaving ---MemberLeft, by its leader---> gone ---AddMember---> new

The queue's leader removes the member if the others are a majority without it. After a restart in
between the damaged member is found again, and the repair continues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.broker.member_plans import queues_with_members
from sluicemq.chain.queue.mirrored.member import MirrorMember
from sluicemq.chain.queue.quorum.member_shell import MemberShell
from sluicemq.kernel.address import node_of
from sluicemq.metadata.changes import AddMember, RemoveMember
from sluicemq.metadata.events import MembersChanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluicemq.broker.vhost import VirtualHost
    from sluicemq.kernel.world import Log
    from sluicemq.metadata.agreement import Agreement
    from sluicemq.metadata.events import DeclaredQueue


class MemberRepair:
    """Replaces the damaged members of the node with that number, whose virtual hosts
    are `vhosts`."""

    def __init__(
        self, agreement: Agreement, vhosts: Mapping[str, VirtualHost], node: int, log: Log
    ) -> None:
        self.agreement = agreement
        self.vhosts = vhosts
        self.node = node
        self.log = log
        self.replacing: dict[int, None] = {}
        """The queues that will get a new member here when the damaged one is gone, by their ids."""

    def begin(self) -> None:
        """Examine all recovered members; called when this node has all definitions."""
        for queue in queues_with_members(self.agreement.state):
            self._look(queue)
        self.agreement.follow(MembersChanged, self.members_changed)

    def _look(self, queue: DeclaredQueue) -> None:
        definition = queue.definition
        shell = self.vhosts[definition.vhost].member(queue)
        if not isinstance(shell, MemberShell | MirrorMember) or not shell.raft.is_amnesiac:
            return
        name = shell.raft.member.name
        if name in queue.members and len(queue.members) > 1:
            text = f"the member of {shell.title} here is damaged, so it is replaced by a new one"
            self.log.write("warning", text)
            change = RemoveMember(definition.vhost, definition.name, queue.id, self.node)
            self.agreement.propose(change)
            self.replacing[queue.id] = None
        elif name in queue.leaving:
            self.replacing[queue.id] = None

    def members_changed(self, event: MembersChanged) -> None:
        """Add a new member on this node as soon as the damaged one is gone."""
        queue = event.queue
        if queue.id not in self.replacing:
            return
        if self.node not in map(node_of, (*queue.members, *queue.leaving)):
            del self.replacing[queue.id]
            definition = queue.definition
            change = AddMember(definition.vhost, definition.name, queue.id, self.node)
            self.agreement.propose(change)
