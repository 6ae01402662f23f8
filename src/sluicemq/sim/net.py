"""Simulated sockets: bytes travel in seeded fragments with seeded delays, buffers are bounded.

    client --write--> inbound  --fragments--> Received to the owner      unless reading is paused
    client <--read--- outbound <----write---- writer; False above `high`, Writable below `low`

A client may write only as much as `room` says, as with a blocking socket: a node that does not read
stops its clients. A client that does not read lets `outbound` fill up. The client may be an actor
of another machine (`Outgoing`).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from sluicemq.chain.connection.reader import Reader
from sluicemq.chain.writer import Writer
from sluicemq.errors import Refused
from sluicemq.kernel.endpoints import Peer as Address
from sluicemq.kernel.socket_messages import Closed, Connected, Received, Writable
from sluicemq.kernel.world import Net
from sluicemq.sim.records import promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.kernel.socket_owner import Acceptor, SocketOwner
    from sluicemq.sim.timeline import Timeline

AMQP_PORT: Final = 5672
FIRST_PORT: Final = 40_000
"""The system chooses ports above this one."""
CLIENTS_HOST: Final = "127.0.0.1"
"""The host from which clients connect."""
RESTS_PART = 16
"""A socket rests when so large a part of what it holds was read and is not parsed yet."""
LINGER_DEFAULT_MS = 5000
HEALED_FRAGMENT = 16_384


class Sockets(Protocol):
    """The sizes of the buffers of simulated sockets, and their speed."""

    @property
    def delay_ns_max(self) -> int:
        """Return the longest time of a step, except for one step in a hundred."""

    @property
    def fragment_max(self) -> int:
        """Return the most bytes that one read returns."""

    @property
    def socket_bytes(self) -> int:
        """Return the most bytes that a client may have written and the node has not read."""

    @property
    def high_water_bytes(self) -> int:
        """Return the mark above which the node is told that a socket is full."""

    @property
    def low_water_bytes(self) -> int:
        """Return the mark below which it may write again."""


class Client(Protocol):
    """The other end of a simulated socket."""

    name: str

    def receive(self, data: bytes) -> None:
        """Called when bytes have come from the node."""

    def writable(self) -> None:
        """Called when there is room again, after there was none."""

    def hung_up(self) -> None:
        """Called when the node closed the socket, or the connection broke."""


class Socket:
    """One simulated connection, both directions of it."""

    def __init__(self, net: SimNet, number: int, client: Client) -> None:
        self.net = net
        self.number = number
        self.client = client
        self.owner: SocketOwner
        self.inbound = bytearray()
        self.outbound = bytearray()
        self.paused = False
        self.unparsed = 0
        """Bytes that arrived since the owner had last handled all."""
        self.rests = False
        """Enough of them: more bytes arrive when the owner has handled these, or pulls."""
        self.starved = False
        """The client was told that there is no room."""
        self.full = False
        self.stalled = False
        """The client does not read."""
        self.closing = False
        """The node has closed the socket: it reads no more, but queued bytes are still sent."""
        self.left = False
        """The client has left, orderly or not."""
        self.gone = False
        self.arriving = False
        self.reading = False

    @property
    def reader(self) -> Reader:
        """Return the owner of a connection that speaks AMQP."""
        assert isinstance(self.owner, Reader), "not a connection of AMQP"
        return self.owner

    # -- the client's side

    def room(self) -> int:
        """Return how many bytes the client can write now."""
        free = self.net.swarm.socket_bytes - len(self.inbound)
        self.starved = free <= 0
        return free

    def send(self, data: bytes) -> None:
        """Write from the client's side. A small excess over the room is accepted."""
        if not self.left and not self.closing:
            self.inbound += data
            self._fetch()

    def stall(self) -> None:
        """Let the client stop reading."""
        self.stalled = True

    def unstall(self) -> None:
        """Let the client read again."""
        self.stalled = False
        self._offer()

    def leave(self, kept_bytes: int | None = None) -> None:
        """Close the socket from the client's side. The node still gets `kept_bytes` of what the
        client wrote (None: all), perhaps half a frame; bytes in flight to the client are lost."""
        if self.left:
            return
        self.left = True
        if kept_bytes is not None:
            del self.inbound[kept_bytes:]
        unread = bool(self.outbound)
        self.outbound.clear()
        if self.closing:
            self._finish("closed")
            return
        self._fetch()
        if unread:
            self.net.timeline.after(self.net.delay_ns(), self.client.name, "reset", self._reset)

    # -- towards the node

    def _fetch(self) -> None:
        """Plan the arrival of bytes from the client, if the reader wants them."""
        unwanted = self.paused or self.rests or self.gone
        if not self.arriving and not unwanted and (self.inbound or self.left):
            self.arriving = True
            net = self.net
            net.timeline.after(net.delay_ns(), self.client.name, "bytes arrive", self._arrive)

    def _arrive(self, _: object) -> None:
        self.arriving = False
        if self.paused or self.gone:
            return
        if not self.inbound:
            if self.left:
                self._finish("closed by the client")
            return
        data = self._take(self.net.swarm.socket_bytes)
        self.unparsed += len(data)
        self.rests = self.unparsed * RESTS_PART >= self.net.swarm.socket_bytes
        self.owner.post(Received(data))
        self._fetch()

    def taken(self, pulls: bool) -> bool:
        """Note that the owner has handled all bytes that arrived. Returns whether the socket rests,
        so that the owner must pull more; with `pulls` False it rests no longer."""
        self.unparsed = 0
        if self.rests and not pulls:
            self.rests = False
            self._fetch()
        return self.rests

    def pull(self, size_max: int) -> bytes:
        """Return the waiting bytes, at most `size_max`, if the socket rests and may be read."""
        if not self.rests or self.paused or self.gone:
            return b""
        if not self.inbound:
            self.rests = False
            self._fetch()
            return b""
        return self._take(size_max)

    def _take(self, size_max: int) -> bytes:
        """Return the next bytes from the client, at most `size_max`; it gets room for as many."""
        size = min(self.net.fragment(), size_max)
        data = bytes(self.inbound[:size])
        del self.inbound[:size]
        if self.starved and len(self.inbound) * 2 < self.net.swarm.socket_bytes and not self.left:
            self.starved = False
            self.client.writable()
        return data

    # -- towards the client

    def write(self, data: bytes) -> bool:
        """Write from the node's side. Returns False when the buffer is above its
        high-water mark.
        """
        if self.gone:
            return True
        if self.left:
            net = self.net
            net.timeline.after(net.delay_ns(), self.client.name, "reset", self._reset)
            return True
        self.outbound += data
        self._offer()
        if len(self.outbound) > self.net.swarm.high_water_bytes:
            self.full = True
        return not self.full

    def _offer(self) -> None:
        if not self.reading and not self.stalled and not self.left and self.outbound:
            self.reading = True
            net = self.net
            net.timeline.after(net.delay_ns(), self.client.name, "reads", self._read)

    def _read(self, _: object) -> None:
        self.reading = False
        if self.stalled or self.left:
            return
        size = self.net.fragment() * 2
        data = bytes(self.outbound[:size])
        del self.outbound[:size]
        if self.full and len(self.outbound) <= self.net.swarm.low_water_bytes:
            self.full = False
            if not self.gone:
                self.owner.writer.post(Writable())
        self.client.receive(data)
        if self.closing and not self.outbound:
            self._finish("closed")
        else:
            self._offer()

    # -- the end

    def close(self, linger_ms: int) -> None:
        """Close from the node's side: queued bytes are still sent, for at most `linger_ms`
        milliseconds; 0 is the default time."""
        if self.closing or self.gone:
            return
        self.closing = True
        self.paused = True
        timeline = self.net.timeline
        if self.outbound:
            linger_ns = (linger_ms or LINGER_DEFAULT_MS) * MS
            timeline.after(linger_ns, self.client.name, "linger is over", self._abort)
        else:
            timeline.after(1, self.client.name, "is closed", self._abort)

    def _abort(self, _: object = None) -> None:
        self.outbound.clear()
        self._finish("closed")

    def _reset(self, _: object) -> None:
        self._finish("connection reset by peer")

    def _finish(self, reason: str) -> None:
        if self.gone:
            return
        self.gone = True
        self.net.sockets.pop(self.number, None)
        self.owner.post(Closed(reason))
        if not self.left:
            self.left = True
            self.client.hung_up()


