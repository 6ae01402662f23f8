"""channel ---frames---> WRITER: one socket write a turn, and the brake on deliveries.

While the socket's buffer is over its mark, the writer gives it nothing more. Deliveries then wait
here up to the consumers' windows and no more, because channels are told `DeliveriesFlushed` only
after their frames have gone out. Answers that a peer causes without reading them (confirms,
replies) are bounded too: above WRITER_BACKLOG_BYTES the connection's reader stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.frames import joined
from sluicemq.chain.flow_actor import FlowActor
from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.actor import Actor, Scheduler, Share
from sluicemq.kernel.socket_messages import Writable
from sluicemq.kernel.world import Net
from sluicemq.limits import WRITE_BYTES, WRITER_BACKLOG_BYTES

if TYPE_CHECKING:
    from sluicemq.flow.gate import Gate


CHANNEL_0: Final = b"\0\0"
FAREWELLS: Final = (b"\0\x0a\0\x32", b"\0\x0a\0\x33")
"""The class and method octets of connection.close and close-ok."""
FRAMES_BYTES: Final = 150
"""Bytes of RAM that waiting frames take beside their octets."""


def ignore(_: int) -> None:
    """Ignore the change: a writer without a monitor is not counted."""


def nobody() -> None:
    """Do nothing when the connection has ended."""


@mypyc_attr(allow_interpreted_subclasses=True)
class WriterClient(FlowActor):
    """A channel, as the writer sees it. When `gone` is set it has ended, and the writer withholds
    nothing from it. `untold` is the cost of its deliveries that were handed to the socket since it
    was last told so."""

    gone: bool
    untold: int = 0


@mypyc_attr(free_list_len=1)
class Frames:
    """Bytes to write, in pieces as `joined` makes them. `cost` is what they take of delivery
    windows; `channel` is posted a `DeliveriesFlushed`."""

    __slots__ = ("channel", "cost", "pieces", "size")

    def __init__(
        self, pieces: list[bytes], channel: WriterClient | None = None, cost: int = 0
    ) -> None:
        self.pieces = pieces
        self.size = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
        self.channel = channel
        self.cost = cost

    def portions(self) -> list[Frames]:
        """Return the same bytes in portions that are one write each; the last one has the cost."""
        portions: list[Frames] = []
        pieces: list[bytes] = []
        size = 0
        for piece in self.pieces:
            if size >= WRITE_BYTES:
                portions.append(Frames(pieces))
                pieces, size = [], 0
            pieces.append(piece)
            size += len(piece)
        portions.append(Frames(pieces, self.channel, self.cost))
        return portions


class DeliveriesFlushed:
    """Posted to a channel: deliveries worth `cost` have been handed to the socket."""

    __slots__ = ("cost",)

    def __init__(self, cost: int) -> None:
        self.cost = cost


class HangUp:
    """Tells the writer to hand everything to the socket, then close it; the net gives up after
    `linger_ms` milliseconds."""

    __slots__ = ("linger_ms",)

    def __init__(self, linger_ms: int) -> None:
        self.linger_ms = linger_ms


class Writer(Actor):
    """The writing half of a connection. `backlog_gate` is a gate of the reader; `broken` closes the
    connection after a fault."""

    is_vital = False

    def __init__(
        self,
        scheduler: Scheduler,
        net: Net,
        connection: int,
        backlog_gate: Gate,
        backlog_bytes_max: int = WRITER_BACKLOG_BYTES,
        notify_cost: int = 1,
        share: Share | None = None,
        broken: Callable[[], None] | None = None,
        memory_used: Callable[[int], None] = ignore,
        written: Callable[[int], None] = ignore,
    ) -> None:
        super().__init__(scheduler, share)
        self.share = share
        self.broken = broken
        self.has_failed = False
        self.net = net
        self.connection = connection
        self.backlog_gate = backlog_gate
        self.backlog_bytes_max = backlog_bytes_max
        self.notify_cost = notify_cost
        self.memory_used = memory_used
        self.written = written
        """Hears what deliveries cost that have been handed to the socket."""
        self.pending: list[Frames] = []
        self.pending_bytes = 0
        self.unsent_bytes = 0
        """Bytes that the socket had not taken when it was last asked; 0 while it takes
        everything."""
        self.accounted = 0
        """The bytes of RAM that the writer was last accounted with."""
        self.choked = False
        self.closed = False
        self.hang_up: HangUp | None = None
        self.sent_bytes = 0
        self.sent_writes = 0

    def take(self, frames: Frames) -> None:
        """Take frames of a channel or the reader, which are written at the end of the next turn.
        They are in one share with the writer, so that turn comes soon: it is spared when nobody
        else of the share is before it, and so could add to the write."""
        if not (self.closed or (self.has_failed and not is_closing(frames.pieces[0]))):
            if self.is_next and frames.size < WRITE_BYTES:
                self.write_at_once(frames)
                return
            if frames.size < 2 * WRITE_BYTES:
                self.pending.append(frames)
            else:
                self.pending += frames.portions()
            self.pending_bytes += frames.size
            self.schedule()

    @property
    def is_next(self) -> bool:
        """Tell whether its next turn would be the next one of its share, with nothing in it but
        the frames that come now."""
        if self.share is None or self.share.members.first is not None:
            return False
        return not (self.scheduled or self.pending or self.choked or self.backlog_gate.is_shut)

    def write_at_once(self, frames: Frames) -> None:
        """Write frames in the turn of whoever has them; a fault in it is the writer's."""
        self.pending_bytes += frames.size
        try:
            self.write_lone(frames)
        except Exception as error:
            self.scheduler.contain(self, error)
        if self.choked:
            self.schedule()  # what waits in the socket has to be accounted for

    def receive(self, message: object) -> None:
        """Handle Writable from the net, and HangUp from the reader."""
        if isinstance(message, Writable):
            self.choked = False
        elif isinstance(message, HangUp):
            self.hang_up = message
        else:
            raise AssertionError(f"a writer got {message!r}")

    def turn_ended(self) -> None:
        """Write as much as the socket takes."""
        while self.pending and not (self.choked and self.hang_up is None):
            self.write_some()
        if self.pending_bytes > self.backlog_bytes_max:
            self.backlog_gate.shut()
        elif self.backlog_gate.is_shut and not self.choked:
            self.backlog_gate.open()
        if self.hang_up is not None and not self.closed:
            self.closed = True
            self.net.close(self.connection, self.hang_up.linger_ms)
        self.unsent_bytes = self.net.unsent_bytes(self.connection) if self.choked else 0
        self.account()

    def taken_bytes(self) -> int:
        """Return how many of all bytes sent the system has taken. It grows while the client reads,
        even when a single large write keeps the socket busy for long."""
        return self.sent_bytes - self.net.unsent_bytes(self.connection)

    def account(self) -> None:
        """Count the bytes that the client has not taken as memory in use."""
        held = self.pending_bytes + FRAMES_BYTES * len(self.pending) + self.unsent_bytes
        if held != self.accounted:
            change, self.accounted = held - self.accounted, held
            self.memory_used(change)

    def write_some(self) -> None:
        """Write at most about WRITE_BYTES at once. Then notify channels for which enough has been
        written to be worth a turn."""
        pending = self.pending
        if len(pending) == 1:
            frames = pending[0]
            pending.clear()
            self.write_lone(frames)
            return
        size = count = cost = 0
        while count < len(pending) and size < WRITE_BYTES:
            size += pending[count].size
            count += 1
        taken = pending[:count]
        del pending[:count]
        if count == 1:
            pieces = taken[0].pieces
        else:
            pieces = joined([piece for frames in taken for piece in frames.pieces])
        self.give(pieces, size)
        for frames in taken:
            if frames.channel is not None:
                frames.channel.untold += frames.cost
                cost += frames.cost
        if cost:
            self.written(cost)
            for frames in taken:
                if frames.channel is not None:
                    self.notify(frames.channel)

    def write_lone(self, frames: Frames) -> None:
        """Write frames behind which no others wait, as `write_some` does."""
        self.give(frames.pieces, frames.size)
        channel = frames.channel
        if channel is not None:
            channel.untold += frames.cost
            self.written(frames.cost)
            self.notify(channel)

    def give(self, pieces: list[bytes], size: int) -> None:
        """Hand pieces to the socket, together `size` bytes."""
        if len(pieces) == 1:
            self.choked = not self.net.write(self.connection, pieces[0])
        else:
            self.choked = not self.net.write_pieces(self.connection, pieces)
        self.pending_bytes -= size
        self.sent_bytes += size
        self.sent_writes += 1

    def notify(self, channel: WriterClient) -> None:
        """Tell the channel if enough has been written for it to be worth a turn, or it is gone."""
        cost = channel.untold
        if cost >= self.notify_cost or (cost and channel.gone):
            channel.untold = 0
            channel.post(DeliveriesFlushed(cost))

    def faulted(self, error: Exception) -> None:
        """Close the connection after a fault. The queued frames may have lost parts, so nothing of
        any channel is written any more, only the frames that end the connection."""
        self.has_failed = True
        if isinstance(self.faulted_message, Writable):
            self.choked = False  # it comes once
        self.forget()
        if self.broken is None:
            super().faulted(error)
        else:
            self.broken()

    def connection_lost(self) -> None:
        """Drop what waits to be written: the socket is gone."""
        self.closed = True
        self.choked = False
        self.unsent_bytes = 0
        self.forget()

    def release(self) -> None:
        """Drop every reference to the reader: the connection has ended."""
        self.broken = nobody

    def forget(self) -> None:
        """Drop everything that is to be written."""
        self.pending.clear()
        self.pending_bytes = 0
        self.account()


def is_closing(frame: bytes) -> bool:
    """Tell whether a frame is connection.close or close-ok. Others may refer to frames lost by a
    fault."""
    return frame[1:3] == CHANNEL_0 and frame[7:11] in FAREWELLS
