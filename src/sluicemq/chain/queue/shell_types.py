"""The types of queues of this broker: how a queue of each is created, and recovers from a fault.

One row a type. `model/queue_types.py` has what declarations and policies need of each, by the same
names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sluicemq.chain.queue.classic import ClassicShell, empty_index
from sluicemq.chain.queue.crash_recovery import ClassicCrash, Crash
from sluicemq.model.queue_types import CLASSIC, QUORUM, STREAM

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.storage.recovery import Recovery


class ShellType(NamedTuple):
    """How a queue of one type is created, and what stands in for it after a fault."""

    declare: Callable[[VhostPort, DeclaredQueue], Queue]
    """Creates an empty queue that was declared."""
    recover: Callable[[VhostPort, QueueDefinition, int, Recovery], Queue]
    """Creates a queue of this id from what was found of it at the start."""
    crash: Callable[[Any, Any, Exception], Crash[Any]]
    """Takes the virtual host, the queue, and its first fault."""


def declare_classic(vhost: VhostPort, declared: DeclaredQueue) -> Queue:
    index = empty_index(vhost.services, declared.id, declared.definition.durable)
    return ClassicShell(vhost, declared.definition, declared.id, index)


def recover_classic(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> ClassicShell:
    found = recovery.queues[queue_id]
    queue = ClassicShell(vhost, definition, queue_id, found.index)
    queue.machine.recover(found.marks(), found.expiring)
    if queue.machine.needs_tick:
        queue.schedule()  # some messages may have to go
    return queue


def declare_stream(vhost: VhostPort, declared: DeclaredQueue) -> Queue:
    from sluicemq.chain.queue.stream import StreamShell  # noqa: PLC0415 (start-up time)

    return StreamShell(vhost, declared.definition, declared.id)


def recover_stream(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> Queue:
    from sluicemq.chain.queue.stream import StreamShell  # noqa: PLC0415 (as above)

    stream = StreamShell(vhost, definition, queue_id)
    stream.recover(recovery.streams[queue_id])
    return stream


def crash_stream(vhost: Any, queue: Any, error: Exception) -> Crash[Any]:
    from sluicemq.chain.queue.stream_crash_recovery import StreamCrash  # noqa: PLC0415 (as above)

    return StreamCrash(vhost, queue, error)


def declare_quorum(vhost: VhostPort, declared: DeclaredQueue) -> Queue:
    from sluicemq.chain.queue.quorum.births import born  # noqa: PLC0415 (as above)

    return born(vhost, declared)


def recover_quorum(
    vhost: VhostPort, definition: QueueDefinition, queue_id: int, recovery: Recovery
) -> Queue:
    from sluicemq.chain.queue.quorum.births import recovered  # noqa: PLC0415 (as above)

    return recovered(vhost, definition, queue_id, recovery)


def crash_quorum(vhost: Any, queue: Any, error: Exception) -> Crash[Any]:
    from sluicemq.chain.queue.quorum.crash import QuorumCrash  # noqa: PLC0415 (as above)

    return QuorumCrash(vhost, queue, error)


SHELLS: Final[dict[str, ShellType]] = {
    CLASSIC: ShellType(declare=declare_classic, recover=recover_classic, crash=ClassicCrash),
    QUORUM: ShellType(declare=declare_quorum, recover=recover_quorum, crash=crash_quorum),
    STREAM: ShellType(declare=declare_stream, recover=recover_stream, crash=crash_stream),
}
