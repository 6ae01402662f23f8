"""A client's session on a non-blocking socket: the only code that reads and writes the socket.

    receive()     one read of the socket, into the session; `next_event` returns the events
    transmit()    one write; bytes that the socket does not take go when it has room again

Both directions are bounded. The transport reads only when called, RECEIVE_BYTES at a time, and the
poller does not watch one that does not listen (`listen`). A single write may have any size, and
further writes are refused from UNSENT_BYTES_MAX unsent bytes on.

Every method may raise `BrokerError`: `ClosedByBrokerError` with the broker's own text, if it sent
any before the connection was lost.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
import time
from collections import deque
from typing import Final

from sluicemq.amqp.events import Heartbeat
from sluicemq.amqp.frames import HEARTBEAT_FRAME
from sluicemq.client.poller import NS, Pollable, Poller
from sluicemq.client.resolved_address import ResolvedAddress
from sluicemq.client.session import (
    HEARTBEAT_S,
    BrokerError,
    ClientSession,
    ClosedByBrokerError,
    Opened,
    SessionEvent,
)
from sluicemq.client.tls import TlsStream
from sluicemq.errors import ProtocolViolation

RECEIVE_BYTES: Final = 65_536
"""Below the allocator's first threshold for mapping fresh pages on each read. Bulk readers soon
raise that threshold, and gain by reading more at a time."""

UNSENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most unsent bytes: more than the acknowledgements of everything in flight, so a broker that
leaves so much unread has stopped reading."""

LAST_WORDS_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of a lost connection that are searched for the broker's reason."""

TLS_WRITE_BYTES: Final = 32_768
"""Bytes that are encrypted at a time: they stay in the cache, and a large write is never in memory
twice."""

SILENT_HEARTBEATS_MAX: Final = 3
"""Heartbeat intervals of silence after which the broker counts as gone."""


