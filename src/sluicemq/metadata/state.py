"""The machine: all definitions, and what a change does to them.

`apply` decides by this state and the change alone: no clock, no chance, nothing of this node. So
each member of a cluster that applies the same changes comes to the same verdicts and the same
snapshot, byte for byte. A refusal is RabbitMQ's (ProtocolViolation) for what clients declare and
Refused for what operators do, and leaves everything as it was.

Exchanges and bindings are kept where routing needs them, in the Topology of their virtual host;
everybody reads these tables and only `apply` changes them. Alternate exchanges from policies are
derived from the state: no verdict depends on them, because whether a pattern matches may depend on
a library and a time limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sluicemq.errors import (
    ChannelViolation,
    ConnectionViolation,
    Corrupt,
    ProtocolViolation,
    Refused,
)
from sluicemq.kernel.address import node_of
from sluicemq.metadata.changes import (
    LOCAL_QUEUE_IDS,
    ONLY_LIFE,
    SOURCE,
    AddMember,
    AddNode,
    Bind,
    Bootstrap,
    Change,
    CloseVhost,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteRecord,
    Life,
    LifeOver,
    MemberLeft,
    MoveLeader,
    NodeStarted,
    PromoteMember,
    RemoveMember,
    RemoveNode,
    RenumberQueue,
    Together,
    Unbind,
    UnbindSome,
    UpsertRecord,
)
from sluicemq.metadata.events import (
    Applied,
    DeclaredQueue,
    ExchangeRemoved,
    NodeAdded,
    NodeRemoved,
    QueueAdded,
    QueueRemoved,
    RecordDeleted,
    RecordUpserted,
    VhostClosed,
)
from sluicemq.metadata.joined_nodes import JoinedNodes
from sluicemq.metadata.queue_members import (
    add_member,
    member_left,
    move_leader,
    node_gone,
    promote_member,
    remove_member,
)
from sluicemq.metadata.record_tables import RecordTables
from sluicemq.metadata.snapshot import checkpoint_pieces, snapshot_pieces
from sluicemq.metadata.vhost_state import VhostState, find_queue
from sluicemq.model.definitions import (
    QUEUE,
    Destination,
    QueueDefinition,
    check_equivalent_queue,
    check_name,
    validate_queue,
)
from sluicemq.model.permissions import Permission, TopicPermission
from sluicemq.model.policies import Policy
from sluicemq.model.vhosts import MAX_QUEUES, VhostDefinition, limit_of
from sluicemq.routing.delayed import DELAYED, holding_queue, is_holding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluicemq.model.definitions import ExchangeDefinition
    from sluicemq.model.record import DefinitionRecord

ADDS: Final = (UpsertRecord, DeclareExchange, DeclareQueue, Bind)
"""What may be made together: to take it back is to delete or to replace it again."""


class DeclaredState(RecordTables):
    """All definitions of one node or of a cluster."""

    is_vital = True
    """A fault in here ends the node (kernel/containment.py)."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts: dict[str, VhostState] = {}
        self.next_queue_id = 1
        self.incarnations: dict[int, int] = {}
        """The incarnation of each node that has started, by node."""
        self.proposed: dict[int, int] = {}
        """Of what each node has proposed in that life, the number of the last that was decided."""
        self.nodes = JoinedNodes()
        """Who belongs to the cluster, beside its founders."""
        self.revision = 1
        """A number that rises with every change of what is durable."""
        self.problems: list[str] = []
        """For the log: the policies that are there but do not hold, and why."""
        self._encoded = (0, b"")
        """Everything durable in encoded form, and the revision that this is of."""
        self._undo: list[Callable[[], object]] | None = None
        """How to take back what has been done together so far, the last change first; None: nothing
        is done together."""
        self._stale: dict[str, None] = {}
        """Virtual hosts where other policies hold, which exchanges do not know yet."""

    def apply(self, change: Change) -> Applied:
        """Decide on a change, and apply it. Raises ProtocolViolation or Refused, and then nothing
        has changed."""
        outcome = APPLIED[type(change)](self, change)
        if self._stale:
            self.apply_policies()
        if outcome.durable:
            self.revision += 1
        return outcome

    def apply_policies(self) -> None:
        """Apply the present policies to exchanges."""
        for name in self._stale:
            self.hosts[name].topology.policies_changed()
        self._stale.clear()

    def encode(self) -> bytes:
        """Return the durable part, for a checkpoint; the bytes are cached until it changes."""
        deque(self.pieces(), 0)
        return self._encoded[1]

    def pieces(self) -> Iterator[bytes]:
        """Yield what `encode` returns, in parts, as it is when the first one is asked for. Each has
        at most PIECE_RECORDS records."""
        revision, encoded = self._encoded
        if revision == self.revision:
            yield encoded
            return
        revision = self.revision
        found: list[bytes] = []
        for piece in checkpoint_pieces(self, [*self.hosts.values()]):
            found.append(piece)
            yield piece
        if self.revision == revision:
            self._encoded = (revision, b"".join(found))

    def snapshot(self) -> bytes:
        """Return everything, for another member: `restored_from_snapshot` makes the same state of
        it."""
        return b"".join(self.snapshot_pieces())

    def snapshot_pieces(self) -> Iterator[bytes]:
        """Yield what `snapshot` returns, in parts of at most PIECE_RECORDS records, as it is when
        this is called."""
        return snapshot_pieces(
            self, self.hosts, self.next_queue_id, self.incarnations, self.proposed, self.nodes
        )

    def queue_id(self) -> int:
        """Return a number that no queue has had."""
        queue_id = self.next_queue_id
        self.next_queue_id += 1
        return queue_id

    def is_open(self, vhost: str) -> bool:
        """Tell whether anything may be declared in that virtual host."""
        host = self.hosts.get(vhost)
        return host is not None and not host.is_closed

    def open_host(self, vhost: str) -> VhostState:
        """Return that virtual host. Raises a violation (320) when it is being deleted,
        or is gone.
        """
        host = self.hosts.get(vhost)
        if host is None or host.is_closed:
            raise ConnectionViolation(320, close_reason(vhost))
        return host

    def check_room(self, vhost: str, queue: str) -> None:
        """Raise a violation (406) when the virtual host has as many queues as it may have; `queue`
        is the one that was to be declared."""
        most = limit_of(self.vhosts[vhost].limits, MAX_QUEUES)
        if most is not None and len(self.hosts[vhost].queues) >= most:
            where = f"queue limit in vhost '{vhost}' ({most})"
            raise ChannelViolation(406, f"cannot declare queue '{queue}': {where} is reached")

    # -- records

    def upsert_record(self, change: UpsertRecord) -> Applied:
        record = change.record
        self._check_owners(record)
        table = self.records[record.KIND]
        before: DefinitionRecord | None = table.get(record.key)
        table[record.key] = record
        if isinstance(record, VhostDefinition) and before is None:
            self.hosts[record.name] = VhostState(record.name)
        if isinstance(record, Policy):
            self._hold(record)
        if self._undo is not None:
            self._undo.append(partial(self._put_back, record, before))
        return Applied([RecordUpserted(record)], [change], lasts=True)

    def _check_owners(self, record: DefinitionRecord) -> None:
        """Refuse a record whose user or virtual host does not exist."""
        vhost = getattr(record, "vhost", None)
        if vhost is not None and vhost not in self.vhosts:
            raise Refused(f"virtual host '{vhost}' does not exist")
        if isinstance(record, Permission | TopicPermission) and record.user not in self.users:
            raise Refused(f"user '{record.user}' does not exist")

    def _hold(self, policy: Policy) -> None:
        """Apply a policy from now on, unless its pattern or its values are invalid here: another
        version may have accepted them."""
        try:
            self.hosts[policy.vhost].topology.policies.upsert(policy)
        except Refused as refused:
            self.hosts[policy.vhost].topology.policies.delete(policy.KIND, policy.name)
            text = f"policy '{policy.name}' in vhost '{policy.vhost}' is not applied: {refused}"
            self.problems.append(text)
        self._stale[policy.vhost] = None

    def _put_back(self, record: DefinitionRecord, before: DefinitionRecord | None) -> None:
        """Make the record what it was before; None: there was none."""
        table = self.records[record.KIND]
        if before is not None:
            table[record.key] = before
        else:
            del table[record.key]
        if isinstance(before, Policy):
            self._hold(before)
        elif isinstance(record, Policy):
            self._let_go(record)
        elif isinstance(record, VhostDefinition) and before is None:
            self._stale.pop(record.name, None)
            del self.hosts[record.name]

    def _let_go(self, policy: Policy) -> None:
        """Stop applying a policy."""
        self.hosts[policy.vhost].topology.policies.delete(policy.KIND, policy.name)
        self._stale[policy.vhost] = None

    def delete_record(self, change: DeleteRecord) -> Applied:
        record: DefinitionRecord | None = self.records[change.kind].get(change.key)
        if record is None:
            return Applied(lasts=True)
        if isinstance(record, VhostDefinition):
            host = self.hosts[record.name]
            if host.queues or host.holding:
                raise Refused(f"virtual host '{record.name}' still has queues")
            del self.hosts[record.name]
        self.remove_record(change.kind, change.key)
        if isinstance(record, Policy):
            self._let_go(record)
        return Applied([RecordDeleted(record)], [change], lasts=True)

    def close_vhost(self, change: CloseVhost) -> Applied:
        host = self.hosts.get(change.name)
        if host is None or host.is_closed:
            return Applied()
        host.is_closed = True
        return Applied([VhostClosed(change.name)])

    # -- what was there before

    def restore_record(self, record: DefinitionRecord) -> None:
        """Restore a record that was there before, whatever it belongs to."""
        self.records[record.KIND][record.key] = record
        if isinstance(record, VhostDefinition):
            self.hosts[record.name] = VhostState(record.name)
        elif isinstance(record, Policy):
            self._hold(record)

    def restore_queue(self, queue: DeclaredQueue) -> None:
        """Restore a queue that was there before, with its id. Raises Corrupt when there is one of
        that name."""
        host = self.hosts[queue.definition.vhost]
        if queue.definition.name in host.queues:
            raise Corrupt(f"definitions with two queues '{queue.definition.name}'")
        self._add_queue(host, queue, Applied())
        self.next_queue_id = max(self.next_queue_id, queue.id + 1)

    # -- exchanges and bindings

    def declare_exchange(self, change: DeclareExchange) -> Applied:
        """Declare an exchange, with the queue that keeps messages back for it if it delays them.
        The queue of an earlier exchange of the name may still be there, and is being deleted."""
        asked = change.definition
        host = self.open_host(asked.vhost)
        is_new = host.topology.declare_exchange(asked)
        outcome = Applied(lasts=asked.durable)
        if is_new:
            if not asked.durable and change.life != ONLY_LIFE:
                host.lives[asked.name] = change.life
            if asked.durable:
                outcome.durable.append(change)
            if self._undo is not None:
                self._undo.append(partial(self._take_back_exchange, host, asked.name))
        if asked.type == DELAYED and (is_new or host.held_for(asked.name) is None):
            name = holding_queue(asked.name)
            queue = QueueDefinition(name, asked.durable, vhost=asked.vhost)
            self._add_queue(host, DeclaredQueue(self.queue_id(), queue, change.life), outcome)
        return outcome

    def _take_back_exchange(self, host: VhostState, name: str) -> None:
        host.topology.delete_exchange(name, if_unused=False)
        host.lives.pop(name, None)

    def delete_exchange(self, change: DeleteExchange) -> Applied:
        host = self.hosts.get(change.vhost)
        if host is None:
            return Applied()
        return self._gone(host, host.topology.delete_exchange(change.name, change.if_unused))

    def bind(self, change: Bind) -> Applied:
        binding = change.binding
        topology = self.open_host(binding.vhost).topology
        is_new = topology.bind(binding)
        lasts = topology.is_durable(binding)
        if is_new and self._undo is not None:
            self._undo.append(partial(topology.withdraw, binding))
        return Applied(durable=[change] if is_new and lasts else [], lasts=lasts)

    def unbind(self, change: Unbind) -> Applied:
        host = self.hosts.get(change.binding.vhost)
        if host is None:
            return Applied()
        topology = host.topology
        lasted = change.binding.identity in topology.durable_bindings
        lasts = topology.is_durable(change.binding)
        outcome = self._gone(host, topology.unbind(change.binding))
        if lasted:
            outcome.durable.insert(0, change)
        outcome.lasts |= lasts
        return outcome

    def unbind_some(self, change: UnbindSome) -> Applied:
        """Remove some bindings. The journal does not record each: the deletion of what they belong
        to covers them."""
        host = self.hosts.get(change.vhost)
        if host is None:
            return Applied()
        self.revision += 1
        if change.end == SOURCE:
            host.topology.take_from(change.name, change.most)
            return Applied()
        target = Destination(change.end, change.name)
        return self._gone(host, host.topology.take_to(target, change.most))

    def _gone(self, host: VhostState, exchanges: Iterable[ExchangeDefinition]) -> Applied:
        """These went with their last bindings, or were deleted."""
        outcome = Applied()
        for exchange in exchanges:
            host.lives.pop(exchange.name, None)
            outcome.events.append(ExchangeRemoved(exchange))
            if exchange.durable:
                outcome.durable.append(DeleteExchange(host.topology.vhost, exchange.name))
                outcome.lasts = True
        return outcome

    # -- queues

    def declare_queue(self, change: DeclareQueue) -> Applied:
        asked = change.definition
        host = self.open_host(asked.vhost)
        known = host.queues.get(asked.name)
        if known is not None:
            check_equivalent_queue(known.definition, asked, asked.vhost)
            return Applied(lasts=asked.durable)
        if is_holding(asked.name) or not change.is_free:
            check_name(QUEUE, asked.name)
        self.check_room(asked.vhost, asked.name)
        validate_queue(asked, asked.vhost)
        outcome = Applied(lasts=asked.durable)
        home, members = self._places(change)
        life = change.life if home == change.home or asked.durable else Life(home, 0)
        if life.incarnation < self.incarnations.get(life.node, 0):
            life = Life(life.node, self.incarnations[life.node])  # it has begun anew meanwhile
        queue_id = change.queue_id or self.queue_id()
        queue = DeclaredQueue(queue_id, asked, life, home, members, born=members)
        self._add_queue(host, queue, outcome)
        return outcome

    def _places(self, change: DeclareQueue) -> tuple[int, tuple[int, ...]]:
        """Return the home and the members of a queue that is declared, without nodes that were
        removed after its proposer had chosen them. If none is left, another node has it."""
        home, is_gone = change.home, self.nodes.is_gone
        members = (*(each for each in change.members if not is_gone(node_of(each))),)
        if is_gone(home):
            there = (node for node in self.incarnations if not is_gone(node))
            home = node_of(members[0]) if members else min(there)
        return home, members or (home,) * bool(change.members)

    def _add_queue(self, host: VhostState, queue: DeclaredQueue, outcome: Applied) -> None:
        """Make a queue known from now on; one that holds messages back for an exchange is known
        only to that."""
        definition = queue.definition
        if is_holding(definition.name):
            host.holding[queue.id] = queue
        else:
            host.topology.add_queue(definition.name, definition.durable)
            host.queues[definition.name] = queue
        outcome.events.append(QueueAdded(queue))
        if definition.durable:
            places = queue.home, queue.members, queue.leaving, queue.born
            change = DeclareQueue(definition, False, queue.id, ONLY_LIFE, *places)
            outcome.durable.append(change)
        if self._undo is not None:
            self._undo.append(partial(self._take_back_queue, host, queue, queue.id))

    def _take_back_queue(self, host: VhostState, queue: DeclaredQueue, next_id: int) -> None:
        """Take back a queue that nobody knows yet; its id may be given again."""
        self._remove_queue(host, queue)
        self.next_queue_id = next_id

    def _remove_queue(
        self, host: VhostState, queue: DeclaredQueue
    ) -> tuple[ExchangeDefinition, ...]:
        """Remove a queue. Returns the auto-delete exchanges that were deleted with it."""
        if host.holding.pop(queue.id, None) is not None:
            return ()
        del host.queues[queue.definition.name]
        return host.topology.remove_queue(queue.definition.name)

    def delete_queue(self, change: DeleteQueue) -> Applied:
        """Delete a queue. The queue itself writes that to the journal, with more details."""
        host = self.hosts.get(change.vhost)
        queue = None if host is None else find_queue(host, change.name, change.queue_id)
        if host is None or queue is None:
            return Applied()
        self.revision += queue.definition.durable
        outcome = self._gone(host, self._remove_queue(host, queue))
        outcome.events.append(QueueRemoved(queue))
        return outcome

    def renumber_queue(self, change: RenumberQueue) -> Applied:
        host = self.hosts.get(change.vhost)
        queue = None if host is None else find_queue(host, change.name, change.queue_id)
        if host is None or queue is None or queue.definition.durable:
            return Applied()
        queue.id = change.new_id
        if host.holding.pop(change.queue_id, None) is not None:
            host.holding[queue.id] = queue
        if change.new_id < LOCAL_QUEUE_IDS:
            self.next_queue_id = max(self.next_queue_id, change.new_id + 1)
        return Applied()

    # -- members of quorum queues

    def add_member(self, change: AddMember) -> Applied:
        """Add a member. Its id has the number that the next queue would have had, which no queue
        gets then."""
        if self.nodes.is_gone(change.node):
            raise Refused(f"node {change.node} was removed from the cluster")
        outcome = add_member(self._quorum_queue(change), change.node, self.next_queue_id)
        self.queue_id()
        return self._durably(outcome)

    def remove_member(self, change: RemoveMember) -> Applied:
        return self._durably(remove_member(self._quorum_queue(change), change.node))

    def member_left(self, change: MemberLeft) -> Applied:
        host = self.hosts.get(change.vhost)
        queue = None if host is None else find_queue(host, change.name, change.queue_id)
        return Applied() if queue is None else self._durably(member_left(queue, change.member))

    def promote_member(self, change: PromoteMember) -> Applied:
        queue = self._quorum_queue(change)
        outcome = promote_member(queue, change.node, change.members, self.next_queue_id)
        self.queue_id()
        return self._durably(outcome)

    def move_leader(self, change: MoveLeader) -> Applied:
        return self._durably(move_leader(self._quorum_queue(change), change.node))

    def _quorum_queue(
        self, change: AddMember | RemoveMember | PromoteMember | MoveLeader
    ) -> DeclaredQueue:
        """Return the queue whose members are to change. Refused when it is gone."""
        host = self.hosts.get(change.vhost)
        queue = None if host is None else find_queue(host, change.name, change.queue_id)
        if queue is None:
            raise Refused(f"there is no queue '{change.name}' in vhost '{change.vhost}' any more")
        return queue

    def _durably(self, outcome: Applied) -> Applied:
        """Count the outcome as a change of what is durable, if anything has happened."""
        self.revision += bool(outcome.events)
        return outcome

    # -- several at once

    def node_started(self, change: NodeStarted) -> Applied:
        life = change.life
        known = self.incarnations.get(life.node)
        if known is not None and life.incarnation <= known:
            raise Refused(
                f"node {life.node} has started with incarnation {life.incarnation}, but was known"
                f" with {known}: its disk was rolled back"
            )
        self.incarnations[life.node] = life.incarnation
        return self._end_lives(life.node, life.incarnation - 1)

    def life_over(self, change: LifeOver) -> Applied:
        life = change.life
        if self.incarnations.get(life.node) != life.incarnation:
            return Applied()
        return self._end_lives(*life)

    def has_temporary(self, node: int, incarnation: int) -> bool:
        """Tell whether something goes with the lives of a node up to that incarnation."""
        for host in self.hosts.values():
            if any(is_over(each, node, incarnation) for each in host.lives.values()):
                return True
            for queue in (*host.queues.values(), *host.holding.values()):
                if not queue.definition.durable and is_over(queue.life, node, incarnation):
                    return True
        return False

    def _end_lives(self, node: int, incarnation: int) -> Applied:
        """Remove what belongs to the lives of a node up to that incarnation."""
        outcome = Applied()
        for host in self.hosts.values():
            for queue in [*host.queues.values(), *host.holding.values()]:
                if not queue.definition.durable and is_over(queue.life, node, incarnation):
                    merge(outcome, self._gone(host, self._remove_queue(host, queue)))
                    outcome.events.append(QueueRemoved(queue))
            over = [name for name, each in host.lives.items() if is_over(each, node, incarnation)]
            for name in over:
                gone = host.topology.delete_exchange(name, if_unused=False)
                merge(outcome, self._gone(host, gone))
        return outcome

    def add_node(self, change: AddNode) -> Applied:
        return Applied([NodeAdded(change)] if self.nodes.add(change) else [], lasts=True)

    def remove_node(self, change: RemoveNode) -> Applied:
        """Remove a node with everything that was only on it. Its members of quorum queues are
        removed, too."""
        if not self.nodes.remove(change):
            return Applied(lasts=True)
        outcome = self._end_lives(change.number, self.incarnations.get(change.number, 0))
        for host in self.hosts.values():
            for queue in lost_with(host, change.number, self.nodes):
                merge(outcome, self._gone(host, self._remove_queue(host, queue)))
                outcome.events.append(QueueRemoved(queue))
            for queue in host.queues.values():
                outcome.events += node_gone(queue, change.number)
        self.revision += 1
        outcome.events.append(NodeRemoved(change))
        outcome.lasts = True
        return outcome

    def bootstrap(self, change: Bootstrap) -> Applied:
        if self.users or self.vhosts or self.permissions:
            return Applied()
        return self.apply_together(Together(change.changes))

    def apply_together(self, change: Together) -> Applied:
        """Apply all changes or none: when one is refused, those before it are taken back."""
        assert self._undo is None, "changes that are made together are not nested"
        outcome = Applied()
        undo: list[Callable[[], object]] = []
        self._undo = undo
        try:
            for each in change.changes:
                if not isinstance(each, ADDS):
                    raise Refused(f"{type(each).__name__} cannot be made together with others")
                merge(outcome, APPLIED[type(each)](self, each))
        except (ProtocolViolation, Refused):
            for take_back in reversed(undo):
                take_back()
            raise
        finally:
            self._undo = None
        return outcome


