"""One connection with one channel over a socket, for a single thread; the base of what blocks.

Nothing is read unless somebody asks (`poll`, `call`) or a write does not get on: a broker that
cannot get rid of what it has to say may not listen either. So reading goes on while writing waits.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from sluicemq.amqp.events import Heartbeat, MethodFrame
from sluicemq.amqp.frames import HEARTBEAT_FRAME
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import ChannelOpenOk
from sluicemq.client.address import NO_FILES, Address
from sluicemq.client.session import (
    HEARTBEAT_S,
    BrokerError,
    ClientSession,
    ClosedByBrokerError,
    CloseFinished,
    Opened,
    SessionEvent,
)
from sluicemq.client.tls import TlsFiles
from sluicemq.errors import ProtocolViolation

CHANNEL: Final = 1
RECEIVE_BYTES: Final = 65_536
"""Below the allocator's first threshold for mapping fresh pages on each read. Who reads in bulk has
it go up soon, and gains by reading more at a time."""

SILENT_HEARTBEATS_MAX: Final = 3
"""A broker that sent nothing for so many heartbeat intervals is gone."""

NOTHING_YET: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

Answer = TypeVar("Answer", bound=Method)


class Wire:
    """See above. `timeout_s` is for each answer of the broker and each write.

    Every method may raise `BrokerError` (`ClosedByBrokerError` with the broker's own text); after
    one that closed the channel only, the next call opens a new one.
    """

    def __init__(
        self,
        address: Address,
        timeout_s: float,
        name: str,
        tls: TlsFiles | None = None,
        heartbeat_s: int = HEARTBEAT_S,
        receive_bytes: int = RECEIVE_BYTES,
    ) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self.receive_bytes = receive_bytes
        self._session = ClientSession(address, name, heartbeat_s)
        self._events: deque[SessionEvent] = deque()
        self._channel_open = False
        self._heartbeat_s = 0
        self._sent_at = self._received_at = time.monotonic()
        self._socket = self._connect(tls or TlsFiles())
        try:
            self._socket.setblocking(False)
            opened = self._await(Opened)
        except BaseException:
            self._socket.close()
            raise
        self.server_properties = opened.server_properties
        self.frame_max = opened.frame_max
        self._heartbeat_s = opened.heartbeat_s

    def fileno(self) -> int:
        """For `select`: readable when the broker has said something."""
        return self._socket.fileno()

    def send(self, method: Method) -> None:
        """Queue a method on the channel; `flush` writes it."""
        self._ensure_channel()
        self._session.send(CHANNEL, method)

    def send_bytes(self, frames: bytes) -> None:
        """Queue whole frames of the channel."""
        self._ensure_channel()
        self._session.send_bytes(frames)

    def call(self, method: Method, answer: type[Answer]) -> Answer:
        """Send a method and wait for its answer; what else comes is kept for `poll`."""
        self.send(method)
        return self._await_method(answer)

    def call_all(self, calls: Sequence[tuple[Method, type[Method]]]) -> None:
        """Send methods together, each with the answer it wants, and wait for all; as `call`. The
        answers may come in any order: RabbitMQ's queues give theirs when they get to it."""
        for method, _ in calls:
            self.send(method)
        wanted = [answer for _, answer in calls]
        deadline = time.monotonic() + self.timeout_s
        while wanted:
            event = self._read_event(deadline)
            if isinstance(event, MethodFrame) and type(event.method) in wanted:
                wanted.remove(type(event.method))
            else:
                self._events.append(event)

    def poll(self, timeout_s: float) -> Iterator[SessionEvent]:
        """What has come, after waiting up to so long for something; reads the socket once."""
        self.flush()
        while self._events:
            yield self._events.popleft()
            timeout_s = 0.0
        data = self._receive(timeout_s)
        if data:
            self._session.receive_data(data)
        while (event := self._next_event()) is not None:
            yield event
        self.keep_alive()

    def kept_events(self) -> list[SessionEvent]:
        """What came before the answers to calls, and `poll` gives next."""
        return list(self._events)

    def keep_alive(self, listening: bool = True) -> None:
        """Send a heartbeat when one is due; `BrokerError` when the broker owes too many.
        `listening` is False while nobody reads: what the broker owes is not known then."""
        if not self._heartbeat_s:
            return
        now = time.monotonic()
        if now - self._sent_at > self._heartbeat_s / 2:
            self._write(HEARTBEAT_FRAME)
        if not listening:
            self._received_at = now
        if now - self._received_at > SILENT_HEARTBEATS_MAX * self._heartbeat_s:
            raise BrokerError(f"{self.address} was silent for {now - self._received_at:.0f} s")

    def flush(self) -> None:
        """Write everything queued."""
        data = self._session.data_to_send()
        if data:
            self._write(data)

    def close(self) -> None:
        """Say goodbye and close the socket. A broker that is gone already is no error."""
        if self._session.is_open:
            with contextlib.suppress(BrokerError, ProtocolViolation):
                self._session.close()
                self._await(CloseFinished)
        self._socket.close()

    def abandon(self) -> None:
        """Close the socket without ceremony: the broker takes back what is not acknowledged."""
        self._session.is_open = False
        self._socket.close()

    def _connect(self, tls: TlsFiles) -> socket.socket:
        address = self.address
        try:
            plain = socket.create_connection((address.host, address.port), self.timeout_s)
        except OSError as error:
            raise BrokerError(f"cannot connect to {address}: {error}") from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not address.secure:
            return plain
        try:
            name = address.server_name or address.host
            files = address.tls if tls == NO_FILES else tls
            return files.context().wrap_socket(plain, server_hostname=name)
        except OSError as error:
            plain.close()
            raise BrokerError(f"no TLS with {address}: {error}") from error
        except BaseException:
            plain.close()
            raise

    def _ensure_channel(self) -> None:
        if not self._channel_open:
            self._session.open_channel(CHANNEL)
            self._await_method(ChannelOpenOk)
            self._channel_open = True

    def _await(self, kind: type[Opened] | type[CloseFinished]) -> Opened:
        """The next event of that kind; others are dropped."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            event = self._read_event(deadline)
            if isinstance(event, kind):
                return event  # type: ignore[return-value]

    def _await_method(self, answer: type[Answer]) -> Answer:
        deadline = time.monotonic() + self.timeout_s
        while True:
            event = self._read_event(deadline)
            if isinstance(event, MethodFrame) and isinstance(event.method, answer):
                return event.method
            self._events.append(event)

    def _read_event(self, deadline: float) -> SessionEvent:
        while (event := self._next_event()) is None:
            self.flush()
            left = deadline - time.monotonic()
            if left <= 0:
                raise BrokerError(f"{self.address} did not answer in time")
            self._session.receive_data(self._receive(left))
        return event

    def _next_event(self) -> SessionEvent | None:
        try:
            event = self._session.next_event()
            while isinstance(event, Heartbeat):
                event = self._session.next_event()
        except ClosedByBrokerError as closed:
            self._channel_open = False
            with contextlib.suppress(BrokerError):
                self.flush()  # close-ok
            if not closed.channel:
                self._socket.close()
            raise
        except ProtocolViolation as violation:
            raise BrokerError(f"{self.address} does not keep to AMQP: {violation}") from violation
        return event

    def _receive(self, timeout_s: float) -> bytes:
        """What the socket has; nothing: it had nothing in that time."""
        try:
            data = self._socket.recv(self.receive_bytes)
        except NOTHING_YET:
            if timeout_s <= 0 or not select.select((self._socket,), (), (), timeout_s)[0]:
                return b""
            return self._receive(0.0)
        except (OSError, ValueError) as error:
            raise BrokerError(f"the connection to {self.address} was lost: {error}") from error
        if not data:
            raise BrokerError(f"the connection to {self.address} was lost: it closed the socket")
        self._received_at = time.monotonic()
        return data

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        deadline = time.monotonic() + self.timeout_s
        while view:
            try:
                sent = self._socket.send(view)
            except NOTHING_YET:
                self._wait_writable(deadline)
                continue
            except (OSError, ValueError) as error:
                raise BrokerError(f"the connection to {self.address} was lost: {error}") from error
            view = view[sent:]
            deadline = time.monotonic() + self.timeout_s
        self._sent_at = time.monotonic()

    def _wait_writable(self, deadline: float) -> None:
        """Until the socket takes bytes again. A broker that blocks publishers (an alarm) does not
        read; it sends heartbeats all the same, so only silence counts against the deadline."""
        readable, _, _ = select.select((self._socket,), (self._socket,), (), 1.0)
        if readable:
            self._session.receive_data(self._receive(0.0))
        elif time.monotonic() > max(deadline, self._received_at + self.timeout_s):
            raise BrokerError(f"{self.address} takes nothing more since {self.timeout_s:g} s")