class Transport(Pollable):
    """A client's session on a non-blocking socket; for one thread, except `sever`. It connects by
    itself, trying each resolved address in turn, and is a member of the poller until it is
    abandoned."""

    __slots__ = (
        "_encrypted",
        "_heartbeat_ns",
        "_is_listening",
        "_poller",
        "_receive_bytes",
        "_sent_ns",
        "_tls",
        "_unsent",
        "_untried",
        "address",
        "is_connecting",
        "is_full",
        "received_bytes",
        "received_ns",
        "session",
        "socket",
        "unsent_bytes",
    )

    def __init__(
        self,
        resolved: ResolvedAddress,
        poller: Poller,
        name: str = "",
        heartbeat_s: int = HEARTBEAT_S,
        receive_bytes: int = RECEIVE_BYTES,
    ) -> None:
        self.address = resolved.address
        self.session = ClientSession(resolved.address, name, heartbeat_s)
        self.is_full = False
        """True while the socket has no room: writers wait for `on_writable`."""
        self.unsent_bytes = 0
        """Bytes passed to `transmit` that the socket has not taken yet."""
        self.received_bytes = 0
        """The number of bytes read so far."""
        self.received_ns = self._sent_ns = time.monotonic_ns()
        """The time of the last read (monotonic)."""
        self.is_connecting = True
        self._poller = poller
        self._receive_bytes = receive_bytes
        self._is_listening = True
        self._heartbeat_ns = 0
        self._unsent: deque[memoryview] = deque()
        self._encrypted = b""
        """With TLS: the part of `_unsent` that is encrypted and ready for the socket."""
        self._tls = resolved.tls_stream()
        self._untried = list(reversed(resolved.socket_addresses))
        self._connect()

    # For subclasses

    def on_connected(self) -> None:
        """Called once, when the socket is connected and before anything is written."""
        self.flush()

    def on_readable(self) -> None:
        """Called by the poller when the socket has something to read."""
        self.receive()

    def on_writable(self) -> None:
        """Called when the socket takes bytes again, after all waiting ones are written."""

    # Reading

    def receive(self) -> bool:
        """Read the socket once, into the session; returns False when it has nothing now. Raises
        BrokerError when the connection was lost."""
        try:
            data = self.socket.recv(self._receive_bytes)
        except BlockingIOError:
            return False
        except (OSError, ValueError) as error:
            raise self._lost(error) from error
        if not data:
            raise self._lost("it closed the socket")
        self.received_ns = time.monotonic_ns()
        self.received_bytes += len(data)
        if self._tls is not None:
            data = self._decrypt(data)
        if data:
            self.session.receive_data(data)
        return True

    def next_event(self) -> SessionEvent | None:
        """Return the next event of the bytes read; None without one. Heartbeats are no events.
        Raises BrokerError when the broker closes something or violates AMQP."""
        try:
            event = self.session.next_event()
            while isinstance(event, Heartbeat):
                event = self.session.next_event()
        except ProtocolViolation as violation:
            raise BrokerError(f"{self.address} does not keep to AMQP: {violation}") from violation
        if isinstance(event, Opened):
            self._heartbeat_ns = event.heartbeat_s * NS
        return event

    def listen(self, wanted: bool) -> None:
        """Choose whether the poller tells the transport when there is something to read. Otherwise
        it only tells that the connection was lost, and `receive` still reads."""
        if wanted != self._is_listening:
            self._is_listening = wanted
            self._tell_poller()

    # Writing

    def flush(self) -> None:
        """Write the session's bytes, as `transmit` does."""
        data = self.session.data_to_send()
        if data:
            self.transmit(data)

    def transmit(self, data: bytes) -> None:
        """Write bytes; those that do not fit into the socket now go later. Raises BrokerError when
        more than UNSENT_BYTES_MAX are waiting, or the connection was lost."""
        if self.unsent_bytes:
            if self.unsent_bytes > UNSENT_BYTES_MAX:
                raise BrokerError(f"{self.address} has not read {self.unsent_bytes} bytes")
            self._unsent.append(memoryview(data))
            self.unsent_bytes += len(data)
            return
        self._sent_ns = time.monotonic_ns()
        self._unsent.append(memoryview(data))
        self.unsent_bytes = len(data)
        self._write_on()

    def await_room(self) -> None:
        """Call `on_writable` when the kernel reports room in the socket. `send` takes more than
        that: it never refuses bytes that are appended to an unsent segment."""
        if not self.is_full:
            self.is_full = True
            self._tell_poller()

    def keep_alive(self, now_ns: int, listening: bool = True) -> None:
        """Send a heartbeat when one is due at the time `now_ns` (monotonic). Raises BrokerError
        when the broker was silent for more than SILENT_HEARTBEATS_MAX intervals. Call it every
        second or so. `listening` is False while nobody reads: then missed heartbeats do not count.
        """
        if not self._heartbeat_ns:
            return
        if not self.unsent_bytes and now_ns - self._sent_ns > self._heartbeat_ns // 2:
            self.transmit(HEARTBEAT_FRAME)
        if not listening:
            self.received_ns = now_ns
        silent_ns = now_ns - self.received_ns
        if silent_ns > SILENT_HEARTBEATS_MAX * self._heartbeat_ns:
            raise BrokerError(f"{self.address} was silent for {silent_ns // NS} s")

    # Its end

    def abandon(self) -> None:
        """Close the socket at once; the broker requeues unacknowledged messages."""
        self.session.is_open = False
        if self.socket.fileno() >= 0:
            self._poller.remove(self)
            self.socket.close()

    def sever(self) -> None:
        """End the connection from any thread; the transport's own thread sees it as ended by the
        broker."""
        with contextlib.suppress(OSError):  # it has ended already
            self.socket.shutdown(socket.SHUT_RDWR)

    def give_up_address(self, error: OSError) -> None:
        """Try the next address, because this one cannot be connected to. Raises BrokerError without
        another one."""
        self._poller.remove(self)
        self.socket.close()
        self._connect(error)

    # For the poller

    def on_can_read(self) -> None:
        if not self.is_connecting:
            self.on_readable()

    def on_can_write(self) -> None:
        if self.is_connecting:
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self.give_up_address(OSError(code, os.strerror(code)))
                return
            self.is_connecting = False
            self._tell_poller()
            self.on_connected()
            return
        self.is_full = False
        self._write_on()
        if not self.is_full:
            self._tell_poller()
            self.flush()
            self.on_writable()

    # Within

    def _connect(self, error: OSError | None = None) -> None:
        while self._untried:
            family, where = self._untried.pop()
            made = socket.socket(family, socket.SOCK_STREAM)
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            code = made.connect_ex(where)
            if code in (0, errno.EINPROGRESS):
                self.socket = made
                self.fd = made.fileno()
                self._poller.add(self, writable=True)
                return
            made.close()
            error = OSError(code, os.strerror(code))
        raise BrokerError(f"cannot connect to {self.address}: {error}") from error

    def _decrypt(self, data: bytes) -> bytes:
        """Return the decrypted bytes from the socket; TLS's own answers are written."""
        assert self._tls is not None
        try:
            said = self._tls.receive(data)
        except ssl.SSLError as error:
            with contextlib.suppress(OSError):  # the alert that tells the broker why
                self.socket.send(self._tls.to_write())
            raise BrokerError(f"no TLS with {self.address}: {error}") from error
        self._encrypted += (answer := self._tls.to_write())
        self.unsent_bytes += len(answer)
        if answer and not self.is_full:
            self._write_on()
        return said

    def _write_on(self) -> None:
        """Write waiting bytes as far as the socket takes them; the poller tells when it
        takes more.
        """
        while self._unsent or self._encrypted:
            if self._tls is None:
                plain = self._unsent.popleft()
                size, sent = len(plain), self._send(plain)
                if sent < size:
                    self._unsent.appendleft(plain[sent:])
            else:
                coded = self._encrypted or self._encrypt(self._tls)
                size, sent = len(coded), self._send(coded)
                self._encrypted = coded[sent:]
            self.unsent_bytes -= sent
            if sent < size:
                self.await_room()
                return

    def _encrypt(self, tls: TlsStream) -> bytes:
        """Return the next waiting bytes, encrypted; none before the handshake is done, because TLS
        keeps them until then."""
        plain = self._unsent.popleft()
        if len(plain) > TLS_WRITE_BYTES:
            self._unsent.appendleft(plain[TLS_WRITE_BYTES:])
            plain = plain[:TLS_WRITE_BYTES]
        made = tls.send(plain)
        self.unsent_bytes += len(made) - len(plain)
        return made

    def _send(self, data: memoryview | bytes) -> int:
        """Return how many of these bytes the socket took, or raise why the connection was lost."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except (OSError, ValueError) as error:
            raise self._lost(error) from error

    def _tell_poller(self) -> None:
        self._poller.want(self, readable=self._is_listening, writable=self.is_full)

    def _lost(self, why: object) -> BrokerError:
        """Return why the connection ended: the broker's text if it sent one, else the socket's
        error."""
        self._read_last_words()
        while True:
            try:
                if self.next_event() is None:
                    return BrokerError(f"the connection to {self.address} was lost: {why}")
            except ClosedByBrokerError as closed:
                if not closed.channel:
                    return closed
            except BrokerError as nonsense:
                return nonsense

    def _read_last_words(self) -> None:
        """Read what the broker sent before the connection was lost."""
        budget = LAST_WORDS_BYTES_MAX
        with contextlib.suppress(OSError, ValueError):  # the loss is reported already
            while budget > 0 and (data := self.socket.recv(self._receive_bytes)):
                budget -= len(data)
                self.session.receive_data(data if self._tls is None else self._tls.receive(data))
