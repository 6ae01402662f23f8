"""A load connection: a non-blocking socket with its client session, and the loop over many of them.

One worker process drives hundreds of these from one epoll; there is no task or thread per
connection. What the broker does not take stays in `unsent` and the link is not writable: whoever
has something to write asks `writable` first, so at most one batch waits outside the kernel.
"""

from __future__ import annotations

import fcntl
import select
import socket
import ssl
import sys
import termios
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from sluicemq.amqp.frames import HEARTBEAT_FRAME
from sluicemq.client.session import BrokerError, ClientSession, CloseFinished, Opened
from sluicemq.client.tls import TlsStream
from sluicemq.lab.plan import NS
from sluicemq.lab.target import Target

RECEIVE_BYTES: Final = 65_536
"""Below the allocator's threshold for mapping fresh pages on each read."""

CONNECTING_MAX: Final = 64
"""Connections opened at the same time: half of a usual listen backlog of 128."""

SETUP_TIMEOUT_NS: Final = 60 * NS
"""All connections of a worker must be open by then."""

SILENT_HEARTBEATS_MAX: Final = 3
"""A broker that sent nothing for so many heartbeat intervals is gone."""


class Link:
    """One connection with one channel. Subclasses handle what comes in."""

    __slots__ = (
        "_closing",
        "_heartbeat_ns",
        "_last_received_ns",
        "_last_sent_ns",
        "_poller",
        "fd",
        "is_full",
        "is_ready",
        "session",
        "socket",
        "tls",
        "unsent",
    )

    CHANNEL: Final = 1

    def __init__(self, target: Target, poller: Poller, name: str) -> None:
        self.session = ClientSession(target.address, name)
        self.is_ready = False
        self.unsent = b""
        self.is_full = False
        """It is called when the socket has room, and writes nothing new before."""
        self._closing = False
        self._poller = poller
        self._heartbeat_ns = 0
        self._last_sent_ns = self._last_received_ns = time.monotonic_ns()
        self.socket = socket.socket(target.family, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fd = self.socket.fileno()
        self.tls: TlsStream | None = None
        if target.context is not None:
            address = target.address
            self.tls = TlsStream(target.context, address.server_name or address.host)
        self.socket.connect_ex(target.socket_address)  # its outcome shows when writable
        poller.add(self)

    # For subclasses

    def on_opened(self, opened: Opened) -> None:
        """The connection is open: open the channel, set it up."""
        raise NotImplementedError

    def on_event(self, event: object, now_ns: int) -> None:
        """Anything else that came in."""
        raise NotImplementedError

    def on_input_end(self, now_ns: int) -> None:
        """All events of one read were given."""

    def on_writable(self) -> None:
        """The socket takes bytes again."""

    # For the poller

    def receive(self) -> None:
        """The socket has something to read."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise BrokerError(f"the connection to the broker was lost: {error}") from error
        now_ns = time.monotonic_ns()
        self._last_received_ns = now_ns
        session = self.session
        if data and self.tls is not None:
            said = self.decrypt(data)
        else:
            said = data
        if said:
            session.receive_data(said)
        while (event := session.next_event()) is not None:
            if isinstance(event, CloseFinished):
                self.abandon()
                return
            if isinstance(event, Opened):
                self._heartbeat_ns = event.heartbeat_s * NS
                self.on_opened(event)
            else:
                self.on_event(event, now_ns)
        if self._closing:
            if not data:
                self.abandon()
            return
        if not data:
            raise BrokerError("the broker closed the socket")
        self.on_input_end(now_ns)
        self.flush()

    def decrypt(self, data: bytes) -> bytes:
        """What TLS makes of it; its own answers are written."""
        assert self.tls is not None
        try:
            said = self.tls.receive(data)
        except ssl.SSLError as error:
            raise BrokerError(f"no TLS with the broker: {error}") from error
        if answer := self.tls.to_write():
            self.write(answer)
        return said

    def flush(self) -> None:
        """Write what the session has to say."""
        data = self.session.data_to_send()
        if data:
            self.transmit(data)

    def transmit(self, data: bytes) -> None:
        """Say something; what does not fit into the socket now goes later."""
        if self.tls is not None:
            data = self.tls.send(data)
        if data:
            self.write(data)

    def write(self, data: bytes) -> None:
        """To the socket."""
        if self.unsent:
            self.unsent += data
            return
        self._last_sent_ns = time.monotonic_ns()
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise BrokerError(f"the connection to the broker was lost: {error}") from error
        if sent < len(data):
            self.unsent = data[sent:]
            self.await_room()

    def bytes_in_socket(self) -> int:
        """What was written and the peer has not acknowledged."""
        answer = fcntl.ioctl(self.fd, termios.TIOCOUTQ, bytes(4))
        return int.from_bytes(answer, sys.byteorder)

    def await_room(self) -> None:
        """`on_writable` is called when the socket has room in the kernel's judgement. `send` takes
        more than that: what is appended to a segment that has not gone yet is never refused."""
        if not self.is_full:
            self.is_full = True
            self._poller.want_writable(self, True)

    def resume(self) -> None:
        """The socket is writable: write on."""
        self.is_full = False
        data = self.unsent
        self.unsent = b""
        if data:
            self.write(data)
        if not self.is_full:
            self._poller.want_writable(self, False)
            self.flush()
            if not self._closing:
                self.on_writable()

    def keep_alive(self, now_ns: int) -> None:
        """Called every second or so: heartbeats, both ways."""
        if self._heartbeat_ns:
            if not self.unsent and now_ns - self._last_sent_ns > self._heartbeat_ns // 2:
                self.transmit(HEARTBEAT_FRAME)
            silent_ns = now_ns - self._last_received_ns
            if silent_ns > SILENT_HEARTBEATS_MAX * self._heartbeat_ns:
                raise BrokerError(f"the broker was silent for {silent_ns // NS} s")

    def close(self) -> None:
        """Say goodbye; the socket is closed when the broker has answered."""
        self._closing = True
        self.session.close()
        self.flush()

    def abandon(self) -> None:
        """Close the socket without ceremony."""
        self._poller.remove(self)
        self.socket.close()


class Poller:
    """Which links have something to do."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._links: dict[int, Link] = {}
        self._wake_fds: set[int] = set()

    def add(self, link: Link) -> None:
        """Watch a link; first for being connected."""
        self._links[link.fd] = link
        self._epoll.register(link.fd, select.EPOLLIN | select.EPOLLOUT)

    def remove(self, link: Link) -> None:
        """Watch it no longer."""
        if self._links.pop(link.fd, None) is not None:
            self._epoll.unregister(link.fd)

    def watch(self, fd: int) -> None:
        """Also wake up when `fd` is readable."""
        self._wake_fds.add(fd)
        self._epoll.register(fd, select.EPOLLIN)

    def want_writable(self, link: Link, wanted: bool) -> None:
        """Whether to call the link when its socket is writable."""
        events = select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN
        self._epoll.modify(link.fd, events)

    def poll(self, timeout_ns: int) -> bool:
        """Wait, at most so long; let every link that can do something do it.

        True: one of the watched other descriptors is readable. epoll alone counts in whole
        milliseconds; `select` on its descriptor waits more finely.
        """
        ready = self._epoll.poll(0)
        if not ready and timeout_ns > 0:
            select.select((self._epoll,), (), (), timeout_ns / NS)
            ready = self._epoll.poll(0)
        woken = False
        links = self._links
        for fd, events in ready:
            link = links.get(fd)
            if link is None:
                woken |= fd in self._wake_fds
                continue
            if events & select.EPOLLOUT:
                link.resume()
            if events & ~select.EPOLLOUT:
                link.receive()
        return woken

    @property
    def has_links(self) -> bool:
        """Whether any is still open."""
        return bool(self._links)

    def close(self) -> None:
        """Close everything."""
        for link in list(self._links.values()):
            link.abandon()
        self._epoll.close()


LinkType = TypeVar("LinkType", bound=Link)


def open_all(poller: Poller, makers: Sequence[Callable[[], LinkType]]) -> list[LinkType]:
    """Open all links, not too many at the same time; returns when every one is set up."""
    deadline_ns = time.monotonic_ns() + SETUP_TIMEOUT_NS
    waiting = list(reversed(makers))
    links: list[LinkType] = []
    opening: list[LinkType] = []
    while waiting or opening:
        while waiting and len(opening) < CONNECTING_MAX:
            opening.append(waiting.pop()())
            links.append(opening[-1])
        poller.poll(NS // 10)
        opening = [link for link in opening if not link.is_ready]
        if time.monotonic_ns() > deadline_ns:
            raise BrokerError(f"{len(opening)} connections were not open in time")
    return links
