"""Bytes in, events out: AMQP's framing and the order of frames, for either side of a connection.

    connection.receive_data(data)
    while (event := connection.next_event()) is not None:
        ...

Nothing is parsed before it is asked for, so an owner that stops asking stops the work. Bytes that
break the framing or the order of frames raise `ConnectionViolation` once; the owner tells the peer,
and from then on only connection.close and connection.close-ok come through.

The pieces of a frame that is split over reads are kept in `_pieces` and joined once; whole frames
are parsed where they are. A large body frame is not put together: its pieces go to its content as
they come. So every octet is copied a fixed number of times, however the stream is cut, and those of
a large body that comes in large reads once, when its content is whole.
Contents of different channels may be mixed: each channel has its own `UnfinishedContent`.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from typing import Final

from sluicemq.amqp import violations
from sluicemq.amqp.decoding import METHOD_ARGS, METHOD_IDS, decode_method, last_words
from sluicemq.amqp.events import (
    Acks,
    ContentDue,
    ContentMethod,
    ContentTooLarge,
    Deliveries,
    Event,
    Heartbeat,
    MethodFrame,
    MixedKeyPublishes,
    ProtocolHeader,
    Publishes,
)
from sluicemq.amqp.frames import (
    BODY,
    END,
    FRAME,
    HEADER,
    HEARTBEAT,
    METHOD,
    OVERHEAD,
)
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import BasicAck, BasicDeliver, BasicPublish
from sluicemq.amqp.pieces import Pieces, Reads
from sluicemq.amqp.properties import check_properties
from sluicemq.amqp.room import RoomStock
from sluicemq.amqp.runs import (
    ACK_SIZE,
    SAME_SIZE_MIN,
    DeliverStencil,
    PublishStencil,
    cut_acks,
    cut_contents,
    cut_mixed_keys,
    read_publish,
)
from sluicemq.amqp.types import Malformed
from sluicemq.amqp.unfinished import FRAME_HEAD_SIZE, FrameInPieces, UnfinishedContent
from sluicemq.errors import ConnectionViolation
from sluicemq.limits import (
    MESSAGE_SIZE_MAX_BYTES,
    MIXED_KEY_METHODS_MAX,
    RUN_MESSAGES_MAX,
    RUN_METHODS_MAX,
    UNTUNED_FRAME_MAX_BYTES,
)

SERVER: Final = 0
CLIENT: Final = 1

# What the connection is ready for.
GREETING: Final = 0
FRAMES: Final = 1
CLOSING: Final = 2
"""The state in which only connection.close and connection.close-ok are heeded."""
DEAF: Final = 3
"""The state in which nothing is read any more, for nobody knows where the next frame begins."""

PROTOCOL_NAME: Final = b"AMQP"
PROTOCOL_HEADER_SIZE: Final = 8
TAG_SIZE: Final = 8
CONTENT_HEADER: Final = struct.Struct(">HHQ")
PUBLISH: Final = 60 << 16 | 40
DELIVER: Final = 60 << 16 | 60
ACK: Final = 60 << 16 | 80
CHANNEL_OPEN: Final = 20 << 16 | 10
CHANNEL_OPEN_OK: Final = 20 << 16 | 11


CONTENT_DUE: Final = ContentDue()

LARGE_BYTES: Final = 32 << 10
"""From so many octets on a message that is incomplete is cheaper to take in pieces than to be read
again when it is complete."""

ROOM_BYTES: Final = 128 << 10
"""From so many octets on that are still to come of a content a read of their own costs less than to
copy them."""


class AmqpConnection:
    """One side of a connection. Room for large contents comes from `stock`, if one is given. The
    owner may set:

    frame_max         after tuning; 0: no limit but max_message_size
    max_message_size  announced bodies above this give ContentTooLarge
    run_max           contents in one Publishes or Deliveries
    open_channels     if given, methods of channels not in it come as MethodFrame, with no content
    fast              False: frame by frame always (the events say the same, in more pieces)
    large_bytes       body frames of so many octets, and messages, are taken in pieces as they come
    room_bytes        for so many octets of a content that are still to come there is `room`
    wants_content     False: ContentDue comes, again and again, in place of the first publish or
                      part of a content; what is behind it waits.
    """

    def __init__(self, role: int, stock: RoomStock | None = None) -> None:
        self.role = role
        self.stock = stock
        self.frame_max = UNTUNED_FRAME_MAX_BYTES
        self.max_message_size = MESSAGE_SIZE_MAX_BYTES
        self.run_max = RUN_MESSAGES_MAX
        self.open_channels: Container[int] | None = None
        self.fast = True
        self.large_bytes = LARGE_BYTES
        self.room_bytes = ROOM_BYTES
        self.wants_content = True
        self._state = GREETING
        self._buf = b""
        self._pos = 0
        self._need = 1
        self._pieces = Pieces()
        self._reads = Reads()
        self._offset = 0
        self._contents: dict[int, UnfinishedContent] = {}
        self._content_bytes = 0
        self._frame_begun: FrameInPieces | None = None
        self._largest = 0
        self._ignored: dict[int, None] = {}
        # Keys are raw method frames; in a client, frames without their delivery tag. A frame that
        # was seen only once has no stencil yet: where each message has a key of its own, there is
        # never one.
        self._methods: dict[bytes, BasicPublish] = {}
        self._publishes: dict[bytes, PublishStencil] = {}
        self._delivers: dict[bytes, DeliverStencil] = {}
        # Peers repeat themselves: the last run of publishes, and the beginning of the last
        # acknowledgement, each with its channel. Empty where that may be out of order now.
        self._last_publish: tuple[PublishStencil, int] | None = None
        self._last_ack: tuple[bytes, int] | None = None

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the socket; `next_event` turns them into events."""
        is_next = self._pos == len(self._buf) and not (self._reads.size or self._pieces.size)
        if data and self._state != DEAF and is_next:
            self._buf, self._pos = data, 0  # as `_fill` would do
        elif data and self._state != DEAF:
            self._reads.add(data)

    def room(self) -> memoryview | None:
        """Return where the next octets from the socket may be read to, in place of `receive_data`;
        `filled` has to be called then, before anything else. None: no large content is being read,
        or more waits to be parsed."""
        frame = self._frame_begun
        if frame is None or frame.content is None or not (frame.due and self.wants_content):
            return None
        if self._pos < len(self._buf) or self._reads.size:
            return None
        content = frame.content
        if self.stock is None:
            self.stock = RoomStock(0)
        room = content.room(frame, self.room_bytes, self._largest, self.stock)
        self._count(content)
        return room

    def filled(self, count: int) -> None:
        """Take the octets, `count`, that were read into the `room`."""
        frame = self._frame_begun
        assert frame is not None, "octets were read into no room"
        assert frame.content is not None, "octets were read for nobody"
        self.receive_data(frame.content.filled(frame, count))

    @property
    def held_bytes(self) -> int:
        """Return how many bytes of the peer's stream are in memory: unparsed ones, with the rest of
        the piece they came in, and incomplete contents."""
        return self._content_bytes + self._reads.size + self._pieces.size + len(self._buf)

    @property
    def content_bytes(self) -> int:
        """Return how many of the `held_bytes` belong to incomplete contents."""
        return self._content_bytes

    def close(self) -> None:
        """Drop all unparsed and all further bytes: the socket is closed."""
        self.ignore_all()
        self._deafen()

    def next_event(self) -> Event | None:
        """Return the next event, or None when more data is needed. Raises ProtocolViolation when
        the peer's bytes are not AMQP."""
        while True:
            begun = self._frame_begun
            is_whole = begun is not None and not begun.due
            if self._pos == len(self._buf) and not is_whole and not self._fill():
                return None
            try:
                event = self._again() or self._parse() if begun is None else self._go_on(begun)
            except ConnectionViolation:
                self.ignore_all()
                raise
            if event is not None:
                return event
            if begun is None and not self._fill():
                return None

    def ignore_content(self, channel: int) -> None:
        """Swallow contents and their methods on a channel that the owner closes, until it is opened
        again. Other methods come as before."""
        self._last_publish = self._last_ack = None
        self._forget_content(channel)
        self._ignored[channel] = None

    def ignore_all(self) -> None:
        """Let only connection.close and close-ok through: the owner closes the connection."""
        if self._state != DEAF:
            self._state = CLOSING
        self._contents.clear()
        self._content_bytes = 0
        if self._frame_begun is not None:
            self._frame_begun.content = None
        self._last_publish = self._last_ack = None
        self._methods.clear()
        self._publishes.clear()
        self._delivers.clear()

    # -- the buffer

    def _fill(self) -> bool:
        """Have at least `_need` octets at `_pos`. Returns False when they have not come yet."""
        reads, pieces = self._reads, self._pieces
        if self._pos < len(self._buf):
            pieces.add(self._buf, self._pos, len(self._buf))
        self._buf = b""
        self._pos = 0
        if not pieces.size and reads.size:
            self._buf = reads.take()
            self._pos = self._offset
            self._offset = 0
            return True
        while reads.size and pieces.size < self._need:
            read = reads.next()
            end = min(len(read), self._offset + self._need - pieces.size)
            pieces.add(read, self._offset, end)
            self._offset = end
            if end == len(read):
                reads.take()
                self._offset = 0
        if not pieces.size or pieces.size < self._need:
            return False
        self._buf = pieces.joined()
        pieces.clear()
        return True

    def _deafen(self) -> None:
        """Drop everything, now and later."""
        self._state = DEAF
        self._buf = b""
        self._pos = 0
        self._offset = 0
        self._frame_begun = None
        self._pieces.clear()
        self._reads.clear()

    # -- frames

    def _again(self) -> Event | None:
        """Return the event of a run like the last one; None when it differs, or is incomplete."""
        buf, pos = self._buf, self._pos
        if self._last_publish is not None and self.wants_content:
            stencil, channel = self._last_publish
            if stencil.knows(buf, pos, min(self._payload_max(), self.max_message_size)):
                event = self._cut_publishes(channel, stencil, pos, True)
                if event is None:
                    self._pos = pos
                return event
        if self._last_ack is not None and buf[pos : pos + METHOD_ARGS] == self._last_ack[0]:
            return self._cut_acks(self._last_ack[1], pos)
        return None

    def _parse(self) -> Event | None:
        """Return the next event in the buffer, or None when it has fewer than `_need` octets."""
        if self._state == GREETING:
            greeting = self._greeting()
            if greeting is not None or self._state == GREETING:
                return greeting
        payload_max = self._payload_max()
        while self._state != DEAF:
            pos = self._pos
            have = len(self._buf) - pos
            if have < FRAME_HEAD_SIZE:
                self._need = FRAME_HEAD_SIZE
                return None
            kind, channel, size = FRAME.unpack_from(self._buf, pos)
            if size > payload_max and (size > self.frame_max or not self.frame_max):
                self._break_off(violations.frame_too_large(kind, size, payload_max))
                return None
            if not self.wants_content and self._state == FRAMES:
                if kind == METHOD and have < min(METHOD_ARGS, size + OVERHEAD):
                    self._need = min(METHOD_ARGS, size + OVERHEAD)
                    return None
                if self._is_content(kind, channel, pos, size):
                    return CONTENT_DUE
            if have < size + OVERHEAD:
                content = self._contents.get(channel) if kind == BODY else None
                if content is not None and size >= self.large_bytes and self._state == FRAMES:
                    begun = self._frame_begun = content.begin_frame(channel, size, self.frame_max)
                    if begun is not None:
                        self._last_publish = self._last_ack = None
                        return self._go_on(begun)
                self._need = size + OVERHEAD
                return None
            event = self._frame(kind, channel, pos, pos + size + OVERHEAD)
            if event is not None or self._pos == pos:
                return event
        return None

    def _go_on(self, frame: FrameInPieces) -> Event | None:
        """Take what has come of the body frame that comes in pieces. Returns the event of its
        content if that is whole then."""
        content = frame.content
        if content is not None and not self.wants_content:
            return CONTENT_DUE
        if frame.due:
            pos = self._pos
            end = self._pos = min(len(self._buf), pos + frame.due)
            frame.due -= end - pos
            if content is not None:
                content.frames.add(self._buf, pos, end)
                self._count(content)
            if frame.due:
                return None
            if self._buf[end - 1] != END:
                self._frame_begun = None
                self._break_off(violations.invalid_end(BODY, frame.payload(), self._buf[end - 1]))
                return None
        self._frame_begun = None
        if content is None or content.left:
            return None
        return self._complete(frame.channel, content)

    def _is_content(self, kind: int, channel: int, pos: int, size: int) -> bool:
        """Tell whether the frame at `pos`, of which there may be no more than its head, is a
        publish or part of a content, and not swallowed."""
        content = self._contents.get(channel)
        begun = content is not None and not content.swallowed
        if kind != METHOD:
            return begun and kind in (HEADER, BODY)
        if begun or size < METHOD_IDS.size or channel == 0 or channel in self._ignored:
            return False
        known = self.open_channels is None or channel in self.open_channels
        key: int = METHOD_IDS.unpack_from(self._buf, pos + FRAME_HEAD_SIZE)[0]
        return known and key == PUBLISH

    def _payload_max(self) -> int:
        """Return the largest payload of a frame. Without frame_max a frame must still fit into
        memory. Some clients forget the octets around the payload: RabbitMQ forgives as much, and so
        does this, though it splits such a body again."""
        return self.frame_max - OVERHEAD if self.frame_max else self.max_message_size

    def _greeting(self) -> Event | None:
        """Read the protocol header, which is the first thing that a server receives, and that a
        client receives when it is refused."""
        have = len(self._buf) - self._pos
        wanted = PROTOCOL_NAME if self.role == SERVER else PROTOCOL_NAME[:1]
        if have < len(wanted):
            self._need = len(wanted)
            return None
        if not self._buf.startswith(wanted, self._pos):
            self._state = FRAMES
            if self.role == CLIENT:
                return None
            data = self._buf[self._pos : self._pos + len(wanted)]
            self._deafen()
            return ProtocolHeader(data)
        if have < PROTOCOL_HEADER_SIZE:
            self._need = PROTOCOL_HEADER_SIZE
            return None
        data = self._buf[self._pos : self._pos + PROTOCOL_HEADER_SIZE]
        self._pos += PROTOCOL_HEADER_SIZE
        self._state = FRAMES
        if self.role == CLIENT:
            self._deafen()
        return ProtocolHeader(data)

    def _break_off(self, error: ConnectionViolation) -> None:
        """Drop the stream, which cannot be followed any further, and raise `error` unless the
        connection is closing already."""
        closing = self._state == CLOSING
        self._deafen()
        if not closing:
            raise error

    def _frame(self, kind: int, channel: int, pos: int, end: int) -> Event | None:
        """Return the event of the whole frame at `pos`; None if it is part of something larger."""
        buf = self._buf
        self._pos = end
        if buf[end - 1] != END:
            payload = buf[pos + FRAME_HEAD_SIZE : end - 1]
            self._break_off(violations.invalid_end(kind, payload, buf[end - 1]))
            return None
        if self._state == CLOSING:
            return last_words(buf, kind, channel, pos, end)
        size = end - pos - OVERHEAD
        if kind == METHOD and size >= METHOD_IDS.size:
            return self._method(channel, pos, end)
        if kind == BODY or (kind == HEADER and size >= CONTENT_HEADER.size):
            if channel == 0:
                raise violations.unexpected_frame(kind, buf[pos + FRAME_HEAD_SIZE : end - 1])
            if kind == BODY:
                return self._body(channel, pos, end)
            return self._header(channel, pos, end)
        if kind == HEARTBEAT and size == 0:
            if channel:
                raise violations.unexpected_frame(kind, b"")
            return Heartbeat()
        raise violations.unknown_frame(kind, buf[pos + FRAME_HEAD_SIZE : end - 1])

    # -- methods

    def _method(self, channel: int, pos: int, end: int) -> Event | None:
        content = self._contents.get(channel)
        if content is not None:
            if not content.swallowed:
                expected = (
                    violations.body_expected if content.header else violations.header_expected
                )
                raise expected(content.method)
            self._forget_content(channel)
        key: int = METHOD_IDS.unpack_from(self._buf, pos + FRAME_HEAD_SIZE)[0]
        if channel == 0 or (self.open_channels is not None and channel not in self.open_channels):
            self._ignored.pop(channel, None)
            return MethodFrame(channel, decode_method(self._buf, key, pos, end), self._buf[pos:end])
        if channel in self._ignored:
            return self._method_of_closed(key, channel, pos, end)
        if key == PUBLISH and self.role == SERVER:
            return self._publish(channel, pos, end)
        if key == ACK:
            return self._ack(channel, pos, end)
        if key == DELIVER and self.role == CLIENT:
            return self._deliver(channel, pos, end)
        method = decode_method(self._buf, key, pos, end)
        raw = self._buf[pos:end]
        if method.has_content:
            self._begin_content(channel, method, raw)
            return None
        return MethodFrame(channel, method, raw)

    def _method_of_closed(self, key: int, channel: int, pos: int, end: int) -> Event | None:
        """Return the event of a method on a channel whose contents are ignored."""
        method = decode_method(self._buf, key, pos, end)
        if method.has_content:
            return None
        if key in (CHANNEL_OPEN, CHANNEL_OPEN_OK):
            self._ignored.pop(channel, None)
        return MethodFrame(channel, method, self._buf[pos:end])

    def _publish(self, channel: int, pos: int, end: int) -> Event | None:
        raw = self._buf[pos:end]
        stencil = self._publishes.get(raw)
        if stencil is None:
            known = self._methods.get(raw)
            if known is None:
                known = self._new_method(raw, pos, end)
                event = self._publish_once(channel, raw, known, end)
                if event is not None:
                    return event
            stencil = PublishStencil(raw, known)
            if len(self._publishes) >= RUN_METHODS_MAX:
                self._publishes.clear()
            self._publishes[raw] = stencil
        if self.fast:
            self._pos = pos
            event = self._cut_publishes(channel, stencil, pos)
            if event is not None:
                self._last_publish = stencil, channel
            if event is not None or self._pos == pos:
                return event
        self._begin_content(channel, stencil.method, raw)
        return None

    def _cut_publishes(
        self, channel: int, stencil: PublishStencil, pos: int, is_known: bool = False
    ) -> Event | None:
        """Return the run at `pos`, which begins with the method frame of `stencil`. Returns None
        when its first message is incomplete, and `_need` says when to look again; or when that
        message is large besides, or unusual, and then `_pos` is behind its method frame."""
        payload_max = self._payload_max()
        body_max = min(payload_max, self.max_message_size)
        contents, done, same_size = stencil.cut(
            self._buf, pos, self.run_max, payload_max, body_max, is_known
        )
        raw = stencil.raw
        if not contents:
            if done and done < self.large_bytes:
                self._wait_at(pos, done)
            else:
                self._pos = pos + len(raw)
            return None
        self._pos = done
        count = len(contents)
        same_properties = same_size and (count == 1 or not stencil.varying)
        if same_properties and count < SAME_SIZE_MIN and done < len(self._buf):
            return self._mixed_keys(channel, raw, stencil.method, contents)
        size = done - pos - count * len(raw)
        return Publishes(channel, raw, stencil.method, contents, size, same_properties, same_size)

    def _new_method(self, raw: bytes, pos: int, end: int) -> BasicPublish:
        """Return the method in a frame that was never seen before, and keep it."""
        method = read_publish(raw)
        if method is None:
            decoded = decode_method(self._buf, PUBLISH, pos, end)
            assert isinstance(decoded, BasicPublish)
            method = decoded
        if len(self._methods) >= MIXED_KEY_METHODS_MAX:
            self._methods.clear()
        self._methods[raw] = method
        return method

    def _publish_once(
        self, channel: int, raw: bytes, method: BasicPublish, end: int
    ) -> Event | None:
        """Return the message behind a method frame that was never seen before. Returns None when
        more of a run may follow, or the message is incomplete."""
        if not self.fast:
            return None
        payload_max = self._payload_max()
        body_max = min(payload_max, self.max_message_size)
        contents, done = cut_contents(self._buf, end, raw, 1, payload_max, body_max)
        if not contents or self._buf.startswith(raw, done):
            return None
        self._pos = done
        return self._mixed_keys(channel, raw, method, contents)

    def _mixed_keys(
        self, channel: int, raw: bytes, method: BasicPublish, contents: list[bytes]
    ) -> Event:
        """Join a short run with the following messages that differ only in their routing keys."""
        methods = self._methods
        if len(methods) >= MIXED_KEY_METHODS_MAX:
            methods.clear()
        count = len(contents)
        raws, found, more, self._pos = cut_mixed_keys(
            self._buf, self._pos, contents[-1], methods, self.run_max - count
        )
        if not raws:
            return Publishes(channel, raw, method, contents, count * len(contents[0]), True, True)
        return MixedKeyPublishes(
            channel, [raw] * count + raws, [method] * count + found, contents + more
        )

    def _deliver(self, channel: int, pos: int, end: int) -> Event | None:
        raw = self._buf[pos:end]
        if self.fast:
            tag_at = METHOD_ARGS + 1 + raw[METHOD_ARGS]
            constant = raw[:tag_at] + raw[tag_at + TAG_SIZE :]
            stencil = self._delivers.get(constant)
            if stencil is None:
                decoded = decode_method(self._buf, DELIVER, pos, end)
                assert isinstance(decoded, BasicDeliver)
                stencil = DeliverStencil(raw, tag_at, decoded)
                if len(self._delivers) >= RUN_METHODS_MAX:
                    self._delivers.clear()
                self._delivers[constant] = stencil
            payload_max = self._payload_max()
            body_max = min(payload_max, self.max_message_size)
            tags, contents, done = stencil.cut(self._buf, pos, self.run_max, payload_max, body_max)
            if tags:
                self._pos = done
                messages = b"" if contents else memoryview(self._buf)[pos:done]
                return Deliveries(channel, stencil.method, tags, contents, messages, stencil.size)
            if done:
                self._wait_at(pos, done)
                return None
        self._begin_content(channel, decode_method(self._buf, DELIVER, pos, end), raw)
        return None

    def _wait_at(self, pos: int, need: int) -> None:
        """Look again at `pos` when `need` octets are there: a message that is good so far is
        cheaper to cut when it is complete."""
        self._pos = pos
        self._need = need

    def _ack(self, channel: int, pos: int, end: int) -> Event:
        if self.fast and end - pos == ACK_SIZE:
            event = self._cut_acks(channel, pos)
            if event is not None:
                self._last_ack = self._buf[pos : pos + METHOD_ARGS], channel
                return event
        method = decode_method(self._buf, ACK, pos, end)
        assert isinstance(method, BasicAck)
        if method.multiple:
            return MethodFrame(channel, method, self._buf[pos:end])
        return Acks(channel, [method.delivery_tag])

    def _cut_acks(self, channel: int, pos: int) -> Event | None:
        """Return the run of basic.ack at `pos`; None when the first one is multiple or
        incomplete."""
        tags = cut_acks(self._buf, pos)
        if not tags:
            return None
        self._pos = pos + len(tags) * ACK_SIZE
        return Acks(channel, tags)

    # -- contents

    def _begin_content(self, channel: int, method: Method, raw: bytes) -> None:
        """Begin the content of a method that was read."""
        self._last_publish = self._last_ack = None
        content = self._contents[channel] = UnfinishedContent(method, raw)
        self._count(content)

    def _count(self, content: UnfinishedContent) -> None:
        """Add to `_content_bytes` how much `content` has grown since the last call."""
        size = content.size()
        self._content_bytes += size - content.held_bytes
        content.held_bytes = size

    def _forget_content(self, channel: int) -> None:
        """Drop the incomplete content of a channel, if there is one."""
        content = self._contents.pop(channel, None)
        if content is not None:
            self._content_bytes -= content.held_bytes
            begun = self._frame_begun
            if begun is not None and begun.content is content:
                begun.content = None

    def _header(self, channel: int, pos: int, end: int) -> Event | None:
        content = self._contents.get(channel)
        if content is None:
            if channel in self._ignored:
                return None
            raise violations.method_expected()
        if content.swallowed:
            return None
        method = content.method
        if content.header:
            raise violations.body_expected(method)
        buf = self._buf
        class_id, weight, size = CONTENT_HEADER.unpack_from(buf, pos + FRAME_HEAD_SIZE)
        if weight:
            raise violations.header_expected(method)
        if class_id != method.class_id:
            raise violations.other_header_expected(method, class_id)
        properties = pos + FRAME_HEAD_SIZE + CONTENT_HEADER.size
        try:
            check_properties(buf, properties, end - 1)
        except Malformed as error:
            raw = buf[properties : end - 1]
            raise violations.cannot_decode(raw, class_id, method.method_id) from error
        if size > self.max_message_size:
            content.swallowed = True
            return ContentTooLarge(channel, size, method)
        content.header = buf[pos:end]
        content.left = size
        self._count(content)
        return self._complete(channel, content) if size == 0 else None

    def _body(self, channel: int, pos: int, end: int) -> Event | None:
        content = self._contents.get(channel)
        if content is None:
            if channel in self._ignored:
                return None
            raise violations.method_expected()
        if content.swallowed:
            return None
        if not content.header:
            raise violations.header_expected(content.method)
        size = end - pos - OVERHEAD
        if size > content.left:
            raise violations.body_too_long(content.method, size, content.left)
        content.add(self._buf, pos, end, self.frame_max)
        self._count(content)
        return self._complete(channel, content) if content.left == 0 else None

    def _complete(self, channel: int, content: UnfinishedContent) -> Event:
        """Return the event of a content whose last body frame has come, and forget its parts."""
        self._forget_content(channel)
        raw = content.whole(channel, self.frame_max)
        self._largest = max(self._largest, len(raw))
        method = content.method
        if isinstance(method, BasicPublish) and self.role == SERVER:
            return Publishes(channel, content.raw_method, method, [raw], len(raw), True, True)
        if isinstance(method, BasicDeliver) and self.role == CLIENT:
            return Deliveries(channel, method, [method.delivery_tag], [raw])
        return ContentMethod(channel, method, raw)
