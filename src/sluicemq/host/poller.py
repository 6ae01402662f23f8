"""One epoll for all sockets, at which the event loop looks while it waits for anything.

A transport of asyncio costs several calls of Python functions for each read and write
(docs/decisions/0033-sockets-of-our-own.md). Here everything from the system's word that a socket
has something up to the actors' inboxes, and their round behind it, is compiled code.
"""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from sluicemq.compiling import mypyc_attr
from sluicemq.host.loop import BrokerLoop

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

EVENTS_MIN: Final = 40
"""The most in a look after one that had fewer: for so few events the system call needs no large
piece of memory."""

READ: Final = os.read
WRITE: Final = os.write
"""What a socket does by its descriptor costs half of what its methods do, which first find out how
long it may wait and what the arguments are. Constants are found at once."""

NS_PER_S: Final = 1_000_000_000

NEVER_NS: Final = 1 << 62
"""A time that never comes."""

PIECES_MAX: Final = 512
"""The most pieces that one system call writes: half of what Linux permits."""

LITTLE_BYTES: Final = 2048
"""What comes of a socket that brings less than this goes into memory of its own at once..."""
LITTLE_READS: Final = 4
"""... when it did so this many times in a row; else into the buffer of all, and then copied."""
TINY_BYTES: Final = 256
"""What brings less than this, as acknowledgements do, gets memory of this size, which Python keeps
ready."""

HIGH_WATER_BYTES: Final = 1 << 20
"""Of more bytes that wait to be taken by the system, a socket is full..."""
LOW_WATER_BYTES: Final = 1 << 18
"""... until only so many are left."""


class SocketPoller:
    """The open sockets by descriptor. A BrokerLoop waits by it; any other event loop watches its
    epoll while there are sockets, and has it `look`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, buffer: memoryview, moderation: Moderation
    ) -> None:
        self.loop = loop
        self.buffer = buffer
        """What all sockets are read into; its size is the most that one read takes."""
        self.moderation = moderation
        """Says when to look again."""
        self.epoll = select.epoll()
        self.links = select.epoll()
        """The same without the sockets of clients, for looks at the others alone."""
        self.events_max = EVENTS_MIN
        """The most events that the next look asks for."""
        self.sockets: list[PolledSocket | None] = []
        """Those that are watched, each in the place of its descriptor."""
        self.count = 0
        """How many these are."""
        self.watched: dict[int, Callable[[], object]] = {}
        """What to call when another descriptor is readable."""
        self.is_called = False
        """True when the event loop has something to do that it did not know of when it began to
        wait."""
        self.is_asked = False
        """True when one of the event loop's own descriptors has something."""
        self.wait_ends_ns = NEVER_NS
        """When the event loop has something to do anyway."""
        self.is_looking = False
        self.is_busy = False
        """True while there is something else to do: nobody is to wait for the sockets then."""
        self.looked: Callable[[], None] = nothing
        """Called at the end of each look."""
        self.is_attached = isinstance(loop, BrokerLoop) and loop.attach(self)
        """True when the event loop waits by this poller."""

    def add(self, polled: PolledSocket) -> None:
        """Watch a socket from now on."""
        if not (self.count or self.is_attached):
            self.loop.add_reader(self.epoll.fileno(), self.look)
        number = polled.descriptor
        if number >= len(self.sockets):
            self.sockets += [None] * (number + 1 - len(self.sockets))
        self.sockets[number] = polled
        self.count += 1

    def remove(self, polled: PolledSocket) -> None:
        """Watch a socket no longer: it is about to be closed."""
        number = polled.descriptor
        if self.socket_at(number) is not polled:
            return
        self.sockets[number] = None
        self.count -= 1
        if not (self.count or self.is_attached):
            self.loop.remove_reader(self.epoll.fileno())

    def socket_at(self, descriptor: int) -> PolledSocket | None:
        """Return the watched socket with that descriptor; None when there is none."""
        return self.sockets[descriptor] if descriptor < len(self.sockets) else None

    # -- other descriptors

    def watch(self, descriptor: int, callback: Callable[[], object]) -> None:
        """Call `callback` in each look in which the descriptor is readable."""
        if descriptor not in self.watched:
            self.epoll.register(descriptor, READABLE)
            self.links.register(descriptor, READABLE)
        self.watched[descriptor] = callback

    def watch_no_more(self, descriptor: int) -> bool:
        """Watch that descriptor no longer. Returns whether it was watched."""
        if self.watched.pop(descriptor, None) is None:
            return False
        self.epoll.unregister(descriptor)
        self.links.unregister(descriptor)
        return True

    # -- the event loop's wait

    def leave(self) -> None:
        """Let the event loop wait by itself, or by another poller, because this one has no sockets
        any more."""
        if isinstance(self.loop, BrokerLoop) and self.is_attached:
            self.loop.detach(self)
            self.is_attached = False

    def wait(self, timeout_s: float) -> bool:
        """Look again and again, until the event loop has something to do: at the latest after that
        many seconds; a negative number is no limit, and 0 is one look. Returns True when one of its
        own descriptors has something."""
        self.is_called = self.is_asked = False
        self.wait_ends_ns = NEVER_NS
        if timeout_s > 0:
            self.wait_ends_ns = perf_counter_ns() + int(timeout_s * NS_PER_S)
        left_s = timeout_s
        while True:
            self.look_within(left_s)
            if self.is_asked or self.is_called or timeout_s == 0:
                return self.is_asked
            if self.wait_ends_ns != NEVER_NS:
                left_s = (self.wait_ends_ns - perf_counter_ns()) / NS_PER_S
                if left_s <= 0:
                    return False

    def end_wait(self) -> None:
        """Have the event loop look at its own descriptors, one of which has something."""
        self.is_asked = True

    def called_at(self, when_s: float) -> None:
        """Note that the event loop has something to do at that time of its clock."""
        when_ns = int(when_s * NS_PER_S)
        self.wait_ends_ns = min(self.wait_ends_ns, when_ns)

    # -- looks

    def look(self) -> None:
        """Handle every socket that has something, or takes something again."""
        self.look_within(0)

    def look_within(self, timeout_s: float) -> None:
        """Wait at most that long for a descriptor that has something, or without end if that is
        negative; then handle all that have. A look at links alone ends with the pause before it."""
        moderation = self.moderation
        epoll = self.epoll
        if moderation.is_for_links:
            epoll = self.links
            timeout_s = moderation.left_s(timeout_s)
        found = epoll.poll(timeout_s, self.events_max)
        is_due = moderation.begin(self.is_busy)
        if moderation.has_waited:
            found = epoll.poll(0, EVENTS_MAX)
        count = len(found)
        if count >= EVENTS_MIN:
            self.events_max = EVENTS_MAX
        elif self.events_max != EVENTS_MIN:
            self.events_max = EVENTS_MIN
        self.is_looking = True
        for descriptor, events in found:
            polled = self.socket_at(descriptor)
            if polled is None:
                self.call(descriptor)
            elif is_due:
                if polled.epoch != moderation.epoch:
                    polled.epoch = moderation.epoch
                    moderation.sockets += 1
                try:
                    polled.handle(events)
                except Exception as error:
                    self.report(polled, error)
        self.is_looking = False
        if is_due:
            try:
                self.looked()
            except Exception as error:
                self.report(None, error)

    def call(self, descriptor: int) -> None:
        """Do what is to be done when that descriptor is readable. If nobody waits for it, another
        one's events have closed it, and it is not to be told again: a hang-up would be, for ever,
        while some other process has the socket, too."""
        callback = self.watched.get(descriptor)
        if callback is None:
            for epoll in (self.epoll, self.links):
                with suppress(OSError):
                    epoll.unregister(descriptor)
            return
        try:
            callback()
        except Exception as error:
            self.report(None, error)

    def report(self, polled: PolledSocket | None, error: Exception) -> None:
        """Leave a fault in a look to the event loop's exception handler, with the socket whose
        events were handled as the `protocol`."""
        context = {"message": "a socket's event", "exception": error, "protocol": polled}
        self.loop.call_exception_handler(context)


