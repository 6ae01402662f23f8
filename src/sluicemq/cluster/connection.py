"""One of the two connections of a link, from its socket's bytes to messages and back.

Incoming messages are handed to the link as far as it wants them and the turn allows; until all are
handed over, no more is read. Outgoing messages wait in the outbox and are written at the end of a
turn, as much as the socket takes: nothing here waits for anything but the socket itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.cluster.cluster_port import GOODBYE, PeerMessage
from sluicemq.cluster.frame import BrokenFrame, FrameDecoder
from sluicemq.cluster.handshake import (
    AcceptorHandshake,
    DialerHandshake,
    HandshakeRefused,
    PeerHandshake,
    RefusedByPeer,
)
from sluicemq.cluster.outbox import LinkOutbox
from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.socket_messages import Closed, Connected, Received, Writable
from sluicemq.limits import (
    LINK_HANDSHAKE_BYTES,
    LINK_LINGER_MS,
    LINK_SETUP_NS,
)
from sluicemq.text import cut

if TYPE_CHECKING:
    from sluicemq.cluster.cluster_port import PeerConnection
    from sluicemq.cluster.connection_port import ConnectionKeeper, ConnectionWorld
    from sluicemq.cluster.introduction import Introduction
    from sluicemq.kernel.address import ActorAddress

BYTES_A_UNIT: Final = 1000
"""Bytes of a message that are a unit of work."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkPort:
    """The link, as its connections see it."""

    is_over: bool
    """True once the link has ended: incoming messages are of no use any more."""

    @property
    def ends(self) -> tuple[ActorAddress, ActorAddress]:
        """Return the addresses of this node and the other one, with their lives."""
        raise NotImplementedError

    def wants(self, connection: LinkConnection) -> bool:
        """Tell whether the next message of this connection may be handed over."""
        raise NotImplementedError

    def heard(self) -> None:
        """Note that something has come from the other node."""
        raise NotImplementedError

    def took(self, connection: LinkConnection, message: PeerMessage) -> None:
        """Handle a message that came. Raises BrokenFrame."""
        raise NotImplementedError

    def fill(self, connection: LinkConnection) -> None:
        """Put gathered frames in the connection's outbox, which is about to be written."""
        raise NotImplementedError

    def drained(self) -> None:
        """Note that waiting bytes were written."""
        raise NotImplementedError

    def lost(self, connection: LinkConnection, reason: str) -> None:
        """Note that a connection has ended, for that reason."""
        raise NotImplementedError

    def broken(self, sentence: str) -> None:
        """End the link because of malformed bytes; the sentence describes them."""
        raise NotImplementedError


