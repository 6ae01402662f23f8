"""The creation of this node's member of a mirrored queue: born with the queue, added to it later,
or recovered at a start.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.group.member_log import member_of, newborn, wrapped
from sluicemq.chain.queue.mirrored.member import MirrorMember
from sluicemq.chain.queue.mirrored.replicator import MIRROR_ENTRIES
from sluicemq.kernel.address import number_of
from sluicemq.queues.mirrored.promotion import term_of_promotion, was_promoted
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.snapshot import LogSnapshot

if TYPE_CHECKING:
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.storage.recovery import Recovery

VERSION: Final = MIRROR_ENTRIES.version


def born(vhost: NamespacePort, declared: DeclaredQueue, name: int, term: int = 0) -> MirrorMember:
    """Create the member `name` of this node in a new group. The group has all members that the
    queue was declared with; or this one alone, if the queue had no mirrors before, or the other
    members are left behind. Those were never in a term above `term`."""
    voters = (name,) if number_of(name) else (*sorted(declared.born),)
    birth = LogSnapshot(0, 0, Configuration(voters))
    raft = member_of(vhost.services, declared.id, Durable(term, 0, birth), VERSION, name)
    return MirrorMember(vhost, declared.definition, declared.id, raft, b"", is_born=False)


def joined(vhost: NamespacePort, declared: DeclaredQueue, name: int) -> MirrorMember:
    """Create the member `name` of this node, which is added to a group: it has nothing and knows
    only itself until the master has sent it the log. Its id was never used before."""
    assert number_of(name) > 0, "whom a group is born with is never added"
    birth = LogSnapshot(0, 0, Configuration(learners=(name,)))
    raft = member_of(vhost.services, declared.id, newborn(birth), VERSION, name)
    return MirrorMember(vhost, declared.definition, declared.id, raft, b"", is_born=False)


def recovered(
    vhost: NamespacePort, declared: DeclaredQueue, name: int, recovery: Recovery
) -> MirrorMember:
    """Create the member `name` from its recovered files. If there are none it is born, or joins,
    now. If part of the journal is lost, the lost part may have held promises of the member: then it
    says nothing more."""
    services, definition, queue_id = vhost.services, declared.definition, declared.id
    durable = recovery.groups.found.pop(queue_id, None)
    if durable is not None:
        content = recovery.groups.contents.pop(queue_id, b"")
        is_amnesiac = recovery.groups.groups[queue_id].is_amnesiac
        durable = replace(durable, entries=wrapped(durable.entries, MIRROR_ENTRIES))
        raft = member_of(services, queue_id, durable, VERSION, name, is_amnesiac=is_amnesiac)
        if was_promoted(declared, name, raft):
            raft.go_on_alone(name, term_of_promotion(name))
        return MirrorMember(vhost, definition, queue_id, raft, content, is_born=True)
    if recovery.may_have_forgotten:
        nothing = newborn(LogSnapshot(0, 0, Configuration()))
        raft = member_of(services, queue_id, nothing, VERSION, name, is_amnesiac=True)
        return MirrorMember(vhost, definition, queue_id, raft, b"", is_born=True)
    if not number_of(name):
        return born(vhost, declared, name)
    if name != min(declared.members):
        return joined(vhost, declared, name)
    return born(vhost, declared, name, term_of_promotion(name))
