"""One epoll for all sockets, which the event loop watches as a single descriptor.

A transport of asyncio or uvloop costs several calls of Python functions for each read and write
(docs/decisions/0033-sockets-of-our-own.md). Here the event loop says only that some socket has
something, and everything up to the actors' inboxes is compiled code.
"""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING, Final

from sluicemq.kernel.compiling import mypyc_attr

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from sluicemq.host.moderation import Moderation

READABLE: Final = 0x001
"""EPOLLIN; the end of the stream and errors of the socket come as readable, too."""
WRITABLE: Final = 0x004
"""EPOLLOUT."""

EVENTS_MAX: Final = 1024
"""The most sockets that are handled in one look; the others are in the next one."""

PIECES_MAX: Final = 512
"""The most pieces that one system call writes: half of what Linux permits."""

HIGH_WATER_BYTES: Final = 1 << 20
"""Of more bytes that wait to be taken by the system, a socket is full..."""
LOW_WATER_BYTES: Final = 1 << 18
"""... until only so many are left."""


class SocketPoller:
    """The open sockets by descriptor. While there are any, the event loop has it `look`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, buffer: memoryview, moderation: Moderation
    ) -> None:
        self.loop = loop
        self.buffer = buffer
        """What all sockets are read into; its size is the most that one read takes."""
        self.moderation = moderation
        """Says when to look again."""
        self.epoll = select.epoll()
        self.sockets: dict[int, PolledSocket] = {}
        self.is_looking = False
        self.is_busy = False
        """True while there is something else to do: nobody is to wait for the sockets then."""
        self.looked: Callable[[], None] = nothing
        """Called at the end of each look."""

    def add(self, polled: PolledSocket) -> None:
        """Watch a socket from now on."""
        if not self.sockets:
            self.loop.add_reader(self.epoll.fileno(), self.look)
        self.sockets[polled.descriptor] = polled

    def remove(self, polled: PolledSocket) -> None:
        """Watch a socket no longer: it is about to be closed."""
        if self.sockets.pop(polled.descriptor, None) is not None and not self.sockets:
            self.loop.remove_reader(self.epoll.fileno())

    def look(self) -> None:
        """Handle every socket that has something, or takes something again."""
        sockets = self.sockets
        moderation = self.moderation
        if not moderation.begin(self.is_busy):
            return
        epoch = moderation.epoch
        self.is_looking = True
        for descriptor, events in self.epoll.poll(0, EVENTS_MAX):
            found = sockets.get(descriptor)
            if found is None:
                continue  # another one's events have closed it
            if found.epoch != epoch:
                found.epoch = epoch
                moderation.sockets += 1
            try:
                found.handle(events)
            except Exception as error:
                self.report(found, error)
        self.is_looking = False
        self.looked()

    def report(self, polled: PolledSocket, error: Exception) -> None:
        """Leave a fault in handling a socket to the event loop's exception handler, with the socket
        as the `protocol`."""
        context = {"message": "a socket's event", "exception": error, "protocol": polled}
        self.loop.call_exception_handler(context)


def nothing() -> None:
    """Do nothing: nobody is interested in looks."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PolledSocket:
    """One connected socket: what it brings goes to `received`, and once, last, `lost` is called."""

    def __init__(self, poller: SocketPoller, plain: socket.socket) -> None:
        self.poller = poller
        self.plain = plain
        self.descriptor = plain.fileno()
        """The socket's descriptor; -1 once it is closed."""
        self.events = 0
        """What the socket is watched for."""
        self.epoch = 0
        """The last epoch of the moderation in which it had something."""
        self.unsent: list[bytes | memoryview] = []
        """What the system has not taken yet, in order."""
        self.unsent_bytes = 0
        self.full = False
        """True from the high-water mark of unsent bytes down to the low one."""
        self.is_closing = False
        """True when nothing more may be written; what is unsent may still leave."""
        self.is_ending = False
        """True when the peer is to hear the end of the stream behind what is unsent."""
        self.is_lost = False

    # -- what a subclass does

    def received(self, data: bytes) -> None:
        """Take bytes that have come, at least one."""
        raise NotImplementedError

    def has_room(self) -> None:
        """Note that the socket is not full any more."""
        raise NotImplementedError

    def lost(self, error: OSError | None) -> None:
        """Note that the socket is closed: in order, or by this error."""
        raise NotImplementedError

    # -- reading

    @property
    def is_reading(self) -> bool:
        """Tell whether the socket is read when it has something."""
        return self.events & READABLE != 0

    def pause_reading(self) -> None:
        """Leave what comes to the system, and so hold the peer up."""
        self.watch(self.events & ~READABLE)

    def resume_reading(self) -> None:
        """Read what comes; does nothing when the socket is being closed."""
        if not self.is_closing:
            self.watch(self.events | READABLE)

    def watch(self, events: int) -> None:
        """Have the socket watched for these events. With none the system must not even report the
        peer's end: it would do so in each look."""
        before = self.events
        if events == before:
            return
        self.events = events
        if not events:
            self.poller.epoll.unregister(self.descriptor)
        elif before:
            self.poller.epoll.modify(self.descriptor, events)
        else:
            self.poller.epoll.register(self.descriptor, events)

    def handle(self, events: int) -> None:
        """Read or write, as the system says that it can; an error shows when that is tried."""
        if self.events & READABLE and events & ~WRITABLE:
            self.read()
        if self.events & WRITABLE and events & ~READABLE:
            self.write_unsent()

    def read(self) -> None:
        """Read once; go on if there may be more and the socket is still to be read."""
        poller = self.poller
        more = True
        while more:
            buffer = poller.buffer
            try:
                size = self.plain.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.lose(error)
                return
            if not size:
                self.close()
                return
            poller.moderation.reads += 1
            poller.moderation.read_bytes += size
            more = size == len(buffer)
            self.received(bytes(buffer[:size]))
            more = more and self.events & READABLE != 0

    # -- writing

    def transmit(self, data: bytes) -> None:
        """Write bytes, now or when the system takes them; a socket that is being closed drops
        them."""
        if self.is_closing or self.is_ending or not data:
            return
        sent = 0
        if not self.unsent:
            try:
                sent = self.plain.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self.lose_soon(error)
                return
            if sent == len(data):
                return
        self.keep(memoryview(data)[sent:] if sent else data)

    def transmit_pieces(self, pieces: list[bytes]) -> None:
        """Write pieces as `transmit` does, many with one system call."""
        if self.is_closing or self.is_ending:
            return
        if not self.unsent:
            self.unsent.extend(pieces)
            self.unsent_bytes += sum(map(len, pieces))
            self.write_unsent()
            return
        for piece in pieces:
            self.keep(piece)

    def keep(self, data: bytes | memoryview) -> None:
        """Keep bytes until the system takes them."""
        self.unsent.append(data)
        self.unsent_bytes += len(data)
        self.wait_until_writable()

    def wait_until_writable(self) -> None:
        """Go on writing when the system takes bytes again."""
        self.watch(self.events | WRITABLE)
        if self.unsent_bytes > HIGH_WATER_BYTES:
            self.full = True

    def write_unsent(self) -> None:
        """Write as much as the system takes of what is unsent."""
        while self.unsent:
            some = self.unsent[:PIECES_MAX]
            try:
                sent = self.plain.sendmsg(some)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                self.lose_soon(error)
                return
            self.unsent_bytes -= sent
            self.drop_sent(sent)
        if self.unsent:
            self.wait_until_writable()
        else:
            self.all_sent()
        if self.full and self.unsent_bytes <= LOW_WATER_BYTES:
            self.full = False
            self.has_room()

    def drop_sent(self, sent: int) -> None:
        """Drop so many bytes from the beginning of what is unsent."""
        unsent = self.unsent
        done = 0
        while done < len(unsent) and len(unsent[done]) <= sent:
            sent -= len(unsent[done])
            done += 1
        del unsent[:done]
        if sent:
            unsent[0] = memoryview(unsent[0])[sent:]

    def all_sent(self) -> None:
        """Do what had to wait until the system has taken everything."""
        self.watch(self.events & ~WRITABLE)
        if self.is_closing:
            self.lose_soon(None)
        elif self.is_ending:
            self.end_stream()

    # -- the end

    def write_eof(self) -> None:
        """Have the peer hear the end of the stream behind everything that was written."""
        if not self.is_ending and not self.is_closing:
            self.is_ending = True
            if not self.unsent:
                self.end_stream()

    def end_stream(self) -> None:
        try:
            self.plain.shutdown(socket.SHUT_WR)
        except OSError as error:  # the peer has gone meanwhile
            self.lose_soon(error)

    def close(self) -> None:
        """Close the socket once everything is written; read no more."""
        if not self.is_closing:
            self.is_closing = True
            self.pause_reading()
            if not self.unsent:
                self.lose_soon(None)

    def abort(self) -> None:
        """Close the socket soon, and drop what is unsent."""
        self.lose_soon(None)

    def lose_soon(self, error: OSError | None) -> None:
        """Close the socket when the event loop has its next turn: in the middle of an actor's turn
        nobody has to be ready for the end."""
        self.is_closing = True
        self.unsent.clear()
        self.unsent_bytes = 0
        self.watch(0)
        self.poller.loop.call_soon(self.lose, error)

    def lose(self, error: OSError | None) -> None:
        """Close the socket now, and say so; only the first call counts."""
        if self.is_lost:
            return
        self.is_lost = self.is_closing = True
        self.unsent.clear()
        self.unsent_bytes = 0
        self.watch(0)
        self.poller.remove(self)
        self.plain.close()
        self.descriptor = -1
        self.lost(error)
