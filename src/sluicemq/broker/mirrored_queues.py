"""The mirrored queues of one virtual host: this node's members of their groups, and the queues that
channels use here, masters' queues or stand-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.group.member_messages import LeadFrom, MemberGone, MembersDue
from sluicemq.chain.queue.mirrored.births import born, joined, recovered
from sluicemq.chain.queue.mirrored.master import MasterShell
from sluicemq.chain.queue.mirrored.master_end import MasterEnd, QueueEnd
from sluicemq.chain.remote.mirrored_stand_in import NO_NODE, MirroredStandIn, NoMasterHere
from sluicemq.chain.remote.remote_queue import HomesChanged, QueueUndeclared, RemoteQueue
from sluicemq.kernel.address import node_of
from sluicemq.queues.mirrored.promotion import was_promoted

if TYPE_CHECKING:
    from sluicemq.chain.queue.mirrored.member import MirrorMember
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.remote.queue_post import QueuePost
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.storage.recovery import Recovery


class MirroredQueues:
    """Keeps the mirrored queues of `vhost`. `post` leads to the queues of other nodes."""

    def __init__(self, vhost: NamespacePort, post: QueuePost) -> None:
        self.vhost = vhost
        self.post = post
        self.members: dict[int, MirrorMember] = {}
        """This node's members, by the ids of queues."""
        self.stand_ins: dict[int, MirroredStandIn] = {}
        """The stand-in for each queue while another node is its master, or none is."""
        self.departing: dict[int, None] = {}
        """Queues whose former member here may still have data on the disk."""

    @property
    def own(self) -> int:
        """The number of this node."""
        return self.vhost.services.life.node

    def member_name(self, declared: DeclaredQueue) -> int:
        """Return the id of this node's member; 0 when it has none."""
        names = (*declared.members, *declared.leaving)
        return max((each for each in names if node_of(each) == self.own), default=0)

    def add(self, declared: DeclaredQueue) -> None:
        """Add a queue that was declared: a stand-in, and this node's member, which is master at
        once if this node is the queue's home."""
        self.stand_in(declared, declared.home if declared.home != self.own else 0)
        if self.member_name(declared):
            member = self.members[declared.id] = born(self.vhost, declared, self.own)
            member.begin_life(is_first=declared.home == self.own)

    def stand_in(self, declared: DeclaredQueue, first: int = 0) -> None:
        """Have channels use a stand-in for the queue; `first` is the node that serves it already, 0
        for none."""
        made = MirroredStandIn(self.vhost, declared, first, self.post)
        self.stand_ins[declared.id] = made
        self.vhost.queues[declared.definition.name] = made
        ask_post = self.vhost.services.ask_post
        assert ask_post is not None, "a node of a cluster without its posts"
        ask_post.follow(declared.id, made)

    def recover(
        self, declared: DeclaredQueue, recovery: Recovery, source: ClassicShell | None
    ) -> None:
        """Add the member that recovery has found. `source` has the messages that were not moved to
        it yet; None when there are none."""
        name = self.member_name(declared)
        self.stand_in(declared)
        member = self.members[declared.id] = recovered(self.vhost, declared, name, recovery)
        member.begin_life(source=source)

    def turn(self, declared: DeclaredQueue, queue: Queue) -> None:
        """Give mirrors to a queue that had none until now: `queue` is it, or its stand-in. Its home
        has the first member."""
        self.stand_in(declared)
        self.vhost.topology.has_changed()
        if isinstance(queue, RemoteQueue):
            queue.goes_on = True
            queue.post(HomesChanged((NO_NODE,)))
            self.post.leave(queue)
        elif isinstance(queue, ClassicShell):
            name = self.member_name(declared)
            member = self.members[declared.id] = born(self.vhost, declared, name)
            member.begin_life(source=queue)

    def change(self, declared: DeclaredQueue) -> None:
        """Start, change or end this node's member, as the queue is declared now."""
        name = self.member_name(declared)
        member = self.members.get(declared.id)
        if member is not None and member.own == name:
            member.post(MembersDue())
        elif member is not None and was_promoted(declared, name, member.raft):
            member.go_on_alone(name)
        elif member is not None:
            del self.members[declared.id]
            self.departing[declared.id] = None
            member.post(MemberGone())
        elif name and declared.id not in self.departing:
            member = self.members[declared.id] = joined(self.vhost, declared, name)
            member.begin_life()

    def move_master(self, declared: DeclaredQueue) -> None:
        """If this node's member is master, have it hand over to the member at the queue's home."""
        if declared.id in self.members:
            self.members[declared.id].post(LeadFrom(declared.home))

    def remove(self, declared: DeclaredQueue) -> None:
        """Forget a queue that is no longer declared."""
        member = self.members.pop(declared.id, None)
        if member is not None:
            member.forget(is_deleted=True)
        stand_in = self.stand_ins.pop(declared.id, None)
        if stand_in is not None and self.vhost.queues.get(stand_in.name) is not stand_in:
            stand_in.post(QueueUndeclared())

    def source_ended(self, queue: Queue) -> None:
        """End a queue without mirrors, all messages of which have moved to the mirrored one."""
        assert isinstance(queue, ClassicShell), "only classic queues have mirrors"
        QueueEnd(self.vhost, queue).begin()

    def master_begins(self, queue: Queue) -> None:
        """Have channels use the queue of this master."""
        self.vhost.queues[queue.name] = queue
        self.vhost.topology.has_changed()

    def master_ended(self, queue: Queue) -> None:
        """End the queue of a master, and have channels use the stand-in for the next master's."""
        assert isinstance(queue, MasterShell), "a master of another kind"
        end = MasterEnd(self.vhost, queue)
        stand_in = self.stand_ins.get(queue.id)
        if stand_in is not None and self.vhost.queues.get(queue.name) is queue:
            self.vhost.queues[queue.name] = stand_in
            stand_in.post(NoMasterHere())
        end.begin()