class ClientEnd:
    """The client's end of a connection, when the client is an actor of another machine."""

    def __init__(self, net: SimNet, number: int, owner: SocketOwner, name: str) -> None:
        self.net = net
        self.number = number
        self.owner = owner
        self.name = name
        self.socket: Socket | None = None
        """None while the connection is being made."""

    def receive(self, data: bytes) -> None:
        self.owner.post(Received(data))

    def writable(self) -> None:
        self.owner.writer.post(Writable())

    def close(self) -> None:
        """Close from the owner's side: bytes that it wrote still arrive, bytes in flight to it do
        not."""
        if self.socket is not None:
            self.socket.leave()
        self.over("closed")

    def hung_up(self) -> None:
        self.over("closed by the other end")

    def over(self, reason: str) -> None:
        """Tell the owner that the connection failed or has ended."""
        if self.net.outgoing.pop(self.number, None) is not None:
            self.owner.post(Closed(reason))


class Network:
    """The network that connects all machines of a run: the listeners by host and port."""

    def __init__(self) -> None:
        self.listeners: dict[tuple[str, int], tuple[SimNet, Acceptor]] = {}


class SimNet(Net):
    """The sockets of one machine, by number. `host` is its name in the network; without one it has
    a network of its own."""

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        swarm: Sockets,
        network: Network | None = None,
        host: str = "sim",
    ) -> None:
        self.timeline = timeline
        self.random = random
        self.swarm = swarm
        self.network = network or Network()
        self.host = host
        self.sockets: dict[int, Socket] = {}
        """The sockets of clients that have connected to this machine."""
        self.outgoing: dict[int, ClientEnd] = {}
        """The connections that its actors have asked for."""
        self.opened = 0
        self.healed = False
        self.pauses = 0
        self.pulls = 0
        self.refusals = 0

    def crash(self) -> None:
        """Cut every connection of a machine that crashes; bytes in flight are lost. Actors of other
        machines are told; the run tells its own clients."""
        for key in [key for key, (net, _) in self.network.listeners.items() if net is self]:
            del self.network.listeners[key]
        for socket in self.sockets.values():
            if isinstance(socket.client, ClientEnd) and not socket.left:
                self._cut(socket.client)
            socket.left = socket.gone = True
            socket.inbound.clear()
            socket.outbound.clear()
        self.sockets.clear()
        for client in self.outgoing.values():
            if client.socket is not None:
                client.socket.leave(0)
        self.outgoing.clear()

    def _cut(self, client: ClientEnd) -> None:
        """Note that the other end of a client's connection has gone without notice."""
        reason = "connection reset by peer"
        self.timeline.after(self.delay_ns(), client.name, "reset", client.over, reason)

    def abort(self) -> None:
        """Cut the connections of clients that are still there; the node gives up on them."""
        for socket in list(self.sockets.values()):
            socket._abort()

    def listen(self, acceptor: Acceptor, host: str, port: int, tls: bool = False) -> int:
        assert not tls, "there is no TLS here"
        listeners = self.network.listeners
        if port and (host, port) in listeners:
            raise Refused(f"cannot listen on {host}:{port}: Address already in use")
        port = port or FIRST_PORT + len(listeners)
        listeners[host, port] = self, acceptor
        return port

    def enter(self, client: Client, port: int = AMQP_PORT) -> Socket:
        """Connect a client of the run to a listener of this machine."""
        _, acceptor = self.network.listeners[self.host, port]
        socket = self._socket(client)
        assert acceptor.admits(CLIENTS_HOST)
        peer = Address(CLIENTS_HOST, FIRST_PORT + socket.number, self.host, port)
        socket.owner = acceptor.accept(socket.number, peer)
        return socket

    def _socket(self, client: Client) -> Socket:
        """Return a new socket for a client; its owner is set later."""
        self.opened += 1
        socket = self.sockets[self.opened] = Socket(self, self.opened, client)
        return socket

    def connect(self, owner: SocketOwner, host: str, port: int) -> int:
        self.opened += 1
        client = ClientEnd(self, self.opened, owner, f"{self.host}-{self.opened}")
        self.outgoing[client.number] = client
        self.timeline.after(
            self.delay_ns(), client.name, "connects", self._reach, (client, host, port)
        )
        return client.number

    def _reach(self, asked: tuple[ClientEnd, str, int]) -> None:
        """Make a connection that was asked for, or report that it cannot be made."""
        client, host, port = asked
        if self.outgoing.get(client.number) is not client:
            return  # its machine has crashed, or its owner has given up
        there, acceptor = self.network.listeners.get((host, port), (None, None))
        if there is None or acceptor is None or not acceptor.admits(self.host):
            client.over(f"cannot connect to {host}:{port}: Connection refused")
            return
        socket = client.socket = there._socket(client)
        peer = Address(self.host, FIRST_PORT + client.number, host, port)
        client.owner.post(Connected())
        socket.owner = acceptor.accept(socket.number, peer)

    def delay_ns(self) -> int:
        """Return the duration of one step; one step in a hundred takes fifty times as long."""
        if self.healed:
            return MS // 10
        delay_ns = 1 + self.random.randrange(self.swarm.delay_ns_max)
        return delay_ns * 50 if self.random.randrange(100) == 0 else delay_ns

    def fragment(self) -> int:
        """Return how many bytes one read returns; one read in twenty returns only a few."""
        if self.healed:
            return HEALED_FRAGMENT
        if self.random.randrange(20) == 0:
            return 1 + self.random.randrange(9)
        return 1 + self.random.randrange(self.swarm.fragment_max)

    def write(self, connection: int, data: bytes) -> bool:
        self.timeline.saw(connection, data)
        client = self.outgoing.get(connection)
        if client is not None:
            promise(client.socket is not None, client.name, "is written to before it is connected")
            assert client.socket is not None
            client.socket.send(data)
            return client.socket.room() > 0
        socket = self.sockets.get(connection)
        if socket is None:
            return True
        writer = socket.owner.writer
        hangs_up = isinstance(writer, Writer) and writer.hang_up is not None
        promise(
            not socket.full or hangs_up,
            socket.client.name,
            "is written to while its socket is full",
        )
        taken = socket.write(data)
        self.refusals += not taken
        return taken

    def unsent_bytes(self, connection: int) -> int:
        client = self.outgoing.get(connection)
        if client is not None:
            return 0 if client.socket is None else len(client.socket.inbound)
        socket = self.sockets.get(connection)
        return 0 if socket is None else len(socket.outbound)

    def taken(self, connection: int, pulls: bool) -> bool:
        socket = self.sockets.get(connection)
        return socket is not None and socket.taken(pulls)

    def rest(self, connection: int) -> None:
        socket = self.sockets.get(connection)
        if socket is not None:
            socket.rests = True

    def pull(self, connection: int, size_max: int) -> bytes:
        socket = self.sockets.get(connection)
        data = b"" if socket is None else socket.pull(size_max)
        self.pulls += bool(data)
        return data

    def pause_reading(self, connection: int) -> None:
        client = self.outgoing.get(connection)
        if client is not None and client.socket is not None:
            client.socket.stall()
        socket = self.sockets.get(connection)
        if socket is not None and not socket.closing:
            socket.paused = True
            self.pauses += 1

    def resume_reading(self, connection: int) -> None:
        client = self.outgoing.get(connection)
        if client is not None and client.socket is not None:
            client.socket.unstall()
        socket = self.sockets.get(connection)
        if socket is not None and not socket.closing:
            socket.paused = False
            socket._fetch()

    def close(self, connection: int, linger_ms: int = 0) -> None:
        client = self.outgoing.get(connection)
        if client is not None:
            client.close()
        socket = self.sockets.get(connection)
        if socket is not None:
            socket.close(linger_ms)