class LinkConnection(Actor):
    """A connection to another node, owner and writer of its socket. `address` is the other side's,
    for users. A fault in it ends its link, not the node."""

    is_vital = False
    shares_room = False

    def __init__(
        self,
        outside: ConnectionWorld,
        keeper: ConnectionKeeper[LinkConnection],
        handshake: PeerHandshake,
        address: str,
    ) -> None:
        super().__init__(outside.scheduler)
        world = self.world = outside.world
        self.write_bytes = outside.bounds.write_bytes
        self.keeper = keeper
        self.handshake = handshake
        self.address = address
        self.number = 0
        """The socket's number; 0: there is none yet."""
        self.link: LinkPort | None = None
        self.kind: PeerConnection | None = None
        """Its kind of the two; None: the other side has not proven it yet."""
        self.outbox = LinkOutbox()
        self.is_choked = isinstance(handshake, DialerHandshake)
        """True while the socket takes nothing: it is full, or not connected."""
        self.is_ending = False
        """True once incoming messages are ignored, and only waiting ones are written."""
        self.is_closed = False
        """True when the socket was told to close, or has."""
        self.until_ns = world.clock.now_ns() + LINK_SETUP_NS
        """When it has to be part of a link, or, while ending, closed at the latest."""
        self._closed_reason: str | None = None
        """Why the socket has closed; None: it has not."""
        self._decoder: FrameDecoder | None = None
        self._was_introduced = False

    @property
    def writer(self) -> Actor:
        """Return the writer of the socket, which is the connection itself."""
        return self

    @property
    def has_frames(self) -> bool:
        """Tell whether the handshake is over, so that frames may be sent."""
        return self._decoder is not None

    # -- incoming

    def receive(self, message: object) -> None:
        if isinstance(message, Received):
            if not self.is_ending:
                self._received(message.data)
        elif isinstance(message, Writable):
            self.is_choked = False
        elif isinstance(message, Connected):
            self.is_choked = False
            if isinstance(self.handshake, DialerHandshake) and not self.is_ending:
                self.outbox.put_raw(self.handshake.begin())
        elif isinstance(message, Closed):
            self.is_closed = True
            self._closed_reason = message.reason
        else:
            raise AssertionError(f"a connection of a link got {message!r}")

    def _received(self, data: bytes) -> None:
        if self.link is not None:
            self.link.heard()
        if self._decoder is not None:
            self._decoder.receive(data)
            return
        try:
            answer = self.handshake.receive(data)
        except HandshakeRefused as refusal:
            self.refuse(str(refusal))
        except RefusedByPeer as refusal:
            self._fail(f'it has refused this node: "{refusal}"')
        else:
            if answer:
                self.outbox.put_raw(answer)
            if self.handshake.other is not None and not self._was_introduced:
                self._was_introduced = True
                if self.handshake.is_over:
                    self._begin_frames()
                self.keeper.introduced(self, self.handshake.other)

    def accept(self, own: Introduction) -> None:
        """Let in the other side, which has introduced itself, and introduce this node."""
        assert isinstance(self.handshake, AcceptorHandshake)
        self.outbox.put_raw(self.handshake.accept(own))
        self._begin_frames()

    def _begin_frames(self) -> None:
        other = self.handshake.other
        assert other is not None, "frames before the handshake is over"
        self.kind = other.connection
        self._decoder = FrameDecoder(other.connection, self.handshake.version)
        self._decoder.receive(self.handshake.rest)

    def turn_ended(self) -> None:
        if not self.is_ending and self._decoder is not None:
            self._hand_over(self._decoder)
        if self._closed_reason is not None:
            if self.is_ending or not self.scheduled:
                self._gone(self._closed_reason)
            return
        self._write()
        if self.is_ending and not self.is_closed and self.outbox.is_empty:
            self._close()

    def _hand_over(self, decoder: FrameDecoder) -> None:
        """Hand complete messages to the link, as far as it wants them and the turn allows: at least
        one."""
        link = self.link
        scheduler = self.scheduler
        while link is not None and not link.is_over and link.wants(self):
            try:
                message = decoder.next()
                if message is None:
                    break
                link.took(self, message)
            except BrokenFrame as broken:
                link.broken(str(broken))
                return
            self.spend(5 + len(message.payload) // BYTES_A_UNIT)
            if scheduler.work <= 0:
                self.schedule()
                return
        else:
            return
        self.world.net.taken(self.number, False)

    # -- outgoing

    def send(self, message: PeerMessage) -> None:
        """Queue a message; it is written at the end of the next turn."""
        assert not self.is_ending, "a connection that ends was given a message"
        self.outbox.put(message)
        self.schedule()

    def _write(self) -> None:
        """Write as much as a turn may, if the socket takes anything."""
        if self.is_choked or self.is_closed:
            return
        if self.link is not None and not self.is_ending:
            self.link.fill(self)
        if not self.outbox.is_empty:
            pieces = self.outbox.take(self.write_bytes)
            self.is_choked = not self.world.net.write_pieces(self.number, pieces)
            if self.link is not None and not self.is_ending:
                self.link.drained()
            if not self.outbox.is_empty and not self.is_choked:
                self.schedule()

    # -- the end

    def end(self, sentence: str = "") -> None:
        """Take in nothing more, drop waiting messages and send the sentence, if it can be sent;
        then close."""
        if self.is_ending:
            return
        says = bool(sentence) and not self.outbox.is_cut and not self.is_choked
        self.outbox.clear()
        self.leave(sentence if says else "")

    def leave(self, sentence: str) -> None:
        """Take in nothing more, write waiting messages and then the sentence, if there is one; then
        close, after a while in any case."""
        if self.is_ending:
            return
        self.is_ending = True
        self.until_ns = self.world.clock.now_ns() + LINK_LINGER_MS * 1_000_000
        if sentence:
            self._say_goodbye(sentence)
        self.schedule()

    def _say_goodbye(self, sentence: str) -> None:
        if self.link is not None and self.has_frames:
            raw = cut(sentence, LINK_HANDSHAKE_BYTES).encode()
            self.outbox.put(PeerMessage(GOODBYE, *self.link.ends, raw))
        elif isinstance(self.handshake, AcceptorHandshake):
            self.outbox.put_raw(self.handshake.refusal(sentence))

    def refuse(self, sentence: str) -> None:
        """Turn the other side away, before it is part of a link, and tell it why."""
        self.end(sentence)
        self._fail(sentence)

    def _fail(self, reason: str) -> None:
        """End the connection, for that reason."""
        self.end()
        if self.link is not None:
            self.link.lost(self, reason)
        else:
            self.keeper.failed(self, reason)

    def look(self, now_ns: int) -> None:
        """End the connection if its time is over; called every so often."""
        if now_ns < self.until_ns or self.is_closed:
            return
        if self.is_ending:
            self._close()
        elif self.link is None:
            self.refuse("it has not said in time who it is")

    def _close(self) -> None:
        self.is_closed = True
        self.world.net.close(self.number, LINK_LINGER_MS)

    def _gone(self, reason: str) -> None:
        """Finish: the socket has closed, and earlier messages were handed over as far as the link
        wanted them."""
        if not self.is_ending:
            self._fail(reason)
        self.keeper.gone(self)
        self.go_deaf()

    def faulted(self, error: Exception) -> None:
        self.outbox.clear()
        self._fail("a fault of this node's own")
