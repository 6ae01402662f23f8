"""What RabbitMQ refuses on streams, in its words. Queues that are no logs pass every check."""

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
    """Return the 540 by which RabbitMQ refuses `what` on a stream."""
    return ConnectionViolation(540, f"{what} not supported by stream queues {queue.title}")


def not_for(queue: Queue, argument: str) -> ChannelViolation:
    """Return the 406 for an argument that consumers of queues of this type do not have."""
    kind = f"rabbit_{queue.definition.type}_queue"
    text = f"invalid arg '{argument}' for {queue.title} of queue type {kind}"
    return ChannelViolation(406, text)


def check_has(queue: Queue, what: str) -> None:
    """Raise ConnectionViolation (540) if the queue is a stream, from which nothing is ever taken
    out, as `what` (basic.get or queue.purge) would."""
    if is_stream(queue):
        raise not_supported(what, queue)


def check_consume(queue: Queue, method: BasicConsume, prefetch_count: int, limit: int) -> None:
    """Check the arguments of a consumer. One of a stream needs a prefetch of its own, must
    acknowledge and has no priority. `prefetch_count` is what the consumer would have, `limit` what
    its channel has; 0 is none. Raises ChannelViolation (406) or ConnectionViolation (540)."""
    if not is_stream(queue):
        if ARGUMENT in method.arguments:
            raise not_for(queue, ARGUMENT)
        return
    if not prefetch_count:
        text = f"consumer prefetch count is not set for '{queue.title}'"
        raise ChannelViolation(406, text)
    if method.no_ack:
        raise not_supported("automatic acknowledgement", queue)
    if limit:
        raise ConnectionViolation(540, f"{queue.title} does not support global qos")
    if "x-priority" in method.arguments:
        raise not_for(queue, "x-priority")
    if start_of(method.arguments) is None:
        text = f"invalid arg '{ARGUMENT}' for {queue.title}: {complaint(method.arguments)}"
        raise ChannelViolation(406, text)


def check_settle(queues: Iterable[Actor]) -> None:
    """Raise ConnectionViolation (540) if one of the queues is a stream: what was read from it can
    be neither given back nor rejected."""
    for queue in queues:
        if isinstance(queue, Queue) and is_stream(queue):
            raise not_supported("basic.nack and basic.reject", queue)
