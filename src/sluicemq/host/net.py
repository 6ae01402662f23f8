"""The broker's connections: from a socket's bytes to messages, and back.

PolledSocket       reads and writes one socket (poller.py)
  Connection       passes that to its owner and writer
    Incoming       a client or node has connected to a listener; an acceptor takes it
      TlsIncoming  the same over TLS
    Outgoing       an actor of this node has opened it
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from sluicemq.compiling import mypyc_attr
from sluicemq.errors import Refused, TlsFailed
from sluicemq.host.moderation import Moderation
from sluicemq.host.poller import PolledSocket, SocketPoller
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.endpoints import Peer, is_loopback
from sluicemq.kernel.socket_messages import Closed, Connected, Received, Writable
from sluicemq.kernel.world import Log, Net

if TYPE_CHECKING:
    from sluicemq.config import NetConfig
    from sluicemq.host.tls import TlsSession, TlsSettings
    from sluicemq.kernel.socket_owner import Acceptor, SocketOwner

LINGER_DEFAULT_MS: Final = 5000
UNPARSED_BYTES: Final = 32 << 20
"""The bytes, roughly, that may be read from clients and not parsed yet, shared by all their
sockets; see chain/pacer.py for why readers of publishers can be far behind."""
UNPARSED_BYTES_MIN: Final = 1 << 14
UNPARSED_BYTES_MAX: Final = 1 << 19
"""The least and the most bytes that one socket's part of these may be."""
READ_BYTES_MAX: Final = 1 << 18
"""The most bytes that one read takes."""
PULL_BYTES_MAX: Final = 1 << 20
"""The most bytes that the owner of one of a few connections reads at once: what is large costs the
system a third less than by reads of a quarter of that."""
ACCEPTS_MAX: Final = 64
"""The most clients that one listener takes in before others have their turn."""
ACCEPT_PAUSE_S: Final = 1.0
"""How long nobody is taken in when the system has no room for one more socket."""


class Connection(PolledSocket):
    """Turns what happens to one socket into messages for its owner and writer."""

    is_coded: ClassVar[bool] = False
    """Is what is read not what the owner gets? See `decoded`."""

    def __init__(self, net: HostNet, plain: socket.socket) -> None:
        super().__init__(net.poller, plain)
        self.net = net
        self.number = 0
        """The connection's number; 0: it has none yet, or was turned away."""
        self.held = False
        """True while the owner wants no more bytes."""
        self.unparsed = 0
        """Bytes read since the owner last had parsed everything."""
        self.clamped = 0
        """The size of the system's receive buffer that was set last; 0: the system's choice."""
        self.rests = False
        """True while the socket is not read because enough bytes wait: until the owner has parsed
        them, or pulls."""
        self.pulled = 0
        """Bytes that were pulled since it last began to rest."""
        self.goodbye: asyncio.TimerHandle | None = None
        """The timer that ends the socket when its peer does not."""
        self.owner: SocketOwner | None = None
        self.actor: Actor | None = None
        """The owner again, if it is an Actor: to post to one costs a compiled caller less."""
        self.is_open = False
        """True while the socket is open, unless the connection was turned away."""
        self.address = ""
        """The peer's address, without its port."""
        self.peer_port = 0

    def made(self) -> None:
        """Begin with a socket that has just been connected, or turn it away."""
        try:
            there = self.plain.getpeername()
            self.net.set_options(self.plain)
            if is_loopback(str(there[0])):
                send_unpaced(self.plain)
        except OSError:  # it is closed already
            there = None
        if there is not None:
            self.address, self.peer_port = str(there[0]), int(there[1])
        if there is None or not self.is_wanted():
            self.abort()
            return
        self.is_open = True
        self.net.add(self)
        self.poller.add(self)
        self.resume_reading()
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
        here = self.plain.getsockname()
        return Peer(self.address, self.peer_port, str(here[0]), int(here[1]))

    def read(self) -> None:
        """Read what has come; or let the owner pull it, who has pulled much before there was
        nothing left for a moment: then it is not copied from the buffer of all sockets."""
        if self.pulled >= UNPARSED_BYTES_MAX and self.owner is not None:
            self.rest()
            self.owner.post(Received(b""))
        else:
            super().read()

    def received(self, data: bytes) -> None:
        self.unparsed += len(data)
        if self.is_link:
            self.poller.moderation.link_bytes += len(data)
        if self.unparsed >= self.net.unparsed_max and not self.rests:
            self.rest_when_full()
        data = self.decoded(data)
        if data:
            if self.actor is not None:
                self.actor.post(Received(data))
            elif self.owner is not None:
                self.owner.post(Received(data))

    def belong_to(self, owner: SocketOwner) -> None:
        """Pass what comes to this owner from now on."""
        self.owner = owner
        if not owner.shares_room:
            self.become_link()
        anybody: object = owner
        self.actor = anybody if isinstance(anybody, Actor) else None

    def rest_when_full(self) -> None:
        """Let the socket rest if as much as may wait of it waits to be parsed."""
        if self.unparsed >= self.unparsed_max:
            self.rest()

    def rest(self) -> None:
        """Read nothing more before the owner has parsed what was read, or pulls."""
        self.rests = True
        self.pulled = 0
        self.clamp()
        self.pause_reading()

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
            segment = self.plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
            linux_doubles_it = max(size // 2, segment)
            self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, linux_doubles_it)

    @property
    def may_pull(self) -> bool:
        """Tell whether the owner, and not the poller, is to read the socket now."""
        return self.rests and not self.held and not self.is_closing

    def pull(self, size_max: int) -> bytes:
        """Read available bytes in place of the poller, which does not read while the socket rests.
        If there are none the poller reads again, and so sees the end or an error, too."""
        if not self.may_pull:
            return b""
        try:
            data = os.read(self.descriptor, min(size_max, self.net.pull_max))
        except OSError:
            data = b""
        if not data:
            self.rest_no_more()
            return b""
        self.pulled += len(data)
        return self.decoded(data)

    def pull_into(self, room: memoryview) -> int:
        """Read available bytes into `room`, in place of the poller, as `pull` does."""
        assert not self.is_coded, "what is read is not what the owner gets"
        if not self.may_pull:
            return 0
        try:
            count = os.readv(self.descriptor, [room[: self.net.pull_max]])
        except OSError:
            count = 0
        if not count:
            self.rest_no_more()
        self.pulled += count
        return count

    def rest_no_more(self) -> None:
        """Let the poller read the socket again."""
        self.rests = False
        if not self.held:
            self.resume_reading()

    def has_room(self) -> None:
        if self.owner is not None:
            self.owner.writer.post(Writable())

    def lost(self, error: OSError | None) -> None:
        if self.goodbye is not None:
            self.goodbye.cancel()
            self.goodbye = None
        self.gone(str(error) if error else "closed")

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
        self.abort()
        self.gone("a fault of the broker's own")

    def send(self, data: bytes) -> None:
        """Write bytes to the socket, through TLS if it has TLS."""
        self.transmit(data)

    def send_pieces(self, pieces: list[bytes]) -> None:
        """Write them as `send` does; without TLS in one system call."""
        self.transmit_pieces(pieces)

    def finish(self, linger_ms: int) -> None:
        """Close once everything is written. With `linger_ms` above 0 the peer has so many
        milliseconds to close first."""
        if linger_ms and not self.is_closing:
            self.rests = False
            self.net.resume_reading(self.number)  # until the peer closes; the owner drops it
            self.write_eof()
        else:
            self.close()
        if self.goodbye is None:
            self.end_after(linger_ms or LINGER_DEFAULT_MS)

    def end_after(self, delay_ms: int) -> None:
        """Abort the connection after `delay_ms` milliseconds if the peer has not closed it by
        then."""
        if self.goodbye is not None:
            self.goodbye.cancel()
        self.goodbye = self.net.loop.call_later(delay_ms / 1000, self.abort)


