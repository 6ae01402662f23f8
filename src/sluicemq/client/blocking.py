"""A small blocking client for what is done once: declaring, deleting, counting.

It has one channel, waits for each answer, and raises `ClosedByBrokerError` with the broker's own
text. After the broker closed the channel (a passive declare of a queue that is not there does so),
the next call opens a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from sluicemq.amqp.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from sluicemq.amqp.types import Table
from sluicemq.client.address import Address
from sluicemq.client.session import ClosedByBrokerError
from sluicemq.client.tls import TlsFiles
from sluicemq.client.wire import CHANNEL, Wire

__all__ = ["CHANNEL", "BlockingClient", "QueueCounts", "connect", "counts_of"]

NOT_FOUND: Final = 404


class QueueCounts:
    """What queue.declare-ok says."""

    __slots__ = ("consumers", "messages_ready", "name")

    def __init__(self, answer: QueueDeclareOk) -> None:
        self.name = answer.queue
        self.messages_ready = answer.message_count
        self.consumers = answer.consumer_count


def counts_of(wire: Wire, queue: str) -> QueueCounts:
    """Of a queue, on any wire; `ClosedByBrokerError` when it is not there."""
    return QueueCounts(wire.call(QueueDeclare(queue=queue, passive=True), QueueDeclareOk))


class BlockingClient(Wire):
    """One connection, one channel. Made by `connect`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def product(self) -> str:
        """What the broker calls itself."""
        return str(self.server_properties.get("product", "unknown"))

    @property
    def version(self) -> str:
        """The broker's version."""
        return str(self.server_properties.get("version", "unknown"))

    def declare_queue(
        self, name: str, *, durable: bool = True, arguments: Table | None = None
    ) -> QueueCounts:
        """Declare a queue."""
        method = QueueDeclare(queue=name, durable=durable, arguments=arguments or {})
        return QueueCounts(self.call(method, QueueDeclareOk))

    def declare_exchange(self, name: str, kind: str, *, durable: bool = True) -> None:
        """Declare an exchange of a type such as "topic"."""
        self.call(ExchangeDeclare(name, kind, durable=durable), ExchangeDeclareOk)

    def bind_queue(self, queue: str, exchange: str, routing_key: str) -> None:
        """Bind a queue to an exchange."""
        self.call(QueueBind(queue=queue, exchange=exchange, routing_key=routing_key), QueueBindOk)

    def count_queue(self, name: str) -> QueueCounts | None:
        """Look at a queue by passive declare; None: there is none."""
        try:
            return QueueCounts(self.call(QueueDeclare(queue=name, passive=True), QueueDeclareOk))
        except ClosedByBrokerError as closed:
            if closed.code != NOT_FOUND:
                raise
            return None

    def count_queues(self, names: Sequence[str]) -> int:
        """Messages ready in all these queues, asked for in one go; they must be there."""
        for name in names:
            self.send(QueueDeclare(queue=name, passive=True))
        return sum(self._await_method(QueueDeclareOk).message_count for _ in names)

    def delete_queue(self, name: str) -> int:
        """Delete a queue, whether it is there or not; the messages that were in it."""
        return self.call(QueueDelete(queue=name), QueueDeleteOk).message_count

    def purge_queue(self, name: str) -> int:
        """Drop what is in a queue; how many messages that were."""
        return self.call(QueuePurge(queue=name), QueuePurgeOk).message_count


def connect(
    url: str,
    *,
    timeout_s: float = 10.0,
    name: str = "sluicemq admin",
    tls: TlsFiles | None = None,
) -> BlockingClient:
    """Connect and log in; raises `BrokerError` with the reason when that fails."""
    return BlockingClient(Address.parse(url), timeout_s, name, tls)
