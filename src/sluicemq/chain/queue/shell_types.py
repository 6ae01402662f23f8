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
from sluicemq.chain.queue.quorum.member_log import member_of, newborn
from sluicemq.chain.queue.quorum.shell import QuorumShell, wrapped
from sluicemq.chain.queue.stream import StreamShell
from sluicemq.chain.queue.stream_crash_recovery import StreamCrash
from sluicemq.model.queue_types import CLASSIC, QUORUM, STREAM

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.storage.recovery import Recovery


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellType:
    """Says of one type of queue how it comes to be, and what it is after a fault."""

    declare: Callable[[VhostPort, QueueDefinition, int], Queue]
    """Makes an empty queue with this id."""
    recover: Callable[[VhostPort, QueueDefinition, int, Recovery], Queue]
    """Makes a queue of this id with what was found of it at the start."""
    crash: Callable[[Any, Any, Exception], Crash[Any]]
    """Takes the virtual host, the queue, and its first fault."""


def declare_classic(vhost: VhostPort, definition: QueueDefinition, queue_id: int) -> Queue:
    index = empty_index(vhost.services, queue_id, definition.durable)
    return ClassicShell(vhost, definition, queue_id, index)


def recover_classic(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> Queue:
    found = recovery.queues[queue_id]
    queue = ClassicShell(vhost, definition, queue_id, found.index)
    queue.machine.recover(found.marks(), found.expiring)
    if queue.machine.needs_tick:
        queue.schedule()  # some of what is there may have to go
    return queue


def recover_stream(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> Queue:
    stream = StreamShell(vhost, definition, queue_id)
    stream.recover(recovery.streams[queue_id])
    return stream


def declare_quorum(vhost: VhostPort, definition: QueueDefinition, queue_id: int) -> Queue:
    raft = member_of(vhost.services, newborn())
    queue = QuorumShell(vhost, definition, queue_id, raft, b"", is_born=False)
    queue.begin_life([])
    return queue


def recover_quorum(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> Queue:
    """Make a quorum queue of what was found of its group. Of one that was declared just before the
    node ended there may be nothing: then it is born now."""
    durable = recovery.groups.found.pop(queue_id, None)
    if durable is None:
        return declare_quorum(vhost, definition, queue_id)
    content = recovery.groups.contents.pop(queue_id, b"")
    is_amnesiac = recovery.groups.groups[queue_id].is_amnesiac
    durable = replace(durable, entries=wrapped(durable.entries))
    raft = member_of(vhost.services, durable, is_amnesiac=is_amnesiac)
    queue = QuorumShell(vhost, definition, queue_id, raft, content, is_born=True)
    queue.begin_life([])
    return queue


SHELLS: Final[dict[str, ShellType]] = {
    CLASSIC: ShellType(declare=declare_classic, recover=recover_classic, crash=ClassicCrash),
    QUORUM: ShellType(declare=declare_quorum, recover=recover_quorum, crash=QuorumCrash),
    STREAM: ShellType(declare=StreamShell, recover=recover_stream, crash=StreamCrash),
}