class Incoming(Connection):
    """A connection of a client or node to a listener."""

    def __init__(self, net: HostNet, plain: socket.socket, acceptor: Acceptor) -> None:
        super().__init__(net, plain)
        self.acceptor = acceptor

    def is_wanted(self) -> bool:
        return self.acceptor.admits(self.address)

    def begin(self) -> None:
        self.belong_to(self.acceptor.accept(self.number, self.peer()))

    def unclaimed(self) -> None:
        self.acceptor.gave_up(self.address)


class Outgoing(Connection):
    """A connection that an actor of this node has opened."""

    def __init__(self, net: HostNet, plain: socket.socket, number: int, owner: SocketOwner) -> None:
        super().__init__(net, plain)
        self.number = number
        self.belong_to(owner)

    def made(self) -> None:
        super().made()
        if not self.is_open and self.owner is not None:
            self.owner.post(Closed("gone at once"))

    def is_wanted(self) -> bool:
        return self.number in self.net.attempts

    def begin(self) -> None:
        assert self.owner is not None, "an outgoing connection without an owner"
        self.owner.post(Connected())


class TlsIncoming(Incoming):
    """A connection to a listener over TLS. It gets its owner when the TLS handshake is over."""

    is_coded: ClassVar[bool] = True

    def __init__(self, net: HostNet, plain: socket.socket, acceptor: Acceptor) -> None:
        super().__init__(net, plain, acceptor)
        self.tls: TlsSession

    def begin(self) -> None:
        settings = self.net.tls
        assert settings is not None, "a TLS listener without settings"
        self.tls = settings.session()
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
        except TlsFailed as error:
            self.broken(str(error))
            return b""
        self.answer()
        return plain

    def answer(self) -> None:
        """Write what TLS itself has to say, and end after the peer has ended."""
        if written := self.tls.to_write():
            self.transmit(written)
        if self.tls.ended:
            self.transmit(self.tls.goodbye())
            self.close()

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
        self.transmit(self.tls.to_write())
        self.close()
        self.end_after(LINGER_DEFAULT_MS)

    def send(self, data: bytes) -> None:
        if not self.tls.ended:
            self.transmit(self.tls.send(data))

    def send_pieces(self, pieces: list[bytes]) -> None:
        self.send(b"".join(pieces))

    def finish(self, linger_ms: int) -> None:
        if not self.tls.ended and not self.is_closing:
            self.transmit(self.tls.goodbye())
        super().finish(linger_ms)