def close_reason(vhost: str) -> str:
    """Return what the connections of a virtual host are told when it is being deleted."""
    return f"vhost '{vhost}' is deleted"


def is_over(life: Life, node: int, incarnation: int) -> bool:
    """Tell whether that is a life of the node, up to this incarnation."""
    return life.node == node and life.incarnation <= incarnation


def lost_with(host: VhostState, node: int, nodes: JoinedNodes) -> list[DeclaredQueue]:
    """Return the queues of a virtual host that are nowhere when a node is removed: those that live
    there, and quorum queues with members on nodes that are gone alone."""
    return [
        queue
        for queue in (*host.queues.values(), *host.holding.values())
        if all(
            each == node or nodes.is_gone(each)
            for each in (*map(node_of, queue.members),) or (queue.home,)
        )
    ]


def merge(outcome: Applied, more: Applied) -> None:
    """Add another outcome to this one."""
    outcome.events += more.events
    outcome.durable += more.durable
    outcome.lasts |= more.lasts


APPLIED: Final[dict[type, Callable[[DeclaredState, Any], Applied]]] = {
    UpsertRecord: DeclaredState.upsert_record,
    DeleteRecord: DeclaredState.delete_record,
    CloseVhost: DeclaredState.close_vhost,
    DeclareExchange: DeclaredState.declare_exchange,
    DeleteExchange: DeclaredState.delete_exchange,
    Bind: DeclaredState.bind,
    Unbind: DeclaredState.unbind,
    UnbindSome: DeclaredState.unbind_some,
    DeclareQueue: DeclaredState.declare_queue,
    DeleteQueue: DeclaredState.delete_queue,
    RenumberQueue: DeclaredState.renumber_queue,
    AddMember: DeclaredState.add_member,
    RemoveMember: DeclaredState.remove_member,
    MemberLeft: DeclaredState.member_left,
    PromoteMember: DeclaredState.promote_member,
    MoveLeader: DeclaredState.move_leader,
    NodeStarted: DeclaredState.node_started,
    LifeOver: DeclaredState.life_over,
    AddNode: DeclaredState.add_node,
    RemoveNode: DeclaredState.remove_node,
    Bootstrap: DeclaredState.bootstrap,
    Together: DeclaredState.apply_together,
}
