"""A small blocking client for single operations: declaring, deleting, counting.

It has one channel, waits for each answer, and raises `ClosedByBrokerError` with the broker's own
text. After the broker has closed the channel (as it does after a passive declare of a missing
queue), the next call opens a new one.
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
    """The queue's name and its counts of ready messages and consumers, as queue.declare-ok has
    them."""

    __slots__ = ("consumers", "messages_ready", "name")

    def __init__(self, answer: QueueDeclareOk) -> None:
        self.name = answer.queue
        self.messages_ready = answer.message_count
        self.consumers = answer.consumer_count


def counts_of(wire: Wire, queue: str) -> QueueCounts:
    """Ask for the counts of a queue, on any wire. Raises ClosedByBrokerError when the queue does
    not exist."""
    return QueueCounts(wire.call(QueueDeclare(queue=queue, passive=True), QueueDeclareOk))


class BlockingClient(Wire):
    """One connection with one channel, made by `connect`; each call waits for the
    broker's answer.
    """

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
        """Return the broker's product name; `unknown` when it gives none."""
        return str(self.server_properties.get("product", "unknown"))

    @property
    def version(self) -> str:
        """Return the broker's version; `unknown` when it gives none."""
        return str(self.server_properties.get("version", "unknown"))

    def declare_queue(
        self, name: str, *, durable: bool = True, arguments: Table | None = None
    ) -> QueueCounts:
        """Declare a queue and return its counts. Raises ClosedByBrokerError when a queue of that
        name exists with other properties."""
        method = QueueDeclare(queue=name, durable=durable, arguments=arguments or {})
        return QueueCounts(self.call(method, QueueDeclareOk))

    def declare_exchange(self, name: str, kind: str, *, durable: bool = True) -> None:
        """Declare an exchange of the type `kind`, such as "topic". Raises ClosedByBrokerError when
        an exchange of that name exists with other properties."""
        self.call(ExchangeDeclare(name, kind, durable=durable), ExchangeDeclareOk)

    def bind_queue(self, queue: str, exchange: str, routing_key: str) -> None:
        """Bind a queue to an exchange with this routing key."""
        self.call(QueueBind(queue=queue, exchange=exchange, routing_key=routing_key), QueueBindOk)

    def count_queue(self, name: str) -> QueueCounts | None:
        """Return a queue's counts by a passive declare; None when the queue does not exist."""
        try:
            return QueueCounts(self.call(QueueDeclare(queue=name, passive=True), QueueDeclareOk))
        except ClosedByBrokerError as closed:
            if closed.code != NOT_FOUND:
                raise
            return None

    def count_queues(self, names: Sequence[str]) -> int:
        """Return the total of ready messages in all these queues, asked for in one go. Raises
        ClosedByBrokerError when one does not exist."""
        for name in names:
            self.send(QueueDeclare(queue=name, passive=True))
        return sum(self._await_method(QueueDeclareOk).message_count for _ in names)

    def delete_queue(self, name: str) -> int:
        """Delete a queue, whether it exists or not, and return how many messages it had."""
        return self.call(QueueDelete(queue=name), QueueDeleteOk).message_count

    def purge_queue(self, name: str) -> int:
        """Drop the ready messages of a queue, and return how many there were."""
        return self.call(QueuePurge(queue=name), QueuePurgeOk).message_count


def connect(
    url: str,
    *,
    timeout_s: float = 10.0,
    name: str = "sluicemq admin",
    tls: TlsFiles | None = None,
) -> BlockingClient:
    """Connect and log in. Raises BrokerError with the reason when that fails, and Refused when the
    URL or a TLS file is unusable. `timeout_s` is that of a Wire."""
    return BlockingClient(Address.parse(url), timeout_s, name, tls)
