"""Simulated sockets: bytes travel in seeded fragments with seeded delays, buffers are bounded.

    client --write--> inbound  --fragments--> Received to the reader     unless reading is paused
    client <--read--- outbound <----write---- writer; False above `high`, Writable below `low`

A client may write what `room` says and no more, as with a blocking socket: a node that does not
read makes its clients stop. A client that does not read makes `outbound` fill.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

from sluicemq.chain.connection.peer import Peer as Address
from sluicemq.kernel.world import Closed, Net, Received, Writable
from sluicemq.sim.history import promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.chain.connection.reader import Reader
    from sluicemq.node import Node
    from sluicemq.sim.swarm import Swarm
    from sluicemq.sim.timeline import Timeline

RESTS_PART = 16
"""A socket rests when so large a part of what it holds was read and is not parsed yet."""
LINGER_DEFAULT_MS = 5000
HEALED_FRAGMENT = 16_384


class Client(Protocol):
    """The other end of a socket."""

    name: str

    def receive(self, data: bytes) -> None:
        """Bytes came from the node."""

    def writable(self) -> None:
        """There is room again, after there was none."""

    def hung_up(self) -> None:
        """The node has closed the socket, or it broke."""


class Socket:
    """One connection, both directions."""

    def __init__(self, net: SimNet, number: int, client: Client) -> None:
        self.net = net
        self.number = number
        self.client = client
        self.reader: Reader
        self.inbound = bytearray()
        self.outbound = bytearray()
        self.paused = False
        self.unparsed = 0
        """Bytes that arrived since the reader last had done with all."""
        self.rests = False
        """Enough of them: more arrive when the reader has done with these, or pulls."""
        self.starved = False
        """The client was told that there is no room."""
        self.full = False
        self.stalled = False
        """The client does not read."""
        self.closing = False
        """The node has closed: nothing is read any more, what is due still goes out."""
        self.left = False
        """The client has gone, orderly or not."""
        self.gone = False
        self.arriving = False
        self.reading = False

    # -- the client's side

    def room(self) -> int:
        """How many bytes the client can write now."""
        free = self.net.swarm.socket_bytes - len(self.inbound)
        self.starved = free <= 0
        return free

    def send(self, data: bytes) -> None:
        """The client writes. What exceeds the room a little is taken all the same."""
        if not self.left and not self.closing:
            self.inbound += data
            self._fetch()

    def stall(self) -> None:
        """The client stops reading."""
        self.stalled = True

    def unstall(self) -> None:
        """The client reads again."""
        self.stalled = False
        self._offer()

    def leave(self, kept_bytes: int | None = None) -> None:
        """The client closes the socket. Of what it wrote the node still gets `kept_bytes`
        (None: all), perhaps half a frame; what is on its way to the client is lost."""
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
        """See to it that what is there arrives, if it is wanted."""
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
        data = self._take()
        self.unparsed += len(data)
        self.rests = self.unparsed * RESTS_PART >= self.net.swarm.socket_bytes
        self.reader.post(Received(data))
        self._fetch()

    def taken(self, pulls: bool) -> bool:
        """The reader has done with what arrived; does it pull more?"""
        self.unparsed = 0
        if self.rests and not pulls:
            self.rests = False
            self._fetch()
        return self.rests

    def pull(self) -> bytes:
        """The reader takes what is there, if it rests and may."""
        if not self.rests or self.paused or self.gone:
            return b""
        if not self.inbound:
            self.rests = False
            self._fetch()
            return b""
        return self._take()

    def _take(self) -> bytes:
        """The next bytes from the client, which has room again."""
        size = self.net.fragment()
        data = bytes(self.inbound[:size])
        del self.inbound[:size]
        if self.starved and len(self.inbound) * 2 < self.net.swarm.socket_bytes and not self.left:
            self.starved = False
            self.client.writable()
        return data

    # -- towards the client

    def write(self, data: bytes) -> bool:
        """The node writes. False: over the high-water mark."""
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
                self.reader.writer.post(Writable())
        self.client.receive(data)
        if self.closing and not self.outbound:
            self._finish("closed")
        else:
            self._offer()

    # -- the end

    def close(self, linger_ms: int) -> None:
        """The node closes."""
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
        self.reader.post(Closed(reason))
        if not self.left:
            self.left = True
            self.client.hung_up()


class SimNet(Net):
    """All sockets by number."""

    def __init__(self, timeline: Timeline, random: Random, swarm: Swarm) -> None:
        self.timeline = timeline
        self.random = random
        self.swarm = swarm
        self.sockets: dict[int, Socket] = {}
        self.opened = 0
        self.healed = False
        self.pauses = 0
        self.pulls = 0
        self.refusals = 0
        self.node: Node

    def crash(self) -> None:
        """The node is no more: every connection is cut, what was on its way is lost."""
        for socket in self.sockets.values():
            socket.left = socket.gone = True
            socket.inbound.clear()
            socket.outbound.clear()
        self.sockets.clear()

    def abort(self) -> None:
        """The node gives up whoever has not gone yet."""
        for socket in list(self.sockets.values()):
            socket._abort()

    def connect(self, client: Client) -> Socket:
        """A client connects."""
        self.opened += 1
        number = self.opened
        socket = Socket(self, number, client)
        self.sockets[number] = socket
        assert self.node.admits("127.0.0.1")
        socket.reader = self.node.accept(number, Address("127.0.0.1", 40000 + number, "sim", 5672))
        return socket

    def delay_ns(self) -> int:
        """Of one step of some bytes; a step in a hundred takes fifty times as long."""
        if self.healed:
            return MS // 10
        delay_ns = 1 + self.random.randrange(self.swarm.delay_ns_max)
        return delay_ns * 50 if self.random.randrange(100) == 0 else delay_ns

    def fragment(self) -> int:
        """How many bytes are read at once; a read in twenty gets a few bytes only."""
        if self.healed:
            return HEALED_FRAGMENT
        if self.random.randrange(20) == 0:
            return 1 + self.random.randrange(9)
        return 1 + self.random.randrange(self.swarm.fragment_max)

    def write(self, connection: int, data: bytes) -> bool:
        self.timeline.saw(connection, data)
        socket = self.sockets.get(connection)
        if socket is None:
            return True
        writer = socket.reader.writer
        may_write = not socket.full or writer.hang_up is not None
        promise(may_write, socket.client.name, "is written to while its socket is full")
        taken = socket.write(data)
        self.refusals += not taken
        return taken

    def unsent_bytes(self, connection: int) -> int:
        socket = self.sockets.get(connection)
        return 0 if socket is None else len(socket.outbound)

    def taken(self, connection: int, pulls: bool) -> bool:
        socket = self.sockets.get(connection)
        return socket is not None and socket.taken(pulls)

    def pull(self, connection: int) -> bytes:
        socket = self.sockets.get(connection)
        data = b"" if socket is None else socket.pull()
        self.pulls += bool(data)
        return data

    def pause_reading(self, connection: int) -> None:
        socket = self.sockets.get(connection)
        if socket is not None and not socket.closing:
            socket.paused = True
            self.pauses += 1

    def resume_reading(self, connection: int) -> None:
        socket = self.sockets.get(connection)
        if socket is not None and not socket.closing:
            socket.paused = False
            socket._fetch()

    def close(self, connection: int, linger_ms: int = 0) -> None:
        socket = self.sockets.get(connection)
        if socket is not None:
            socket.close(linger_ms)
