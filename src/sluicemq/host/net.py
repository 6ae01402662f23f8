"""Sockets over asyncio: one protocol object a connection, bytes in, bytes out.

Connection      reads and writes one socket
  Incoming      a client or node has connected to a listener; an acceptor takes it
    Tls         the same over TLS
  Outgoing      an actor of this node has opened it
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import TYPE_CHECKING, ClassVar, cast

from sluicemq.errors import Refused
from sluicemq.host.tls import TlsSession, reason_of
from sluicemq.kernel.endpoints import Peer
from sluicemq.kernel.world import Closed, Connected, Log, Net, Received, Writable

if TYPE_CHECKING:
    from sluicemq.config import NetConfig
    from sluicemq.host.tls import TlsSettings
    from sluicemq.kernel.world import Acceptor, SocketOwner

HIGH_WATER_BYTES = 1 << 20
LOW_WATER_BYTES = 1 << 18
LINGER_DEFAULT_MS = 5000
UNPARSED_BYTES = 32 << 20
"""The bytes, roughly, that may be read from clients and not parsed yet, shared by all their
sockets; see chain/pacer.py for why readers of publishers can be far behind."""
UNPARSED_BYTES_MIN = 1 << 14
UNPARSED_BYTES_MAX = 1 << 19
"""The least and the most bytes that one socket's part of these may be."""
READ_BYTES_MAX = 1 << 18
"""The most bytes that one read takes."""
PULL_BYTES_MAX = 1 << 20
"""The most bytes that the owner of one of a few connections reads at once: what is large costs the
system a third less than by reads of a quarter of that."""


