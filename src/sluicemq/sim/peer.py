"""A simulated client: a connection that speaks AMQP bytes, and the channels it runs.

It parses frames by itself, without the broker's codec, so that a mistake there is not made twice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.amqp.types import Table
from sluicemq.sim.records import BROKEN, ENDED_WELL, promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from random import Random

    from sluicemq.node import Node
    from sluicemq.sim.history import History
    from sluicemq.sim.net import SimNet, Socket
    from sluicemq.sim.plans import Target
    from sluicemq.sim.swarm import Swarm
    from sluicemq.sim.timeline import Timeline

HEAD: Final = struct.Struct(">BHI")
HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
FRAME_MAX: Final = 4096
CAPABILITIES: Final[Table] = {
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
    "basic.nack": True,
}


class Role:
    """What a client does on one channel. `number` is the channel's; it is set when it opens."""

    peer: SimPeer
    number: int
    started = False
    closing = False
    """close() was called: close-ok is awaited, even if a close from the broker crosses it."""
    over = False
    """The channel has ended, or its client ignores it from now on."""
    refusal_breaks = False
    """True when the methods sent after the cause are lost if the broker closes the channel."""

    def opened(self) -> None:
        """Called when channel.open-ok has come."""
        raise NotImplementedError

    def on_method(self, method: Method) -> None:
        """Called with each method that carries no content."""
        raise NotImplementedError

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        """Called with each method that carries content."""
        raise NotImplementedError

    def on_writable(self) -> None:
        """Called when the socket has room again."""

    def ended(self, how: str) -> None:
        """Called when the channel has ended: closed orderly, or broken."""
        raise NotImplementedError

    def closed(self) -> None:
        """Called when the broker has confirmed that the channel is closed: everything asked for
        before is done."""

    def may_be_refused(self, code: int) -> bool:
        """Tell whether the broker may close the channel with this reply code without anybody's
        mistake."""
        return False

    def is_refused(self, close: m.ChannelClose) -> bool:
        """Tell whether the broker may close the channel with this method without
        anybody's mistake.
        """
        return self.may_be_refused(close.reply_code)

    def heal(self) -> None:
        """Behave well from now on, and come to an end: there are no more faults."""

    def is_done(self) -> bool:
        """Tell whether nothing is left to wait for."""
        return self.over

    # -- tools

    def send(self, method: Method) -> None:
        self.peer.send(method.frame(self.number))

    def later(self, delay_ns: int, what: str, call: Callable[[], None]) -> None:
        """Call `call` after a delay, unless the channel has ended by then."""

        def unless_over(_: object) -> None:
            if not self.over:
                call()

        self.peer.work.timeline.after(delay_ns, self.peer.name, what, unless_over)

    def close(self) -> None:
        """Close the channel; it counts as ended well from now on, and later messages
        are ignored.
        """
        self.over = True
        self.closing = True
        self.ended(ENDED_WELL)
        self.send(m.ChannelClose(reply_code=200))


class PeerStage:
    """The surroundings of a connection, as the connection sees them."""

    timeline: Timeline
    net: SimNet
    stopping: bool
    storage_may_fail: bool

    def channel_closed(self, peer: SimPeer, channel: int, role: Role) -> None:
        """Called when a channel has ended and its connection has not."""
        raise NotImplementedError

    def gone(self, peer: SimPeer) -> None:
        """Called when a connection has ended, whichever side ended it."""
        raise NotImplementedError


class Stage(PeerStage):
    """A run, as its clients see it: its queues, their histories, its state. Publishers choose from
    `targets`; `left_behind` are the names of auto-delete queues that may be left at the end."""

    swarm: Swarm
    dice: Random
    book: History
    targets: tuple[Target, ...]
    left_behind: dict[str, None]
    peers: list[SimPeer]
    up: bool
    healing: bool

    @property
    def node(self) -> Node:
        """The node that was started last."""
        raise NotImplementedError

    def declaration(self, queue: str) -> Method:
        """Return the method that declares this queue of the plan."""
        raise NotImplementedError