@mypyc_attr(allow_interpreted_subclasses=True)
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
        self.attempts: dict[int, asyncio.Task[None]] = {}
        """The connections that are being made, by number."""
        self.reserved: dict[tuple[str, int, bool], list[socket.socket]] = {}
        """Sockets that are bound and do not listen yet, by the host, port and use of TLS that were
        asked for."""
        self.listeners: list[socket.socket] = []
        self.last_number = 0
        self.unparsed_max = UNPARSED_BYTES_MAX
        """Bytes of a client's socket that were read and not parsed, from which on it rests."""
        self.pull_max = PULL_BYTES_MAX
        """The most bytes that an owner gets by one pull."""
        self.sharers = 0
        """The number of connections among which it was shared out last."""
        self.divides = True
        """Whether each socket gets less when there are many. Not with RabbitMQ's profiles, where
        credit alone bounds waiting messages."""
        self.room = memoryview(bytearray(READ_BYTES_MAX))
        self.poller = SocketPoller(loop, self.room, Moderation(config.pause_max_ms))

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
            self.listeners.append(plain)
            self.loop.add_reader(plain.fileno(), self.accept, plain, kind, acceptor)
        return int(sockets[0].getsockname()[1])

    def accept(self, listener: socket.socket, kind: type[Incoming], acceptor: Acceptor) -> None:
        """Take in those who wait at a listener, some at a time."""
        for _ in range(ACCEPTS_MAX):
            try:
                plain, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self.log.write("warning", f"cannot accept a connection: {reason_for(error)}")
                self.loop.remove_reader(listener.fileno())
                again = partial(self.accept_again, listener, kind, acceptor)
                self.loop.call_later(ACCEPT_PAUSE_S, again)
                return
            plain.setblocking(False)
            made = kind(self, plain, acceptor)
            try:
                made.made()
            except Exception as error:
                self.poller.report(made, error)

    def accept_again(
        self, listener: socket.socket, kind: type[Incoming], acceptor: Acceptor
    ) -> None:
        """Take in clients again after a pause, unless the listener was closed meanwhile."""
        if listener in self.listeners:
            self.loop.add_reader(listener.fileno(), self.accept, listener, kind, acceptor)

    def stop_listening(self) -> None:
        """Close all listeners, and end all attempts to connect elsewhere."""
        for plain in self.listeners:
            self.loop.remove_reader(plain.fileno())
            plain.close()
        self.listeners.clear()
        for sockets in self.reserved.values():
            for plain in sockets:
                plain.close()
        self.reserved.clear()
        for attempt in self.attempts.values():
            attempt.cancel()

    def connect(self, owner: SocketOwner, host: str, port: int) -> int:
        number = self.new_number()
        reached = self.reach(number, owner, host, port)
        attempt = self.attempts[number] = self.loop.create_task(reached)

        def ended(_: object) -> None:
            del self.attempts[number]
            if attempt.cancelled():
                if number not in self.connections:  # if it is, its own end tells the owner
                    owner.post(Closed("given up"))
            elif error := attempt.exception():
                owner.post(Closed(f"cannot connect to {host}:{port}: {reason_for(error)}"))

        attempt.add_done_callback(ended)
        return number

    async def reach(self, number: int, owner: SocketOwner, host: str, port: int) -> None:
        """Make a connection. Raises OSError when that fails."""
        Outgoing(self, await connected(self.loop, host, port), number, owner).made()

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
        return 0 if found is None else found.unsent_bytes

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
            found.pause_reading()

    def resume_reading(self, connection: int) -> None:
        found = self.connections.get(connection)
        if found is not None:
            found.held = False
            if not found.rests:
                found.resume_reading()

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
        count = len(self.connections)
        if count == self.sharers or not self.divides:
            return
        self.sharers = count
        share = UNPARSED_BYTES // (count + 1)
        size = min(max(share, UNPARSED_BYTES_MIN), UNPARSED_BYTES_MAX)
        if size != self.unparsed_max:
            self.unparsed_max = size
            self.poller.buffer = self.room[:size]
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


def send_unpaced(plain: socket.socket) -> None:
    """Send at once what a peer on this machine takes. Some congestion controls, BBR among them,
    space the packets out by timers, which costs a fifth of the system's time where there is no
    network that might be congested. The plainest of them is always permitted."""
    with contextlib.suppress(OSError):  # a kernel of another make
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


async def connected(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """Return a socket that is connected to one of the addresses that the host's name stands for,
    the first that can be reached. Raises OSError when none can."""
    failure = OSError(f"{host} has no address")
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, address in addresses:
        plain = socket.socket(family, kind, protocol)
        plain.setblocking(False)
        try:
            await loop.sock_connect(plain, address)
        except BaseException as error:
            plain.close()
            if not isinstance(error, OSError):
                raise
            failure = error
        else:
            return plain
    raise failure


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
