"""What RabbitMQ refuses on queues of certain types, in its words. Classic queues pass
every check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.queue import Queue
from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.model.queue_types import TYPES
from sluicemq.queues.stream.start import ARGUMENT, complaint, start_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.amqp.methods import BasicConsume
    from sluicemq.kernel.actor import Actor


def is_stream(queue: Queue) -> bool:
    return TYPES[queue.definition.type].is_log


def not_supported(what: str, queue: Queue) -> ConnectionViolation:
    """Return the error 540 with which RabbitMQ refuses `what` on a stream."""
    return ConnectionViolation(540, f"{what} not supported by stream queues {queue.title}")


def not_for(queue: Queue, argument: str) -> ChannelViolation:
    """Return the error 406 for an argument that consumers of queues of this type do not have."""
    kind = f"rabbit_{queue.definition.type}_queue"
    text = f"invalid arg '{argument}' for {queue.title} of queue type {kind}"
    return ChannelViolation(406, text)


def check_has(queue: Queue, what: str) -> None:
    """Raise ConnectionViolation (540) if the queue is a stream, from which `what` (basic.get or
    queue.purge) cannot remove anything."""
    if is_stream(queue):
        raise not_supported(what, queue)


def check_get(queue: Queue) -> None:
    """Raise a violation if basic.get is not possible: ConnectionViolation (540) for a stream,
    ChannelViolation (405) for a quorum queue with a single active consumer."""
    check_has(queue, "basic.get")
    definition = queue.definition
    alone = definition.arguments.get("x-single-active-consumer") is True
    if alone and not TYPES[definition.type].has_get_beside_active:
        kind = f"{definition.type} queues with single active consumer"
        raise ChannelViolation(
            405,
            f"cannot obtain access to locked {queue.title}. "
            f"basic.get operations are not supported by {kind}",
        )


def check_consume(queue: Queue, method: BasicConsume, prefetch_count: int, limit: int) -> None:
    """Check the arguments of a consumer. One of a stream needs a prefetch of its own, must
    acknowledge and has no priority; one of a quorum queue cannot share a prefetch with others of
    its channel. `prefetch_count` is what the consumer would have, `limit` what its channel has; 0
    is none. Raises ChannelViolation (406) or ConnectionViolation (540)."""
    if not is_stream(queue):
        if ARGUMENT in method.arguments:
            raise not_for(queue, ARGUMENT)
        check_global(queue, limit)
        return
    if not prefetch_count:
        text = f"consumer prefetch count is not set for '{queue.title}'"
        raise ChannelViolation(406, text)
    if method.no_ack:
        raise not_supported("automatic acknowledgement", queue)
    check_global(queue, limit)
    if "x-priority" in method.arguments:
        raise not_for(queue, "x-priority")
    if start_of(method.arguments) is None:
        text = f"invalid arg '{ARGUMENT}' for {queue.title}: {complaint(method.arguments)}"
        raise ChannelViolation(406, text)


def check_global(queue: Queue, limit: int) -> None:
    """Raise ConnectionViolation (540) if all consumers of a channel may together hold `limit`
    messages (0: no limit), and the queue cannot keep to that."""
    if limit and not TYPES[queue.definition.type].has_global_qos:
        raise ConnectionViolation(540, f"{queue.title} does not support global qos")


def check_settle(queues: Iterable[Actor]) -> None:
    """Raise ConnectionViolation (540) if one of the queues is a stream, whose deliveries can be
    neither returned nor rejected."""
    for queue in queues:
        if isinstance(queue, Queue) and is_stream(queue):
            raise not_supported("basic.nack and basic.reject", queue)
