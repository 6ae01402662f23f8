"""Clients of the durability tests: real sockets in one thread, everything told to a History.

A `Fleet` serves many clients with one selector, so that a run's chance is one `Random` and nobody
waits for a lock. A client is one connection with one channel. What a broker that was killed has
still written to a socket is read to its end: what a client was told counts.
"""

from __future__ import annotations

import selectors
import socket
import time
from random import Random
from typing import Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, ContentMethod, Deliveries, MethodFrame
from sluicemq.amqp.frames import content_body, frame_end
from sluicemq.amqp.method import Method
from sluicemq.client.address import Address
from sluicemq.client.session import (
    CHANNEL_MAX,
    ClientSession,
    ClosedByBrokerError,
    CloseFinished,
    Opened,
)
from sluicemq.sim.history import History
from sluicemq.sim.records import BROKEN, ENDED_WELL, promise

CHANNEL: Final = 1
READ_BYTES: Final = 1 << 18
PATIENCE_S: Final = 240.0
POLL_S: Final = 0.005
HEADER_FIXED: Final = 19
"""Octets of a content header frame before the properties: frame head, class, weight, body size."""

assert CHANNEL <= CHANNEL_MAX


def cut(content: bytes) -> tuple[bytes, bytes]:
    """(raw properties, body) of a content."""
    return content[HEADER_FIXED : frame_end(content, 0) - 1], content_body(content)


class Fleet:
    """All clients of one life of the broker."""

    def __init__(self, address: Address, book: History, dice: Random) -> None:
        self.address = address
        self.book = book
        self.dice = dice
        self.selector = selectors.DefaultSelector()
        self.clients: list[Client] = []
        self.expect_end = False
        """The broker may hang up: it is being stopped or killed."""

    def serve(self, seconds: float) -> None:
        """One look at the sockets, waiting at most so long; then everyone acts."""
        for key, mask in self.selector.select(max(0.0, seconds)):
            client: Client = key.data
            if mask & selectors.EVENT_READ:
                client.read()
        now = time.monotonic()
        for client in list(self.clients):
            if client.open and not client.leaving:
                client.act(now)
            client.write()

    def bury(self) -> None:
        """The broker is gone: hear what it had still said, then all is over."""
        self.expect_end = True
        for client in list(self.clients):
            while not client.over:
                client.read()
        self.selector.close()

    def leave(self) -> None:
        """Everyone goes, politely."""
        for client in list(self.clients):
            client.leave()
        deadline = time.monotonic() + PATIENCE_S
        while self.clients:
            promise(time.monotonic() < deadline, self.clients, "get no close-ok")
            self.serve(POLL_S)


class Client:
    """One connection. What it does is told by `opened`, `act` and the `on_` methods."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet = fleet
        self.name = name
        self.book = fleet.book
        self.dice = fleet.dice
        self.session = ClientSession(fleet.address, name)
        self.out = bytearray()
        self.open = False
        self.leaving = False
        self.over = False
        self.blocked = ""
        """What the last connection.blocked gave as its reason, "" when it is over."""
        self.blocked_at = 0.0
        self.blocked_count = 0
        self.socket = socket.create_connection((fleet.address.host, fleet.address.port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(0)
        fleet.selector.register(self.socket, selectors.EVENT_READ, self)
        fleet.clients.append(self)
        self.write()

    def __repr__(self) -> str:
        return self.name

    # -- what it does

    def opened(self) -> None:
        """The channel is open."""

    def act(self, now: float) -> None:
        """Called again and again while the channel is open."""

    def on_method(self, method: Method) -> None:
        """A method without content."""
        promise(False, self.name, "gets", method)

    def on_acks(self, tags: list[int]) -> None:
        """A run of basic.ack."""
        promise(False, self.name, "gets confirms")

    def on_delivery(self, tag: int, consumer: str, redelivered: bool, content: bytes) -> None:
        """One message for a consumer."""
        promise(False, self.name, "gets a message")

    def on_content(self, method: Method, content: bytes) -> None:
        """basic.get-ok or basic.return."""
        promise(False, self.name, "gets", method)

    def ended(self, how: str) -> None:
        """The connection is over."""

    # -- tools

    def send(self, method: Method) -> None:
        self.session.send(CHANNEL, method)

    def leave(self) -> None:
        """Close politely; what was sent before counts, what still comes is not looked at."""
        if not self.leaving and not self.over:
            self.leaving = True
            self.ended(ENDED_WELL)
            self.session.close()

    # -- bytes

    def write(self) -> None:
        """As much as the socket takes."""
        if self.over:
            return
        self.out += self.session.data_to_send()
        if self.out:
            try:
                sent = self.socket.send(self.out)
            except BlockingIOError:
                return
            except OSError:
                return  # it is over; reading says so, after what was still written
            del self.out[:sent]

    def read(self) -> None:
        """What the socket has, and its end."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.finish(BROKEN)
            return
        self.session.receive_data(data)
        try:
            while not self.over and (event := self.session.next_event()) is not None:
                self.hear(event)
        except ClosedByBrokerError as closed:
            promise(self.fleet.expect_end and not closed.channel, self.name, "hears:", closed)
            self.write()
            self.finish(BROKEN)

    def hear(self, event: object) -> None:
        """One event of the codec's."""
        if isinstance(event, Deliveries):
            for tag, content in zip(event.tags, event.contents, strict=True):
                self.on_delivery(tag, event.consumer_tag, event.redelivered, content)
        elif isinstance(event, Acks):
            self.on_acks(event.tags)
        elif isinstance(event, ContentMethod):
            self.on_content(event.method, event.content)
        elif isinstance(event, Opened):
            self.session.open_channel(CHANNEL)
        elif isinstance(event, CloseFinished):
            self.finish(ENDED_WELL)
        elif isinstance(event, MethodFrame):
            self.hear_method(event.method)

    def hear_method(self, method: Method) -> None:
        if isinstance(method, m.ConnectionBlocked):
            self.blocked = method.reason
            self.blocked_at = time.monotonic()
            self.blocked_count += 1
        elif isinstance(method, m.ConnectionUnblocked):
            promise(self.blocked != "", self.name, "is unblocked without having been blocked")
            self.blocked = ""
        elif isinstance(method, m.ChannelOpenOk):
            self.open = True
            self.opened()
        else:
            self.on_method(method)

    def finish(self, how: str) -> None:
        """The socket's end. Who was leaving and has not heard so may have been cut off."""
        self.over = True
        self.fleet.selector.unregister(self.socket)
        self.fleet.clients.remove(self)
        self.socket.close()
        if how == BROKEN:
            promise(self.fleet.expect_end, self.name, "is cut off by the broker")
            self.ended(BROKEN)