def nothing() -> None:
    """Do nothing: nobody is interested in looks."""


def watch_in(epoll: select.epoll, descriptor: int, events: int, before: int) -> None:
    """Have a descriptor watched for other events than before; 0 is none."""
    if not events:
        epoll.unregister(descriptor)
    elif before:
        epoll.modify(descriptor, events)
    else:
        epoll.register(descriptor, events)


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
        self.is_link = False
        """True for a link to another node, which has looks that clients do not have."""
        self.epoch = 0
        """The last epoch of the moderation in which it had something."""
        self.little_reads = 0
        """How often in a row it has brought little; it is not counted on without end."""
        self.brought = 0
        """How many bytes it has brought last."""
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
        poller = self.poller
        watch_in(poller.epoll, self.descriptor, events, before)
        if self.is_link:
            watch_in(poller.links, self.descriptor, events, before)

    def become_link(self) -> None:
        """Note that this is a link to another node."""
        if not self.is_link:
            self.is_link = True
            if self.events:
                self.poller.links.register(self.descriptor, self.events)

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
                if self.little_reads >= LITTLE_READS:
                    room = TINY_BYTES if self.brought < TINY_BYTES else LITTLE_BYTES
                    data = READ(self.descriptor, room)
                    size = len(data)
                    more = size == room
                else:
                    size = self.plain.recv_into(buffer)
                    data = bytes(buffer[:size])
                    more = size == len(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.lose(error)
                return
            if not size:
                self.close()
                return
            self.brought = size
            poller.moderation.reads += 1
            poller.moderation.read_bytes += size
            if size >= LITTLE_BYTES:
                self.little_reads = 0
            elif self.little_reads < LITTLE_READS:
                self.little_reads += 1
            self.received(data)
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
                sent = WRITE(self.descriptor, data)
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
