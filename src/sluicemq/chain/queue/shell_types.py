"""The types of queues that this broker has: how one comes to be, and what it is after a fault.

One row a type. What declarations and policies know of each is in `model/queue_types.py`, by the
same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sluicemq.chain.queue.classic import ClassicShell, empty_index
from sluicemq.chain.queue.crash_recovery import ClassicCrash, Crash
from sluicemq.chain.queue.quorum.crash import QuorumCrash
from sluicemq.chain.queue.quorum.member_log import member_of, newborn, wrapped
from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.chain.queue.stream import StreamShell
from sluicemq.chain.queue.stream_crash_recovery import StreamCrash
from sluicemq.metadata.events import DeclaredQueue
from sluicemq.model.queue_types import CLASSIC, QUORUM, STREAM
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import LogSnapshot

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.storage.recovery import Recovery


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellType:
    """Says of one type of queue how it comes to be, and what it is after a fault."""

    declare: Callable[[VhostPort, DeclaredQueue], Queue]
    """Makes an empty queue that was declared."""
    recover: Callable[[VhostPort, QueueDefinition, int, Recovery], Queue]
    """Makes a queue of this id with what was found of it at the start."""
    crash: Callable[[Any, Any, Exception], Crash[Any]]
    """Takes the virtual host, the queue, and its first fault."""


def declare_classic(vhost: VhostPort, declared: DeclaredQueue) -> Queue:
    index = empty_index(vhost.services, declared.id, declared.definition.durable)
    return ClassicShell(vhost, declared.definition, declared.id, index)


def recover_classic(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> Queue:
    found = recovery.queues[queue_id]
    queue = ClassicShell(vhost, definition, queue_id, found.index)
    queue.machine.recover(found.marks(), found.expiring)
    if queue.machine.needs_tick:
        queue.schedule()  # some of what is there may have to go
    return queue


def declare_stream(vhost: VhostPort, declared: DeclaredQueue) -> Queue:
    return StreamShell(vhost, declared.definition, declared.id)


def recover_stream(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> Queue:
    stream = StreamShell(vhost, definition, queue_id)
    stream.recover(recovery.streams[queue_id])
    return stream


def declare_quorum(vhost: VhostPort, declared: DeclaredQueue) -> Queue:
    """Make the member of this node of a group that is born. Who has declared it has said who is to
    lead it first."""
    services, definition = vhost.services, declared.definition
    if not declared.members:
        raft = member_of(services, newborn())
        alone = QuorumShell(vhost, definition, declared.id, raft, b"", is_born=False)
        alone.begin_life([])
        return alone
    birth = LogSnapshot(0, 0, Configuration((*sorted(declared.members),)))
    raft = member_of(services, newborn(birth), services.life.node)
    queue = SharedShell(vhost, definition, declared.id, raft, b"", is_born=False)
    queue.begin_life([])
    if declared.home == services.life.node:
        queue.lead_first()
    return queue


def recover_quorum(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> Queue:
    """Make a quorum queue of what was found of its group. Of one that was declared just before the
    node ended there may be nothing: then it is born now."""
    tables, services = recovery.definitions, vhost.services
    durable = recovery.groups.found.pop(queue_id, None)
    members = tables.members.get(queue_id, ())
    if durable is None:
        home = tables.homes.get(queue_id, 0)
        declared = DeclaredQueue(queue_id, definition, services.life, home, members)
        return declare_quorum(vhost, declared)
    content = recovery.groups.contents.pop(queue_id, b"")
    is_amnesiac = recovery.groups.groups[queue_id].is_amnesiac
    durable = replace(durable, entries=wrapped(durable.entries))
    kind = SharedShell if members else QuorumShell
    name = services.life.node if members else 1
    raft = member_of(services, durable, name, is_amnesiac=is_amnesiac)
    queue = kind(vhost, definition, queue_id, raft, content, is_born=True)
    queue.begin_life([])
    return queue


SHELLS: Final[dict[str, ShellType]] = {
    CLASSIC: ShellType(declare=declare_classic, recover=recover_classic, crash=ClassicCrash),
    QUORUM: ShellType(declare=declare_quorum, recover=recover_quorum, crash=QuorumCrash),
    STREAM: ShellType(declare=declare_stream, recover=recover_stream, crash=StreamCrash),
}
