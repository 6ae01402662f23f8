"""A consumer on a wire, which yields deliveries in runs and acknowledges them in batches."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Final

from sluicemq.amqp.events import Deliveries, MethodFrame
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    BasicReject,
    QueueDeclare,
    QueueDeclareOk,
)
from sluicemq.amqp.types import Table
from sluicemq.client.session import BrokerError
from sluicemq.client.wire import CHANNEL, Wire

__all__ = ["PREFETCH_MAX", "AckLine", "Deliveries", "Subscription"]

PREFETCH_MAX: Final = 65_535
"""The largest prefetch of one consumer: basic.qos has 16 bits for it."""


class Subscription:
    """A consumer with its prefetch; it has the wire to itself.

    A prefetch above PREFETCH_MAX is divided among several consumers on the one channel, so that
    delivery tags stay consecutive. A prefetch of 0 is no limit.
    """

    def __init__(
        self,
        wire: Wire,
        queue: str,
        prefetch: int,
        *,
        arguments: Table | None = None,
        exclusive: bool = False,
        no_ack: bool = False,
    ) -> None:
        self.wire = wire
        self.queue = queue
        self._acks = AckLine()
        consume = BasicConsume(
            queue=queue, exclusive=exclusive, no_ack=no_ack, arguments=arguments or {}
        )
        consumers = -(-prefetch // PREFETCH_MAX) or 1
        calls: list[tuple[Method, type[Method]]] = []
        for number in range(consumers):
            if not no_ack:
                share = (prefetch + number) // consumers
                calls.append((BasicQos(0, share, False), BasicQosOk))
            calls.append((consume, BasicConsumeOk))
        wire.call_all(calls)

    def poll(self, timeout_s: float) -> Iterator[Deliveries]:
        """Yield the runs of deliveries that come within `timeout_s` seconds. Raises BrokerError
        when the broker cancels the consumer or closes the channel or connection."""
        for event in self.wire.poll(timeout_s):
            if isinstance(event, Deliveries):
                yield event
            elif isinstance(event, MethodFrame) and isinstance(event.method, BasicCancel):
                raise BrokerError(
                    f"the broker cancelled the consumer of queue {self.queue!r}: the queue was"
                    " deleted, or its node went away"
                )

    def count_ready(self) -> int:
        """Return how many messages are ready in the queue, asked for on this channel: `poll` gives
        deliveries sent here before the answer next."""
        method = QueueDeclare(queue=self.queue, passive=True)
        return self.wire.call(method, QueueDeclareOk).message_count

    def count_all(self) -> int:
        """Return how many messages are ready in the queue, and how many others were sent here
        before the answer and `poll` has yet to give."""
        ready = self.count_ready()
        kept = self.wire.kept_events()
        return ready + sum(len(event.tags) for event in kept if isinstance(event, Deliveries))

    def acknowledge(self, first: int, last: int, rejected: Sequence[int] = ()) -> None:
        """Acknowledge the deliveries from `first` to `last`, both included; the frames are written
        by the next flush. Those `rejected`, in ascending order, are dead-lettered."""
        for tag in rejected:
            if first < tag:
                self.wire.send_bytes(self._acks.settle(first, tag - 1))
            self.wire.send_bytes(self._acks.reject(tag))
            first = tag + 1
        if first <= last:
            self.wire.send_bytes(self._acks.settle(first, last))


class AckLine:
    """Tracks settled tags, and makes the frames that settle them.

    One `multiple` ack settles all, as long as no tag before it is open; tags settled out of order
    are acknowledged one by one.
    """

    __slots__ = ("_ahead", "_done")

    def __init__(self) -> None:
        self._done = 0
        self._ahead: list[tuple[int, int]] = []

    def settle(self, first: int, last: int) -> bytes:
        """Return the frames that acknowledge the tags from `first` to `last`, both included."""
        is_next = first == self._done + 1
        self._mark(first, last)
        if is_next:
            return BasicAck(last, multiple=True).frame(CHANNEL)
        return b"".join([BasicAck(tag).frame(CHANNEL) for tag in range(first, last + 1)])

    def reject(self, tag: int) -> bytes:
        """Return the frame that rejects this tag without requeueing it."""
        self._mark(tag, tag)
        return BasicReject(tag, requeue=False).frame(CHANNEL)

    def _mark(self, first: int, last: int) -> None:
        insort(self._ahead, (first, last))
        while self._ahead and self._ahead[0][0] == self._done + 1:
            self._done = self._ahead.pop(0)[1]
