"""Sockets over asyncio: one protocol object a connection, bytes in, bytes out."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

from sluicemq.chain.reader import Peer
from sluicemq.kernel.world import Closed, Net, Received, Writable

if TYPE_CHECKING:
    from sluicemq.chain.reader import Reader
    from sluicemq.node import Node

HIGH_WATER_BYTES = 1 << 20
LOW_WATER_BYTES = 1 << 18
LINGER_DEFAULT_MS = 5000
BURST_BYTES = 1 << 19
"""So much is read of one socket between two rounds of the actors. uvloop would read 32 times as
much, and who publishes without waiting for confirms would leave consumers an eighth of the time."""


class Connection(asyncio.Protocol):
    """asyncio's callbacks, turned into messages for the reader and its writer."""

    def __init__(self, net: HostNet) -> None:
        self.net = net
        self.number = 0
        self.full = False
        self.held = False
        """The reader wants nothing."""
        self.burst = 0
        """Bytes read since the actors last ran."""
        self.reader: Reader
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is not one by class
        self.transport.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        plain = transport.get_extra_info("socket")
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = self.net.add(self)
        peer = transport.get_extra_info("peername")
        here = transport.get_extra_info("sockname")
        self.reader = self.net.node.accept(
            self.number, Peer(str(peer[0]), int(peer[1]), str(here[0]), int(here[1]))
        )

    def data_received(self, data: bytes) -> None:
        if not self.burst:
            self.net.heard.append(self)
        self.burst += len(data)
        if self.burst >= BURST_BYTES and not self.held:
            self.transport.pause_reading()
        self.reader.post(Received(data))

    def next_burst(self) -> None:
        """The actors have run."""
        rested = self.burst >= BURST_BYTES
        self.burst = 0
        if rested and not self.held and not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self.reader.writer.post(Writable())

    def connection_lost(self, exc: Exception | None) -> None:
        self.net.remove(self)
        self.reader.post(Closed(str(exc) if exc else "closed"))


class HostNet(Net):
    """The open connections by number."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.connections: dict[int, Connection] = {}
        self.next_number = 1
        self.heard: list[Connection] = []
        """Those of which something was read since the actors last ran."""
        self.node: Node

    def add(self, connection: Connection) -> int:
        """A socket was accepted; returns its number."""
        number = self.next_number
        self.next_number += 1
        self.connections[number] = connection
        return number

    def remove(self, connection: Connection) -> None:
        """The socket is gone."""
        self.connections.pop(connection.number, None)

    def write(self, connection: int, data: bytes) -> bool:
        found = self.connections.get(connection)
        if found is None:
            return True  # Closed is on its way to the reader
        found.transport.write(data)
        return not found.full

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
            if found.burst < BURST_BYTES and not found.transport.is_closing():
                found.transport.resume_reading()

    def next_round(self) -> None:
        """The actors have run: read on."""
        heard = self.heard
        if heard:
            self.heard = []
            for connection in heard:
                connection.next_burst()

    def close(self, connection: int, linger_ms: int = 0) -> None:
        """Write out what is due, then close. With `linger_ms` the peer is given so long to close
        first: a socket closed with something unread in it is reset, and a peer that still writes
        might never read our last words."""
        found = self.connections.get(connection)
        if found is None:
            return
        transport = found.transport
        if linger_ms and transport.can_write_eof() and not transport.is_closing():
            self.resume_reading(connection)  # to the end; the reader drops it
            transport.write_eof()
        else:
            transport.close()
        self.loop.call_later((linger_ms or LINGER_DEFAULT_MS) / 1000, transport.abort)
