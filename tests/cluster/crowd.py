"""Clients of a cluster: publishers and consumers in one thread, whose connections come and go.

Whoever loses its connection, hears nothing for PATIENCE_S, or is told to go, connects again: to the
node that it belongs to, or, if it belongs to none, to any other.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Sequence
from random import Random
from typing import Final

from cluster.book import Book
from durability.clients import CHANNEL
from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, ContentMethod, Deliveries, MethodFrame
from sluicemq.amqp.method import Method
from sluicemq.client.address import Address
from sluicemq.client.session import BrokerError, ClientSession, CloseFinished, Opened

READ_BYTES: Final = 1 << 18
PATIENCE_S: Final = 5.0
RETRY_S: Final = (0.05, 0.3)
POLL_S: Final = 0.01


class Crowd:
    """All clients of one run; `places` are the nodes' hosts and ports."""

    def __init__(self, places: Sequence[tuple[str, int]], book: Book, dice: Random) -> None:
        self.places = list(places)
        self.book = book
        self.dice = dice
        self.selector = selectors.DefaultSelector()
        self.clients: list[Client] = []
        self.refusals: list[str] = []
        """What brokers have said when they closed a channel or a connection."""

    def serve(self, seconds: float = POLL_S) -> None:
        """One look at the sockets, waiting at most so long; then everyone acts."""
        for key, mask in self.selector.select(seconds):
            client: Client = key.data
            if mask & selectors.EVENT_READ and client.socket is not None:
                client.read()
        now = self.book.clock()
        for client in list(self.clients):
            client.live(now)

    def leave(self) -> None:
        """All connections are dropped, and none made again."""
        for client in list(self.clients):
            client.leave()


class Client:
    """Somebody who is connected to a node most of the time. `home` is the node it belongs to, by
    its place in `places`; None: any."""

    def __init__(self, crowd: Crowd, name: str, home: int | None) -> None:
        self.crowd = crowd
        self.book = crowd.book
        self.dice = crowd.dice
        self.name = name
        self.home = home
        self.place = self.dice.randrange(len(crowd.places)) if home is None else home
        self.lives = 0
        self.session: ClientSession | None = None
        self.socket: socket.socket | None = None
        self.out = bytearray()
        self.is_open = False
        self.is_blocked = False
        self.since = 0.0
        """When it began to connect, and then when it asked for what has not been answered yet."""
        self.retry_at = 0.0
        crowd.clients.append(self)

    def __repr__(self) -> str:
        return f"{self.name}, connection {self.lives}"

    # -- what it does

    def opened(self) -> None:
        """The channel is open."""

    def act(self, now: float) -> None:
        """Called again and again while the channel is open."""

    def on_method(self, method: Method) -> None:
        """A method without content."""

    def on_acks(self, tags: list[int]) -> None:
        """A run of basic.ack."""

    def on_delivery(self, tag: int, redelivered: bool, content: bytes) -> None:
        """One message for its consumer."""

    def on_content(self, method: Method, content: bytes) -> None:
        """basic.get-ok or basic.return."""

    def gone(self) -> None:
        """The connection is over."""

    # -- connections

    def send(self, method: Method) -> None:
        assert self.session is not None
        self.session.send(CHANNEL, method)

    def live(self, now: float) -> None:
        """Connect, act, write, or give up waiting."""
        if self.socket is None:
            if now >= self.retry_at:
                self.connect(now)
            return
        if self.is_open:
            self.act(now)
        if self.since and now - self.since > PATIENCE_S:
            self.drop()
            return
        self.write()

    def connect(self, now: float) -> None:
        """Begin to; whoever belongs nowhere leaves the node that it was at alone."""
        places = self.crowd.places
        if self.home is None and len(places) > 1:
            others = [place for place in range(len(places)) if place != self.place]
            self.place = self.dice.choice(others)
        host, port = places[self.place]
        self.lives += 1
        self.since = now
        self.out.clear()
        self.session = ClientSession(Address(host, port), self.name, heartbeat_s=0)
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex((host, port))
        self.crowd.selector.register(self.socket, selectors.EVENT_READ, self)

    def write(self) -> None:
        """As much as the socket takes."""
        if self.socket is None or self.session is None:
            return
        self.out += self.session.data_to_send()
        if self.out:
            try:
                sent = self.socket.send(self.out)
            except OSError:
                return  # not connected yet, or over, which reading says
            del self.out[:sent]

    def read(self) -> None:
        """What the socket has, and its end."""
        assert self.socket is not None
        assert self.session is not None
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop()
            return
        self.session.receive_data(data)
        try:
            while self.socket is not None and (event := self.session.next_event()) is not None:
                self.hear(event)
        except BrokerError as refused:
            self.crowd.refusals.append(f"{self}: {refused}")
            self.write()
            self.drop()

    def hear(self, event: object) -> None:
        """One event of the codec's."""
        assert self.session is not None
        if isinstance(event, Deliveries):
            for tag, content in zip(event.tags, event.contents, strict=True):
                self.on_delivery(tag, event.redelivered, content)
        elif isinstance(event, Acks):
            self.on_acks(event.tags)
        elif isinstance(event, ContentMethod):
            self.on_content(event.method, event.content)
        elif isinstance(event, Opened):
            self.session.open_channel(CHANNEL)
        elif isinstance(event, CloseFinished):
            self.drop()
        elif isinstance(event, MethodFrame):
            self.hear_method(event.method)

    def hear_method(self, method: Method) -> None:
        if isinstance(method, m.ConnectionBlocked):
            self.is_blocked = True
        elif isinstance(method, m.ConnectionUnblocked):
            self.is_blocked = False
        elif isinstance(method, m.ChannelOpenOk):
            self.is_open, self.is_blocked, self.since = True, False, 0.0
            self.opened()
        else:
            self.on_method(method)

    def drop(self) -> None:
        """Let go of the connection without a word; another one is made soon."""
        if self.socket is None:
            return
        self.crowd.selector.unregister(self.socket)
        self.socket.close()
        self.socket = None
        self.is_open = False
        self.retry_at = self.book.clock() + self.dice.uniform(*RETRY_S)
        self.gone()

    def leave(self) -> None:
        """Never to come back."""
        self.drop()
        self.crowd.clients.remove(self)