class SimPeer:
    """One connection, from protocol header to end."""

    def __init__(self, work: PeerStage, name: str, roles: Sequence[Role]) -> None:
        self.work = work
        self.name = name
        self.roles = dict(enumerate(roles, 1))
        for number, role in self.roles.items():
            role.peer = self
            role.number = number
        self.buffer = bytearray()
        self.content: tuple[int, Method, bytes, int, bytearray] | None = None
        self.open = False
        self.over = False
        self.leaving = False
        self.closed = False
        """close-ok has arrived."""
        self.mistaken = False
        """The broker has made a mistake in this connection, and must close it."""
        self.sent_away = False
        """The operator has this connection closed."""
        self.blocked = False
        self.blocked_count = 0
        self.socket: Socket = work.net.enter(self)
        self.send(b"AMQP\x00\x00\x09\x01")

    def send(self, data: bytes) -> None:
        if not self.over:
            self.socket.send(data)

    # -- bytes and frames

    def receive(self, data: bytes) -> None:
        """Take bytes from the socket and handle the complete frames."""
        buffer = self.buffer
        buffer += data
        pos = 0
        while len(buffer) - pos >= 7 and not self.over:
            kind, channel, size = HEAD.unpack_from(buffer, pos)
            promise(size + 8 <= FRAME_MAX, self.name, "gets a frame of", size + 8)
            end = pos + 8 + size
            if len(buffer) < end:
                break
            promise(buffer[end - 1] == 0xCE, self.name, "gets a frame without its end")
            payload = bytes(buffer[pos + 7 : end - 1])
            pos = end
            self.frame(kind, channel, payload)
        del buffer[:pos]

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Handle one frame; the frames of a content follow one another."""
        if kind == 1:
            promise(self.content is None, self.name, "gets a method inside a content")
            ids = int.from_bytes(payload[:4])
            method = m.METHODS[ids].decode_args(payload, 4, len(payload))
            if method.has_content:
                self.content = (channel, method, b"", -1, bytearray())
            else:
                self.method(channel, method)
        elif kind in (2, 3):
            promise(self.content is not None, self.name, "gets a content without its method")
            assert self.content is not None
            self.part(kind, channel, payload, *self.content)
        else:
            promise(kind == 8 and not channel, self.name, "gets a frame of kind", kind)

    def part(
        self,
        kind: int,
        channel: int,
        payload: bytes,
        began_on: int,
        method: Method,
        properties: bytes,
        size: int,
        body: bytearray,
    ) -> None:
        """Handle the header or a body frame of the content that has begun."""
        promise(channel == began_on, self.name, "gets a content on two channels")
        promise((kind == 2) == (size < 0), self.name, "gets header and body in disorder")
        if kind == 2:
            properties, size = payload[12:], int.from_bytes(payload[4:12])
        else:
            body += payload
        promise(len(body) <= size, self.name, "gets a body longer than its header says")
        self.content = (channel, method, properties, size, body)
        if len(body) == size:
            self.content = None
            role = self.roles.get(channel)
            if role is not None and not role.over:
                role.on_content(method, properties, bytes(body))

    def method(self, channel: int, method: Method) -> None:
        """Handle a method without content: here if it closes something, otherwise in the channel's
        role."""
        if channel == 0:
            self.connection_method(method)
            return
        role = self.roles.get(channel)
        if isinstance(method, m.ChannelCloseOk):
            if role is not None:
                role.closed()
            self.channel_closed(channel)
        elif isinstance(method, m.ChannelClose):
            self.send(m.ChannelCloseOk().frame(channel))
            allowed = role is not None and (role.over or role.is_refused(method))
            failed = self.work.storage_may_fail and "storage has failed" in method.reply_text
            promise(allowed or failed, self.name, "is told", method)
            if role is not None and (role.refusal_breaks or not role.over):
                role.over = True  # perhaps before it has heard that it ended well
                role.ended(BROKEN if role.refusal_breaks else ENDED_WELL)
            if role is None or not role.closing:
                self.channel_closed(channel)
        elif role is None or role.over:
            return
        elif isinstance(method, m.ChannelOpenOk):
            role.started = True
            role.opened()
        else:
            role.on_method(method)

    def channel_closed(self, channel: int) -> None:
        """Free the channel's number; the client may start another role on it."""
        role = self.roles.pop(channel, None)
        if role is not None and not self.leaving:
            self.work.channel_closed(self, channel, role)

    def add(self, channel: int, role: Role) -> None:
        """Open a channel with another role on a free number."""
        role.peer = self
        role.number = channel
        self.roles[channel] = role
        role.send(m.ChannelOpen())

    # -- the connection's life

    def connection_method(self, method: Method) -> None:
        """Handle a method of channel 0, the connection's own."""
        if isinstance(method, m.ConnectionStart):
            properties: Table = {"capabilities": CAPABILITIES, "connection_name": self.name}
            response = b"\0guest\0guest"
            self.reply(m.ConnectionStartOk(properties, "PLAIN", response, "en_US"))
        elif isinstance(method, m.ConnectionTune):
            self.reply(m.ConnectionTuneOk(method.channel_max, FRAME_MAX, method.heartbeat))
            self.reply(m.ConnectionOpen("/"))
            if method.heartbeat:
                self.beat_after_ns = method.heartbeat * 400 * MS
                self.beat(None)
        elif isinstance(method, m.ConnectionOpenOk):
            self.open = True
            for role in self.roles.values():
                role.send(m.ChannelOpen())
        elif isinstance(method, m.ConnectionBlocked):
            promise(not self.blocked, self.name, "is blocked twice")
            self.blocked = True
            self.blocked_count += 1
        elif isinstance(method, m.ConnectionUnblocked):
            promise(self.blocked, self.name, "is unblocked without having been blocked")
            self.blocked = False
        elif isinstance(method, m.ConnectionCloseOk):
            promise(self.leaving, self.name, "hears close-ok unasked")
            self.closed = True
            for role in self.roles.values():
                role.closed()
        elif isinstance(method, m.ConnectionClose):
            stopped = (self.work.stopping or self.sent_away) and method.reply_code == 320
            failed = self.mistaken and method.reply_code == 541
            promise(stopped or failed, self.name, "is told", method)
            self.reply(m.ConnectionCloseOk())
            self.break_off(None)
        else:
            promise(False, self.name, "is told", method)

    def reply(self, method: Method) -> None:
        self.send(method.frame(0))

    def beat(self, _: object) -> None:
        """Send heartbeats, as a healthy client does."""
        if not self.over and not self.leaving:
            if self.socket.room() > 0:
                self.send(HEARTBEAT)
            self.work.timeline.after(self.beat_after_ns, self.name, "heartbeat", self.beat)

    def writable(self) -> None:
        for role in list(self.roles.values()):
            if role.started and not role.over:
                role.on_writable()

    def close(self) -> None:
        """Close orderly: everything sent before counts."""
        if self.leaving or self.over:
            return
        self.leaving = True
        if not self.open:
            self.break_off(None)
            return
        self.end_roles(ENDED_WELL)
        self.reply(m.ConnectionClose(reply_code=200))

    def break_off(self, kept_bytes: int | None) -> None:
        """Hang up at once; the last `kept_bytes` bytes that were sent still arrive (None: all)."""
        if not self.over:
            self.over = True
            self.end_roles(BROKEN)
            self.socket.leave(kept_bytes)
            self.work.gone(self)

    def cut_off(self) -> None:
        """End everything, because the node has ended."""
        if not self.over:
            self.over = True
            self.end_roles(BROKEN)
            self.work.gone(self)

    def fall_silent(self) -> None:
        """Stop reading and writing without notice, so that the heartbeat must detect it."""
        if not self.over:
            self.socket.stall()
            self.over = True
            self.end_roles(BROKEN)
            self.work.gone(self)

    def hung_up(self) -> None:
        """End everything, because the node has closed the socket."""
        expected = self.work.stopping or self.mistaken or self.sent_away
        if not self.over and expected and not self.closed:
            self.cut_off()
        elif not self.over:
            promise(self.leaving, self.name, "is cut off by the broker")
            self.over = True
            self.work.gone(self)

    def expect_close(self) -> None:
        """Expect the broker to close the connection after its own mistake; nothing else on it
        counts any more."""
        self.mistaken = True
        self.end_roles(BROKEN)

    def expect_order(self) -> None:
        """Expect the operator to have the connection closed: its unacknowledged messages may be
        requeued before this client is told."""
        self.sent_away = True
        self.end_roles(BROKEN)

    def end_roles(self, how: str) -> None:
        """End all roles. A role that wanted to end well may still break if the broker has not
        confirmed it."""
        for role in self.roles.values():
            if not role.over or how == BROKEN:
                role.over = True
                role.ended(how)
