"""A small blocking client for what is done once: declaring, deleting, counting.

It has one channel, waits for each answer, and raises `ClosedByBrokerError` with the broker's own
text. After the broker closed the channel (a passive declare of a queue that is not there does so),
the next call opens a new one.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from sluicemq.amqp.events import MethodFrame
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import (
    ChannelOpenOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from sluicemq.amqp.types import Table
from sluicemq.client.address import Address
from sluicemq.client.session import (
    BrokerError,
    ClientSession,
    ClosedByBrokerError,
    CloseFinished,
    Opened,
)

CHANNEL: Final = 1
RECEIVE_BYTES: Final = 65_536

NOT_FOUND: Final = 404

Answer = TypeVar("Answer", bound=Method)


class QueueCounts:
    """What queue.declare-ok says."""

    __slots__ = ("consumers", "messages_ready", "name")

    def __init__(self, answer: QueueDeclareOk) -> None:
        self.name = answer.queue
        self.messages_ready = answer.message_count
        self.consumers = answer.consumer_count


class BlockingClient:
    """One connection, one channel. Made by `connect`."""

    def __init__(self, address: Address, timeout_s: float, name: str) -> None:
        self.address = address
        self._session = ClientSession(address, name)
        self._channel_open = False
        try:
            self._socket = socket.create_connection((address.host, address.port), timeout_s)
        except OSError as error:
            raise BrokerError(f"cannot connect to {address}: {error}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.server_properties = self._open()
        except BaseException:
            self._socket.close()
            raise

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
        return QueueCounts(self._call(method, QueueDeclareOk))

    def count_queue(self, name: str) -> QueueCounts | None:
        """Look at a queue by passive declare; None: there is none."""
        try:
            return QueueCounts(self._call(QueueDeclare(queue=name, passive=True), QueueDeclareOk))
        except ClosedByBrokerError as closed:
            if closed.code != NOT_FOUND:
                raise
            return None

    def count_queues(self, names: Sequence[str]) -> int:
        """Messages ready in all these queues, asked for in one go; they must be there."""
        self._ensure_channel()
        for name in names:
            self._session.send(CHANNEL, QueueDeclare(queue=name, passive=True))
        return sum(self._await(QueueDeclareOk).message_count for _ in names)

    def delete_queue(self, name: str) -> int:
        """Delete a queue, whether it is there or not; the messages that were in it."""
        return self._call(QueueDelete(queue=name), QueueDeleteOk).message_count

    def purge_queue(self, name: str) -> int:
        """Drop what is in a queue; how many messages that were."""
        return self._call(QueuePurge(queue=name), QueuePurgeOk).message_count

    def close(self) -> None:
        """Say goodbye and close the socket. A broker that is gone already is no error."""
        if self._session.is_open:
            with contextlib.suppress(BrokerError, OSError):
                self._session.close()
                while not isinstance(self._next_event(), CloseFinished):
                    pass
        self._socket.close()

    def _open(self) -> Table:
        while not isinstance(event := self._next_event(), Opened):
            pass
        return event.server_properties

    def _ensure_channel(self) -> None:
        if not self._channel_open:
            self._session.open_channel(CHANNEL)
            self._await(ChannelOpenOk)
            self._channel_open = True

    def _call(self, method: Method, answer: type[Answer]) -> Answer:
        self._ensure_channel()
        self._session.send(CHANNEL, method)
        return self._await(answer)

    def _await(self, answer: type[Answer]) -> Answer:
        while True:
            event = self._next_event()
            if isinstance(event, MethodFrame) and isinstance(event.method, answer):
                return event.method

    def _next_event(self) -> object:
        try:
            while (event := self._session.next_event()) is None:
                self._flush()
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    raise BrokerError(f"{self.address} closed the socket")
                self._session.receive_data(data)
        except ClosedByBrokerError as closed:
            self._channel_open = False
            with contextlib.suppress(OSError):
                self._flush()  # close-ok
            if not closed.channel:
                self._socket.close()
            raise
        except TimeoutError as error:
            raise BrokerError(f"{self.address} did not answer in time") from error
        except OSError as error:
            raise BrokerError(f"the connection to {self.address} was lost: {error}") from error
        return event

    def _flush(self) -> None:
        data = self._session.data_to_send()
        if data:
            self._socket.sendall(data)


def connect(url: str, *, timeout_s: float = 10.0, name: str = "sluicemq admin") -> BlockingClient:
    """Connect and log in; raises `BrokerError` with the reason when that fails."""
    return BlockingClient(Address.parse(url), timeout_s, name)
