"""A connection of the load client; one worker process has hundreds of them.

One poller drives them all; there is no task or thread per connection. Writers check `is_full`
first, so at most one batch waits outside the kernel.
"""

from __future__ import annotations

import fcntl
import sys
import termios
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from sluicemq.client.poller import Poller
from sluicemq.client.resolved_address import ResolvedAddress
from sluicemq.client.session import BrokerError, CloseFinished, Opened, SessionEvent
from sluicemq.client.transport import Transport
from sluicemq.client.wire import CHANNEL
from sluicemq.lab.plan import NS

CONNECTING_MAX: Final = 64
"""The most connections that are opened at the same time: half of a usual listen backlog of 128."""

SETUP_TIMEOUT_NS: Final = 60 * NS
"""Nanoseconds within which all connections of a worker must be open."""


class LoadConnection(Transport):
    """One connection with one channel. Subclasses handle what comes in."""

    __slots__ = ("_closing", "is_ready")

    CHANNEL: Final = CHANNEL

    def __init__(self, resolved: ResolvedAddress, poller: Poller, name: str) -> None:
        self.is_ready = False
        """True when the broker has answered everything that is sent before the load begins."""
        self._closing = False
        super().__init__(resolved, poller, name)

    # For subclasses

    def on_opened(self, opened: Opened) -> None:
        """Open and set up the channel, now that the connection is open."""
        raise NotImplementedError

    def on_event(self, event: SessionEvent, now_ns: int) -> None:
        """Handle any other event of the connection."""
        raise NotImplementedError

    def on_input_end(self, now_ns: int) -> None:
        """Called when all events of one read have been handled."""

    def on_room(self) -> None:
        """Called when the socket takes bytes again."""

    # For the poller

    def on_readable(self) -> None:
        """Read once, handle all of it, and write the answers."""
        try:
            if not self.receive():
                return
        except BrokerError:
            if not self._closing:
                raise
            self.abandon()  # the peer went away, so the connection is over in any case
            return
        now_ns = self.received_ns
        while (event := self.next_event()) is not None:
            if isinstance(event, Opened):
                self.on_opened(event)
            elif isinstance(event, CloseFinished):
                self.abandon()
                return
            else:
                self.on_event(event, now_ns)
        if not self._closing:
            self.on_input_end(now_ns)
            self.flush()

    def on_writable(self) -> None:
        if not self._closing:
            self.on_room()

    def bytes_in_socket(self) -> int:
        """The number of bytes that were written and the peer's TCP has not acknowledged."""
        answer = fcntl.ioctl(self.fd, termios.TIOCOUTQ, bytes(4))
        return int.from_bytes(answer, sys.byteorder)

    def close(self) -> None:
        """Send connection.close; the socket is closed when the broker has answered."""
        self._closing = True
        self.session.close()
        self.flush()


ConnectionType = TypeVar("ConnectionType", bound=LoadConnection)


def open_all(
    poller: Poller, makers: Sequence[Callable[[], ConnectionType]]
) -> list[ConnectionType]:
    """Open all connections, a bounded number at a time; returns when every one is set up."""
    deadline_ns = time.monotonic_ns() + SETUP_TIMEOUT_NS
    waiting = list(reversed(makers))
    links: list[ConnectionType] = []
    opening: list[ConnectionType] = []
    while waiting or opening:
        while waiting and len(opening) < CONNECTING_MAX:
            opening.append(waiting.pop()())
            links.append(opening[-1])
        poller.poll(NS // 10)
        opening = [link for link in opening if not link.is_ready]
        if time.monotonic_ns() > deadline_ns:
            raise BrokerError(f"{len(opening)} connections were not open in time")
    return links
