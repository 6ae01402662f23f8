"""A virtual host: the queues of one name space, beside its declared exchanges and bindings. It
follows the definitions (metadata/agreement.py): it makes declared queues, and forgets deleted ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.broker.mirror_wishes import wish_for_mirrors
from sluicemq.chain.queue.classic import empty_index
from sluicemq.chain.queue.group.member_messages import LeadFrom, MemberGone, MembersDue
from sluicemq.chain.queue.namespace_port import NamespacePort, Queues
from sluicemq.chain.queue.queue import Leaving
from sluicemq.chain.queue.shell_types import SHELLS, recover_classic
from sluicemq.chain.queue.vhost_port import BINDING_WORK, BINDINGS_MAX
from sluicemq.chain.republish.delayer import HoldingQueue
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.kernel.address import node_of
from sluicemq.metadata.changes import (
    SOURCE,
    DeclareExchange,
    DeleteQueue,
    RenumberQueue,
    UnbindSome,
)
from sluicemq.metadata.queue_members import is_alone
from sluicemq.model.definitions import EXCHANGE, QUEUE, Destination
from sluicemq.model.traffic import Traffic
from sluicemq.queues.commands import Delete
from sluicemq.routing.delayed import DELAYED, HOLDING_PREFIX, holding_queue, is_holding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

    from sluicemq.broker.mirrored_queues import MirroredQueues
    from sluicemq.chain.queue.fault_history import FaultHistory
    from sluicemq.chain.queue.mirrored.member import MirrorMember
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.queue.quorum.member_shell import MemberShell
    from sluicemq.chain.queue.vhost_port import NamedQueue
    from sluicemq.chain.remote.queue_post import QueuePost
    from sluicemq.chain.remote.remote_queue import RemoteQueue
    from sluicemq.chain.services import Services
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.model.definitions import ExchangeDefinition, QueueDefinition
    from sluicemq.storage.queue_replica import QueueReplica
    from sluicemq.storage.recovery import Recovery


class VhostEmpty:
    """Tells the actor that deletes a virtual host that all its queues are gone."""

    __slots__ = ("vhost",)

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost


class VirtualHost(NamespacePort):
    """A virtual host of the broker. Its topology is that of the declared state, which nothing in
    here changes. `post` leads to the queues of other nodes, None on a node alone."""

    def __init__(
        self, services: Services, store: MessageStore, name: str, post: QueuePost | None = None
    ) -> None:
        self.services = services
        self.store = store
        self.name = name
        self.post = post
        self.topology = services.definitions.hosts[name].topology
        self.policies = self.topology.policies
        self.queues = Queues()
        self.exclusive = {}
        self.traffic = Traffic()
        self.exchange_traffic = {}
        self.crashes: dict[str, FaultHistory] = {}
        self.leaving: dict[int, NamedQueue] = {}
        """Queues that wait until it is agreed on that they are deleted, by id."""
        self.aside: dict[int, Queue] = {}
        """Quorum queues, by id, of which this node has a member that channels do not use: it has
        not caught up, or has lost something. `queues` has what stands for the queue of other
        nodes."""
        self.departing: dict[int, None] = {}
        """Ids of quorum queues of whose member here something may still be on the disk."""
        self.formers: dict[int, list[RemoteQueue]] = {}
        """What stood for a quorum queue, by its id, before this node had a member of it."""
        self.mirrored = self.make_mirrored(post)
        """Its mirrored queues; None: the node is alone."""
        self.connections = 0
        """The number of connections that are open in it."""
        self.listener: Actor | None = None
        """The actor that deletes the virtual host, and is told when its queues are gone; None:
        nobody does."""

    def make_mirrored(self, post: QueuePost | None) -> MirroredQueues | None:
        if post is None:
            return None
        from sluicemq.broker.mirrored_queues import (  # noqa: PLC0415 (start-up time of who is alone)
            MirroredQueues,
        )

        return MirroredQueues(self, post)

    @property
    def is_open(self) -> bool:
        return self.services.definitions.is_open(self.name)

    def republisher(self, source: Actor, name: str) -> Republisher:
        return Republisher(self, source, name)

    # -- its end

    def wait_until_empty(self, listener: Actor) -> None:
        """Post VhostEmpty to `listener` when the virtual host is closed and the last queue is gone;
        at once if that is so already."""
        self.listener = listener
        self.tell_listener()

    def tell_listener(self) -> None:
        """Post VhostEmpty to the listener, if there is one and no queue is left."""
        is_empty = not (self.queues or self.queues.holding or self.is_open)
        if self.listener is not None and is_empty:
            self.listener.post(VhostEmpty(self))

    def closed(self) -> None:
        """Delete all queues, because the virtual host is about to be deleted."""
        for holding in self.queues.holding.values():
            holding.post(Delete(None, False, False))
        for queue in self.queues.values():
            queue.post(Delete(None, False, False))
        self.tell_listener()

    # -- queues come

    def recover_queue(self, queue_id: int, definition: QueueDefinition, recovery: Recovery) -> None:
        """Make a durable queue that a start has recovered, with its messages."""
        if is_holding(definition.name):
            self.recover_holding(queue_id, definition, recovery.queues[queue_id])
            return
        if self.forgets_earlier_member(queue_id, definition, recovery):
            return  # the queue is in `forgotten` when it is forgotten
        declared = self.services.definitions.hosts[self.name].queues.get(definition.name)
        if self.mirrored is not None and declared is not None and declared.is_mirrored:
            found = recovery.queues[queue_id]
            is_empty = not any(segment.live for segment in found.index.segments.values())
            source = None if is_empty else recover_classic(self, definition, queue_id, recovery)
            if source is not None:
                self.enlist(source)
            self.mirrored.recover(declared, recovery, source)
        else:
            queue = SHELLS[definition.type].recover(self, definition, queue_id, recovery)
            if self.is_member(queue) and not queue.is_serving:
                self.set_aside(queue)
            else:
                self.add(queue)

    def forgets_earlier_member(
        self, queue_id: int, definition: QueueDefinition, recovery: Recovery
    ) -> bool:
        """Forget what a start has found of an earlier member on this node, and return True; False
        when there is nothing of one, or when it goes on alone by another id."""
        if queue_id not in recovery.groups.found:
            return False
        declared = self.services.definitions.hosts[self.name].queues.get(definition.name)
        if declared is not None and declared.is_mirrored and is_alone(declared):
            return False
        from sluicemq.chain.queue.group.member_log import LogForgetter  # noqa: PLC0415 (as above)
        from sluicemq.chain.queue.quorum.births import is_of_earlier_member  # noqa: PLC0415

        if not is_of_earlier_member(self.services.life.node, queue_id, recovery):
            return False
        del recovery.groups.found[queue_id]
        self.departing[queue_id] = None
        if self.mirrored is not None:
            self.mirrored.departing[queue_id] = None
        LogForgetter(self.store, queue_id, lambda: self.forgotten(queue_id, definition.name))
        return True

    def queue_added(self, declared: DeclaredQueue) -> None:
        """Make a queue that was declared, and has no messages yet; for a queue of another node,
        make its stand-in here."""
        definition = declared.definition
        if is_holding(definition.name):
            index = empty_index(self.services, declared.id, definition.durable)
            exchange = definition.name.removeprefix(HOLDING_PREFIX)
            self.add_holding(HoldingQueue(self, definition, declared.id, index, exchange))
        elif self.mirrored is not None and declared.is_mirrored:
            self.mirrored.add(declared)
        elif not self.add_remote(declared):
            self.add(SHELLS[definition.type].declare(self, declared))

    def add_remote(self, declared: DeclaredQueue) -> bool:
        """Add the stand-in for a queue of another node to the table of names, and return True;
        False when this node has the queue."""
        if self.mirrored is not None and declared.is_mirrored:
            if declared.id not in self.mirrored.stand_ins:
                self.mirrored.stand_in(declared)
            return True
        is_aside = declared.id in self.aside or declared.id in self.departing
        names = (*declared.members, *declared.leaving)
        is_here = self.services.has_part(declared.home, names) and not is_aside
        if self.post is None or is_here:
            return False
        from sluicemq.chain.remote.remote_queue import RemoteQueue  # noqa: PLC0415 (as above)

        homes = self.homes_of(declared)
        self.queues[declared.definition.name] = RemoteQueue(self, declared, homes, self.post)
        return True

    def homes_of(self, declared: DeclaredQueue) -> tuple[int, ...]:
        """Return the other nodes that have a queue, the leader of a quorum queue first."""
        if not declared.members:
            return (declared.home,)
        services = self.services
        nodes = map(node_of, (*declared.members, *declared.leaving))
        homes = [node for node in dict.fromkeys(nodes) if node != services.life.node]
        leader = 0 if services.ask_post is None else services.ask_post.leader_of(declared.id)
        return (*sorted(homes, key=lambda node: node != leader),) or (declared.home,)

    def add(self, queue: Queue) -> None:
        """Add a queue to all tables, so that clients find it from now on."""
        self.queues[queue.name] = queue
        self.enlist(queue)
        wish_for_mirrors(queue)

    def enlist(self, queue: Queue) -> None:
        """Add a queue to the tables besides the one of names: of exclusive queues, of durable ones,
        and of what the next checkpoint has to write."""
        definition = queue.definition
        if definition.owner is not None:
            self.exclusive.setdefault(definition.owner, {})[queue.name] = queue
        if definition.durable:
            self.store.durable_queues[queue.id] = queue
            self.store.checkpoints.touch(queue)

    # -- members of quorum queues come and go

    def is_member(self, queue: object) -> TypeGuard[MemberShell]:
        """Tell whether that is a member of a quorum queue on several nodes: never on a
        node alone."""
        if self.post is None:
            return False
        from sluicemq.chain.queue.quorum.member_shell import MemberShell  # noqa: PLC0415 (as above)

        return isinstance(queue, MemberShell)

    def is_stand_in(self, queue: object) -> TypeGuard[RemoteQueue]:
        """Tell whether that stands for a queue of another node: never on a node alone."""
        if self.post is None:
            return False
        from sluicemq.chain.remote.remote_queue import RemoteQueue  # noqa: PLC0415 (as above)

        return isinstance(queue, RemoteQueue)

    def members_changed(self, declared: DeclaredQueue) -> None:
        """Add a member of a queue here if one is declared, and remove it if none is."""
        if self.mirrored is not None and declared.is_mirrored:
            known = self.queues.get(declared.definition.name)
            if known is not None and declared.id not in self.mirrored.stand_ins:
                self.mirrored.turn(declared, known)
            else:
                self.mirrored.change(declared)
            return
        queue = self.member(declared)
        own = self.member_of(declared)
        if self.is_member(queue):
            if own == queue.raft.member.name:
                queue.post(MembersDue())
            else:
                self.member_gone(declared, queue)
        elif own and declared.id not in self.departing:
            from sluicemq.chain.queue.quorum.births import joined  # noqa: PLC0415 (as above)

            self.set_aside(joined(self, declared, own))
        from sluicemq.chain.remote.remote_queue import HomesChanged  # noqa: PLC0415 (as above)

        homes = self.homes_of(declared)
        for stand_in in (self.queues.get(declared.definition.name), *self.formers_of(declared.id)):
            if self.is_stand_in(stand_in):
                stand_in.post(HomesChanged(homes))

    def leader_moved(self, declared: DeclaredQueue) -> None:
        """Have the member at a queue's home lead, if the one here does."""
        if self.mirrored is not None and declared.is_mirrored:
            self.mirrored.move_master(declared)
            return
        queue = self.queues.get(declared.definition.name)
        if self.is_member(queue):
            queue.post(LeadFrom(declared.home))

    def member(self, declared: DeclaredQueue) -> NamedQueue | MirrorMember | None:
        """Return this node's part in a queue with members: its member, whether channels use that or
        not, or the stand-in; None when there is neither."""
        if self.mirrored is not None and declared.id in self.mirrored.members:
            return self.mirrored.members[declared.id]
        return self.aside.get(declared.id) or self.queues.get(declared.definition.name)

    def member_of(self, declared: DeclaredQueue) -> int:
        """Return the id of this node's member of a quorum queue; 0 when it has none."""
        names = (*declared.members, *declared.leaving)
        return max((each for each in names if node_of(each) == self.services.life.node), default=0)

    def set_aside(self, queue: Queue) -> None:
        """Keep a member that channels do not use."""
        self.aside[queue.id] = queue
        self.enlist(queue)

    def caught_up(self, queue: NamedQueue) -> None:
        assert self.is_member(queue)
        if self.aside.pop(queue.id, None) is None:
            return
        former = self.queues.get(queue.name)
        if self.is_stand_in(former):
            queue.former, former.heir = former, queue
            self.formers[queue.id] = [*self.formers_of(queue.id), former]
        self.queues[queue.name] = queue
        self.topology.has_changed()

    def master_begins(self, queue: Queue) -> None:
        assert self.mirrored is not None, "a master on a node that is alone"
        self.mirrored.master_begins(queue)

    def source_ended(self, queue: Queue) -> None:
        assert self.mirrored is not None, "a queue with mirrors on a node that is alone"
        self.mirrored.source_ended(queue)

    def master_ended(self, queue: Queue) -> None:
        assert self.mirrored is not None, "a master on a node that is alone"
        self.mirrored.master_ended(queue)

    def formers_of(self, queue_id: int) -> list[RemoteQueue]:
        """Return the former stand-ins for a queue that are still in use here."""
        return [each for each in self.formers.get(queue_id, ()) if each.ends]

    def member_gone(self, declared: DeclaredQueue, queue: MemberShell) -> None:
        """Stop this node's member of a quorum queue, because it is out of its group."""
        self.store.durable_queues.pop(queue.id, None)
        self.departing[queue.id] = None
        if self.aside.pop(queue.id, None) is None:
            self.add_remote(declared)
            self.topology.has_changed()
        queue.post(MemberGone())

    def departs(self, queue: NamedQueue) -> None:
        assert self.is_member(queue)
        from sluicemq.chain.queue.quorum.departure import Departure  # noqa: PLC0415 (as above)

        Departure(self, queue).begin()

    def forgotten(self, queue_id: int, name: str) -> None:
        self.departing.pop(queue_id, None)
        if self.mirrored is not None:
            self.mirrored.departing.pop(queue_id, None)
        host = self.services.definitions.hosts.get(self.name)
        declared = None if host is None else host.queues.get(name)
        if declared is not None and declared.id == queue_id:
            self.members_changed(declared)

    # -- queues go

    def unbind_some(self, queue: NamedQueue) -> bool:
        if self.queues.get(queue.name) is not queue:
            return False
        return self.unbind_from(Destination(QUEUE, queue.name))

    def unbind_from(self, target: Destination) -> bool:
        """Remove at most BINDINGS_MAX bindings to something that is about to be deleted. Returns
        True when there are more."""
        agreement = self.services.agreement
        change = UnbindSome(self.name, target.kind, target.name, BINDINGS_MAX)
        count = len(self.topology.inbound.get(target, ()))
        agreement.propose(change)
        if agreement.applies_at_once:
            return target in self.topology.inbound
        for _ in range(count // BINDINGS_MAX):  # agreed changes are applied in pieces anyway
            agreement.propose(change)
        return False

    def unbind_exchange(self, name: str) -> Iterator[int]:
        """Remove all bindings from and to an exchange that is about to be deleted, some at each
        step. Yields the units of work of each step."""
        agreement = self.services.agreement
        change = UnbindSome(self.name, SOURCE, name, BINDINGS_MAX)
        exchange = self.topology.exchanges.get(name)
        count = 0 if exchange is None else len(exchange.bindings)
        for _ in range(-(-count // BINDINGS_MAX)):
            agreement.propose(change)
            yield BINDINGS_MAX * BINDING_WORK
        while self.unbind_from(Destination(EXCHANGE, name)):
            yield BINDINGS_MAX * BINDING_WORK

    def forget_queue(self, queue: NamedQueue) -> bool:
        agreement = self.services.agreement
        if isinstance(queue, HoldingQueue):  # a newer exchange of the same name may have one
            is_there = queue.id in self.services.definitions.hosts[self.name].holding
        else:
            is_there = self.queues.get(queue.name) is queue
        if not is_there:
            return True
        if not agreement.applies_at_once:
            self.leaving[queue.id] = queue
        agreement.propose(DeleteQueue(self.name, queue.name, queue.id))
        return agreement.applies_at_once

    def queue_removed(self, declared: DeclaredQueue) -> Queue | None:
        """Remove a queue that is not declared any more from all tables, and end it if it goes on.
        Returns it if it was not about to end; None when it was, or there is none here."""
        name = declared.definition.name
        self.store.durable_queues.pop(declared.id, None)
        leaving = self.leaving.pop(declared.id, None)
        if leaving is not None:
            leaving.post(Leaving())
        aside = self.aside.pop(declared.id, None)
        if aside is not None:
            aside.undeclared()
        for former in self.formers.pop(declared.id, ()):
            end_stand_in(former)
        if self.mirrored is not None and declared.is_mirrored:
            self.mirrored.remove(declared)
        known = self.queues.holding if is_holding(name) else self.queues
        queue = known.get(name)
        if self.is_stand_in(queue):
            if queue.declared.id == declared.id:
                del known[name]
                end_stand_in(queue)
                self.tell_listener()
            return None
        if queue is None or queue.id != declared.id:
            return None  # it belonged to an earlier exchange of that name
        del known[name]
        owner = declared.definition.owner
        if owner is not None:
            owned = self.exclusive.get(owner, {})
            owned.pop(name, None)
            if not owned:
                self.exclusive.pop(owner, None)
        self.tell_listener()
        if self.services.agreement.applies_at_once or queue.gone or leaving is not None:
            return None  # the queue itself had decided to go
        queue.undeclared()
        return queue

    def exchange_removed(self, exchange: ExchangeDefinition) -> None:
        """Delete the queue that held delayed messages for a deleted exchange, if there is one."""
        self.exchange_traffic.pop(exchange.name, None)
        queue = self.queues.holding.get(holding_queue(exchange.name))
        if queue is not None:
            queue.post(Delete(None, False, False))

    # -- queues that have had a fault

    def crashed(self, queue: NamedQueue, error: Exception) -> None:
        SHELLS[queue.definition.type].crash(self, queue, error).begin()

    def replace(self, queue: Queue, fresh: Queue) -> None:
        known = self.queues.holding if isinstance(queue, HoldingQueue) else self.queues
        if fresh.id != queue.id:
            change = RenumberQueue(self.name, queue.name, queue.id, fresh.id)
            self.services.agreement.propose(change)
        if self.aside.get(queue.id) is queue:
            self.aside[queue.id] = fresh
        else:
            known[queue.name] = fresh
        queue.successor = fresh
        self.enlist(fresh)
        self.topology.has_changed()

    # -- exchanges that delay messages

    def recover_holding(
        self, queue_id: int, definition: QueueDefinition, found: QueueReplica
    ) -> None:
        """Make a recovered queue of delayed messages. It is deleted when its exchange is not
        declared any more, as when the broker died between the two deletions."""
        exchange = definition.name.removeprefix(HOLDING_PREFIX)
        queue = HoldingQueue(self, definition, queue_id, found.index, exchange)
        queue.machine.recover(found.marks(), found.expiring)
        self.add_holding(queue)
        if exchange not in self.topology.exchanges:
            queue.post(Delete(None, False, False))

    def add_holding(self, queue: HoldingQueue) -> None:
        """Add a queue of delayed messages to all tables, so that routing finds it from now on."""
        self.queues.holding[queue.name] = queue
        self.enlist(queue)

    def ensure_delay_queues(self) -> None:
        """Declare each exchange that delays messages again, after a recovery, so that one whose
        queue had not become durable gets one now."""
        for exchange in self.topology.list_exchanges():
            if exchange.type == DELAYED:
                self.services.agreement.propose(DeclareExchange(exchange))


def end_stand_in(stand_in: RemoteQueue) -> None:
    """Have what stands for a queue of another node end, because the queue is not declared any
    more."""
    from sluicemq.chain.remote.remote_queue import QueueUndeclared  # noqa: PLC0415 (as above)

    stand_in.post(QueueUndeclared())