class Connection(asyncio.BufferedProtocol):
    """Turns asyncio's callbacks for one socket into messages for its owner and writer."""

    is_coded: ClassVar[bool] = False
    """Is what is read not what the owner gets? See `decoded`."""

    __slots__ = (
        "address",
        "clamped",
        "descriptor",
        "full",
        "goodbye",
        "held",
        "is_open",
        "net",
        "number",
        "owner",
        "rests",
        "transport",
        "unparsed",
    )

    def __init__(self, net: HostNet) -> None:
        self.net = net
        self.number = 0
        """The connection's number; 0: it has none yet, or was turned away."""
        self.full = False
        self.held = False
        """True while the owner wants no more bytes."""
        self.unparsed = 0
        """Bytes read since the owner last had parsed everything."""
        self.descriptor = -1
        """The socket's descriptor, valid as long as the transport is not closing."""
        self.clamped = 0
        """The size of the system's receive buffer that was set last; 0: the system's choice."""
        self.rests = False
        """True while the socket is not read because enough bytes wait: until the owner has parsed
        them, or pulls."""
        self.goodbye: asyncio.TimerHandle | None = None
        """The timer that ends the socket when its peer does not."""
        self.owner: SocketOwner | None = None
        self.is_open = False
        """True while the socket is open, unless the connection was turned away."""
        self.address = ""
        """The peer's address, without its port."""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # no base class of uvloop's
        there = transport.get_extra_info("peername")  # None: the socket is closed already
        self.address = str(there[0]) if there else ""
        try:
            self.net.set_options(transport.get_extra_info("socket"))
        except OSError:
            there = None
        if not there or not self.is_wanted():
            self.transport.abort()
            return
        self.is_open = True
        self.descriptor = transport.get_extra_info("socket").fileno()
        self.transport.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        self.net.add(self)
        self.begin()

    def is_wanted(self) -> bool:
        """Tell whether a socket that has just connected may stay."""
        raise NotImplementedError

    def begin(self) -> None:
        """Let the node accept the connection, over which AMQP may begin."""
        raise NotImplementedError

    def unclaimed(self) -> None:
        """Handle that the socket was closed before it had an owner."""
        raise NotImplementedError

    def peer(self) -> Peer:
        """Return the addresses and ports of both ends."""
        there = self.transport.get_extra_info("peername")
        here = self.transport.get_extra_info("sockname")
        return Peer(self.address, int(there[1]), str(here[0]), int(here[1]))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the one buffer of all sockets: its content is copied before anything else is
        read."""
        return self.net.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take the `nbytes` bytes that were read into the buffer."""
        net = self.net
        self.unparsed += nbytes
        if self.unparsed >= net.unparsed_max and not self.rests:
            self.rest_when_full()
        data = bytes(net.buffer[:nbytes])
        if self.is_coded:
            data = self.decoded(data)
        if data and self.owner is not None:
            self.owner.post(Received(data))

    def rest_when_full(self) -> None:
        """Let the socket rest if as much as may wait of it waits to be parsed."""
        if self.unparsed >= self.unparsed_max:
            self.rest()

    def rest(self) -> None:
        """Read nothing more before the owner has parsed what was read, or pulls."""
        self.rests = True
        self.clamp()
        if not self.held and not self.transport.is_closing():
            self.transport.pause_reading()

    def decoded(self, data: bytes) -> bytes:
        """Return the owner's part of `data`; with TLS nothing before the end of its handshake."""
        return data

    @property
    def unparsed_max(self) -> int:
        """The number of bytes, read and not parsed, from which on the socket rests."""
        if self.owner is None or self.owner.shares_room:
            return self.net.unparsed_max
        return UNPARSED_BYTES_MAX

    def clamp(self) -> None:
        """Shrink the socket's receive buffer, because its owner is behind. On a node with many
        connections the system must not take much more from the peer than one read, for bytes wait
        the longer the more there are in the buffer. But a segment has to fit, and those on loopback
        are large: else the peer's TCP waits, and sends one each 200 ms."""
        size = self.unparsed_max
        if size < UNPARSED_BYTES_MAX and size != self.clamped:
            self.clamped = size
            plain = self.transport.get_extra_info("socket")
            segment = plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
            linux_doubles_it = max(size // 2, segment)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, linux_doubles_it)

    @property
    def may_pull(self) -> bool:
        """Tell whether the owner, and not the event loop, is to read the socket now."""
        return self.rests and not self.held and not self.transport.is_closing()

    def pull(self, size_max: int) -> bytes:
        """Read available bytes in place of the event loop, which does not read while the socket
        rests. If there are none the event loop reads again, and so sees the end or an error, too.
        """
        if not self.may_pull:
            return b""
        try:
            data = os.read(self.descriptor, min(size_max, self.net.pull_max))
        except OSError:
            data = b""
        if not data:
            self.rest_no_more()
            return b""
        return self.decoded(data)

    def pull_into(self, room: memoryview) -> int:
        """Read available bytes into `room`, in place of the event loop, as `pull` does."""
        assert not self.is_coded, "what is read is not what the owner gets"
        if not self.may_pull:
            return 0
        try:
            count = os.readv(self.descriptor, [room[: self.net.pull_max]])
        except OSError:
            count = 0
        if not count:
            self.rest_no_more()
        return count

    def rest_no_more(self) -> None:
        """Let the event loop read the socket again."""
        self.rests = False
        if not self.held and not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        if self.owner is not None:
            self.owner.writer.post(Writable())

    def connection_lost(self, exc: Exception | None) -> None:
        if self.goodbye is not None:
            self.goodbye.cancel()
            self.goodbye = None
        self.gone(str(exc) if exc else "closed")

    def gone(self, reason: str) -> None:
        """Tell the reader, or the node if there is no reader yet, that the socket is closed; only
        the first call counts."""
        if not self.is_open:
            return
        self.is_open = False
        self.net.remove(self)
        if self.owner is not None:
            self.owner.post(Closed(reason))
        else:
            self.unclaimed()

    def faulted(self) -> None:
        """End the connection, because one of its callbacks has had a fault."""
        self.transport.abort()
        self.gone("a fault of the broker's own")

    def send(self, data: bytes) -> None:
        """Write bytes to the socket, through TLS if it has TLS."""
        self.transport.write(data)

    def send_pieces(self, pieces: list[bytes]) -> None:
        """Write them as `send` does; without TLS in one system call."""
        self.transport.writelines(pieces)

    def finish(self, linger_ms: int) -> None:
        """Close once everything is written. With `linger_ms` above 0 the peer has so many
        milliseconds to close first."""
        transport = self.transport
        if linger_ms and transport.can_write_eof() and not transport.is_closing():
            self.rests = False
            self.net.resume_reading(self.number)  # until the peer closes; the owner drops it
            transport.write_eof()
        else:
            transport.close()
        if self.goodbye is None:
            self.end_after(linger_ms or LINGER_DEFAULT_MS)

    def end_after(self, delay_ms: int) -> None:
        """Abort the connection after `delay_ms` milliseconds if the peer has not closed it by
        then."""
        if self.goodbye is not None:
            self.goodbye.cancel()
        self.goodbye = self.net.loop.call_later(delay_ms / 1000, self.transport.abort)


class Incoming(Connection):
    """A connection of a client or node to a listener."""

    __slots__ = ("acceptor",)

    def __init__(self, net: HostNet, acceptor: Acceptor) -> None:
        super().__init__(net)
        self.acceptor = acceptor

    def is_wanted(self) -> bool:
        return self.acceptor.admits(self.address)

    def begin(self) -> None:
        self.owner = self.acceptor.accept(self.number, self.peer())

    def unclaimed(self) -> None:
        self.acceptor.gave_up(self.address)


class Outgoing(Connection):
    """A connection that an actor of this node has opened."""

    __slots__ = ()

    def __init__(self, net: HostNet, number: int, owner: SocketOwner) -> None:
        super().__init__(net)
        self.number = number
        self.owner = owner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self.is_open and self.owner is not None:
            self.owner.post(Closed("gone at once"))

    def is_wanted(self) -> bool:
        return self.number in self.net.attempts

    def begin(self) -> None:
        assert self.owner is not None, "an outgoing connection without an owner"
        self.owner.post(Connected())


class TlsIncoming(Incoming):
    """A connection to a listener over TLS. It gets its owner when the TLS handshake is over."""

    is_coded = True

    __slots__ = ("tls",)

    def __init__(self, net: HostNet, acceptor: Acceptor) -> None:
        super().__init__(net, acceptor)
        self.tls: TlsSession

    def begin(self) -> None:
        settings = self.net.tls
        assert settings is not None, "a TLS listener without settings"
        self.tls = TlsSession(settings)
        self.end_after(settings.tls.handshake_timeout_ms)

    def peer(self) -> Peer:
        peer = super().peer()
        peer.certificate_name = self.tls.user()
        peer.tls = self.tls.facts()
        return peer

    def decoded(self, data: bytes) -> bytes:
        tls = self.tls
        if tls.ended:
            return b""
        try:
            plain = tls.receive(data)
            if self.owner is None and tls.ready:
                self.shake_hands()
        except ssl.SSLError as error:
            self.broken(reason_of(error))
            return b""
        if written := tls.to_write():
            self.transport.write(written)
        if tls.ended:
            self.transport.write(tls.goodbye())
            self.transport.close()
        return plain

    def shake_hands(self) -> None:
        """Let AMQP begin, now that the TLS handshake is over."""
        if self.tls.too_deep():
            self.broken("the client's certificate is too far from its root")
            return
        assert self.goodbye is not None
        self.goodbye.cancel()
        self.goodbye = None
        super().begin()

    def broken(self, reason: str) -> None:
        """End the connection, because TLS has failed; an alert is on its way to the peer."""
        self.net.log.write("warning", f"TLS with {self.address} failed: {reason}")
        self.tls.ended = True
        self.transport.write(self.tls.to_write())
        self.transport.close()
        self.end_after(LINGER_DEFAULT_MS)

    def send(self, data: bytes) -> None:
        if not self.tls.ended:
            self.transport.write(self.tls.send(data))

    def send_pieces(self, pieces: list[bytes]) -> None:
        self.send(b"".join(pieces))

    def finish(self, linger_ms: int) -> None:
        if not self.tls.ended and not self.transport.is_closing():
            self.transport.write(self.tls.goodbye())
        super().finish(linger_ms)


class HostNet(Net):
    """The network of this machine: the open connections by number."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, config: NetConfig, log: Log, sockets_max: int
    ) -> None:
        self.loop = loop
        self.sockets_max = sockets_max
        self.config = config
        self.log = log
        self.tls: TlsSettings | None = None
        self.connections: dict[int, Connection] = {}
        self.attempts: dict[int, asyncio.Task[object]] = {}
        """The connections that are being made, by number."""
        self.reserved: dict[tuple[str, int, bool], list[socket.socket]] = {}
        """Sockets that are bound and do not listen yet, by the host, port and use of TLS that were
        asked for."""
        self.servers: list[asyncio.Task[asyncio.Server]] = []
        """A task for each address that is listened on, which makes its server."""
        self.last_number = 0
        self.unparsed_max = UNPARSED_BYTES_MAX
        """Bytes of a client's socket that were read and not parsed, from which on it rests."""
        self.pull_max = PULL_BYTES_MAX
        """The most bytes that an owner gets by one pull."""
        self.divides = True
        """Whether each socket gets less when there are many. Not with RabbitMQ's profiles, where
        credit alone bounds waiting messages."""
        self.room = memoryview(bytearray(READ_BYTES_MAX))
        self.buffer = self.room
        """The buffer that all sockets are read into."""

    def reserve(self, host: str, port: int, tls: bool = False) -> int:
        """Bind sockets to that address for the next `listen` to it; no one can connect to them yet.
        Returns the port. Raises Refused when that fails."""
        sockets = self.reserved[host, port, tls] = bound(host, port, 0)
        return int(sockets[0].getsockname()[1])

    def listen(self, acceptor: Acceptor, host: str, port: int, tls: bool = False) -> int:
        sockets = self.reserved.pop((host, port, tls), None)
        if sockets is None:
            sockets = bound(host, port, self.config.backlog)
        else:
            listen_on(sockets, host, port, self.config.backlog)
        kind = TlsIncoming if tls else Incoming
        for plain in sockets:
            server = self.loop.create_server(
                lambda: kind(self, acceptor), sock=plain, backlog=self.config.backlog
            )
            self.servers.append(self.loop.create_task(server))
        return int(sockets[0].getsockname()[1])

    async def stop_listening(self) -> None:
        """Close all listeners, and end all attempts to connect elsewhere."""
        for server in self.servers:
            (await server).close()
        self.servers.clear()
        for sockets in self.reserved.values():
            for plain in sockets:
                plain.close()
        self.reserved.clear()
        for attempt in self.attempts.values():
            attempt.cancel()

    def connect(self, owner: SocketOwner, host: str, port: int) -> int:
        number = self.new_number()
        made = self.loop.create_connection(lambda: Outgoing(self, number, owner), host, port)
        attempt = self.attempts[number] = self.loop.create_task(made)

        def ended(_: object) -> None:
            del self.attempts[number]
            if attempt.cancelled():
                if number not in self.connections:  # if it is, its own end tells the owner
                    owner.post(Closed("given up"))
            elif error := attempt.exception():
                owner.post(Closed(f"cannot connect to {host}:{port}: {reason_for(error)}"))

        attempt.add_done_callback(ended)
        return number

    def new_number(self) -> int:
        """Return the number of the next connection."""
        self.last_number += 1
        return self.last_number

    def add(self, connection: Connection) -> None:
        """Keep a connection, which gets a number if it has none."""
        connection.number = connection.number or self.new_number()
        self.connections[connection.number] = connection

    def is_full(self) -> bool:
        return len(self.connections) >= self.sockets_max

    def remove(self, connection: Connection) -> None:
        """Forget a connection whose socket is closed."""
        self.connections.pop(connection.number, None)

    def write(self, connection: int, data: bytes) -> bool:
        found = self.connections.get(connection)
        if found is None:
            return True  # the reader will get Closed
        found.send(data)
        return not found.full

    def write_pieces(self, connection: int, pieces: list[bytes]) -> bool:
        found = self.connections.get(connection)
        if found is None:
            return True  # the reader will get Closed
        found.send_pieces(pieces)
        return not found.full

    def unsent_bytes(self, connection: int) -> int:
        found = self.connections.get(connection)
        return 0 if found is None else found.transport.get_write_buffer_size()

    def set_options(self, plain: socket.socket) -> None:
        """Set the options that are configured for every socket."""
        config = self.config
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, config.nodelay)
        if config.keepalive:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if config.sndbuf is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.sndbuf)
        if config.recbuf is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.recbuf)

    def pause_reading(self, connection: int) -> None:
        found = self.connections.get(connection)
        if found is not None:
            found.held = True
            if found.transport.is_reading():
                found.transport.pause_reading()

    def resume_reading(self, connection: int) -> None:
        found = self.connections.get(connection)
        if found is not None:
            found.held = False
            if not found.rests and not found.transport.is_closing():
                found.transport.resume_reading()

    def taken(self, connection: int, pulls: bool) -> bool:
        found = self.connections.get(connection)
        if found is None:
            return False
        found.unparsed = 0
        if found.rests and not pulls:
            found.rest_no_more()
        return found.rests

    def rest(self, connection: int) -> None:
        found = self.connections.get(connection)
        if found is not None and not found.rests:
            found.rest()

    def pull(self, connection: int, size_max: int) -> bytes:
        found = self.connections.get(connection)
        return b"" if found is None else found.pull(size_max)

    def pull_into(self, connection: int, room: memoryview) -> int:
        found = self.connections.get(connection)
        return 0 if found is None else found.pull_into(room)

    def next_round(self) -> None:
        """Share out what may be read next among the connections, after a round of the actors."""
        if not self.divides:
            return
        share = UNPARSED_BYTES // (len(self.connections) + 1)
        size = min(max(share, UNPARSED_BYTES_MIN), UNPARSED_BYTES_MAX)
        if size != self.unparsed_max:
            self.unparsed_max = size
            self.buffer = self.room[:size]
            self.pull_max = size if size < UNPARSED_BYTES_MAX else PULL_BYTES_MAX

    def close(self, connection: int, linger_ms: int = 0) -> None:
        """Write all pending bytes, then close. With `linger_ms` the peer has that long to close
        first: a socket closed with unread bytes is reset, and a peer that still writes might never
        read our last bytes."""
        found = self.connections.get(connection)
        if found is not None:
            found.finish(linger_ms)
        elif connection in self.attempts:
            self.attempts[connection].cancel()


def reason_for(error: BaseException) -> str:
    """Return the system's words for a failure, without the address that asyncio's repeat."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error)


def bound(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Return listening sockets, one for each address that the host's name stands for; with a
    backlog of 0 they do not listen yet. Raises Refused."""
    sockets: list[socket.socket] = []
    # As bytes: for a `str` Python would load Unicode tables, whatever the name.
    name = host.encode() if host.isascii() else host
    try:
        addresses = socket.getaddrinfo(
            name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            plain = socket.socket(family, kind, protocol)
            sockets.append(plain)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                plain.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            plain.bind(address)
            plain.setblocking(False)
            if backlog:
                plain.listen(backlog)
    except OSError as error:
        for plain in sockets:
            plain.close()
        raise Refused(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return sockets


def listen_on(sockets: list[socket.socket], host: str, port: int, backlog: int) -> None:
    """Let clients connect to sockets that are bound to that address. Raises Refused when another
    process listens there by now."""
    try:
        for plain in sockets:
            plain.listen(backlog)
    except OSError as error:
        for plain in sockets:
            plain.close()
        raise Refused(f"cannot listen on {host}:{port}: {error.strerror}") from error
