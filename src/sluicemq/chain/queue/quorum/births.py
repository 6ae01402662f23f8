"""The creation of this node's member of a quorum queue: born with the queue, added to it later, or
recovered at a start. This module is imported when there is such a queue.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.group.member_log import member_of, newborn, wrapped
from sluicemq.chain.queue.quorum.replicator import QUORUM_ENTRIES
from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.kernel.address import node_of, number_of
from sluicemq.metadata.events import DeclaredQueue
from sluicemq.queues.quorum.snapshot import MACHINE_VERSION
from sluicemq.raft.configuration import Configuration, decoded
from sluicemq.raft.entry import CONFIGURATION
from sluicemq.raft.snapshot import LogSnapshot

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.storage.recovery import Recovery

NOBODY: Final = Configuration()
ALONE: Final = 1
"""The id of a group's only member, on a broker without a cluster."""


def born(vhost: VhostPort, declared: DeclaredQueue) -> Queue:
    """Create this node's member of a new group, which begins with all members that the queue was
    declared with, whether they are its members still or not: this node may have been away. The node
    that declared the queue has chosen the first leader."""
    services, definition = vhost.services, declared.definition
    if not declared.members:
        raft = member_of(services, declared.id, newborn(), MACHINE_VERSION)
        alone = QuorumShell(vhost, definition, declared.id, raft, b"", is_born=False)
        alone.begin_life([])
        return alone
    birth = LogSnapshot(0, 0, Configuration((*sorted(declared.born),)))
    raft = member_of(services, declared.id, newborn(birth), MACHINE_VERSION, services.life.node)
    queue = SharedShell(vhost, definition, declared.id, raft, b"", is_born=False)
    queue.begin_life([])
    if declared.home == services.life.node:
        queue.lead_first()
    return queue


def joined(vhost: VhostPort, declared: DeclaredQueue, name: int) -> SharedShell:
    """Create the member `name` of this node, which is added to a group: it has nothing and knows
    only itself until the leader has sent it the log. Its id was never used before."""
    assert number_of(name) > 0, "whom a group is born with is never added"
    birth = LogSnapshot(0, 0, Configuration(learners=(name,)))
    raft = member_of(vhost.services, declared.id, newborn(birth), MACHINE_VERSION, name)
    queue = SharedShell(vhost, declared.definition, declared.id, raft, b"", is_born=False)
    queue.learn()
    return queue


def is_of_earlier_member(node: int, queue_id: int, recovery: Recovery) -> bool:
    """Tell whether the recovered files of a group belong to an earlier member on this node, not to
    the declared one, and must be forgotten first."""
    durable = recovery.groups.found.get(queue_id)
    if durable is None:
        return False
    own = declared_member(node, queue_id, recovery)
    if own and recovery.groups.groups[queue_id].joined == own:
        return False
    found = [durable.snapshot.configuration]
    found += [decoded(bytes(each.data)) for each in durable.entries if each.kind == CONFIGURATION]
    known = {name for each in found for name in (*each.members, each.removed_max)}
    return own not in known and any(node_of(name) == node for name in known if number_of(own))


def declared_member(node: int, queue_id: int, recovery: Recovery) -> int:
    """Return the id of this node's member of a quorum queue; 0 if it has none, or the group has
    only this node."""
    tables = recovery.definitions
    names = (*tables.members.get(queue_id, ()), *tables.leaving.get(queue_id, ()))
    return max((each for each in names if node_of(each) == node), default=0)


def recovered(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> Queue:
    """Create a quorum queue from the recovered files of its group. If the queue was declared just
    before the node ended there may be none: then the member is born now. If part of the journal is
    lost, the lost part may have held promises of the member: then a member in a cluster says
    nothing more."""
    tables, services = recovery.definitions, vhost.services
    durable = recovery.groups.found.pop(queue_id, None)
    members = tables.members.get(queue_id, ())
    name = declared_member(services.life.node, queue_id, recovery)
    if durable is None:
        home = tables.homes.get(queue_id, 0)
        born_with = tables.born.get(queue_id, members)
        declared = DeclaredQueue(queue_id, definition, services.life, home, members, born=born_with)
        if name and recovery.may_have_forgotten:
            nothing = newborn(LogSnapshot(0, 0, NOBODY))
            raft = member_of(services, queue_id, nothing, MACHINE_VERSION, name, is_amnesiac=True)
            silent = SharedShell(vhost, definition, queue_id, raft, b"", is_born=True)
            silent.begin_life([])
            return silent
        return joined(vhost, declared, name) if number_of(name) else born(vhost, declared)
    content = recovery.groups.contents.pop(queue_id, b"")
    is_amnesiac = recovery.groups.groups[queue_id].is_amnesiac
    durable = replace(durable, entries=wrapped(durable.entries, QUORUM_ENTRIES))
    kind = SharedShell if members else QuorumShell
    raft = member_of(
        services, queue_id, durable, MACHINE_VERSION, name or ALONE, is_amnesiac=is_amnesiac
    )
    queue = kind(vhost, definition, queue_id, raft, content, is_born=True)
    queue.begin_life([])
    return queue
