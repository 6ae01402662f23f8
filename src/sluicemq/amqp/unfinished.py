"""Incomplete contents, as far as they have come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp.frames import BODY, END, FRAME, OVERHEAD, body_frames, frame_end
from sluicemq.amqp.pieces import PIECE_BYTES, Pieces
from sluicemq.amqp.room import Room

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method
    from sluicemq.amqp.room import RoomStock

FRAME_HEAD_SIZE: Final = 7
GROWTH: Final = 2
"""There is room for a content, larger than any before, of at most so many times what has come."""
CONTENT_BYTES: Final = 400
"""Bytes of RAM that an unfinished content takes beside its octets: the object, its places in
tables."""


class UnfinishedContent:
    """A content that is being put together. Large body frames are kept as received, and joined
    once. From the first small one on, the last excepted, only the `body` that they make is kept, so
    that many tiny ones cost no more memory than one large one."""

    __slots__ = (
        "body",
        "frames",
        "header",
        "held_bytes",
        "left",
        "method",
        "raw_method",
        "swallowed",
    )

    def __init__(self, method: Method, raw_method: bytes) -> None:
        self.method = method
        self.raw_method = raw_method
        self.header = b""
        self.frames: Pieces | Room = Pieces()
        """All octets of body frames so far, unless there is a `body`."""
        self.body = bytearray()
        self.left = 0
        """The octets of the body that belong to frames that have not begun yet."""
        self.swallowed = False
        self.held_bytes = 0
        """Bytes of the unfinished content that were counted."""

    def size(self) -> int:
        """Return the bytes it takes in memory, including the room that its body has to grow."""
        held = len(self.raw_method) + len(self.header) + self.frames.held_bytes
        return CONTENT_BYTES + held + self.body.__alloc__()

    def begin_frame(self, channel: int, size: int, frame_max: int) -> FrameInPieces | None:
        """Return the next body frame, with a payload of `size` octets, to be taken in pieces. None
        if it has to be whole: it is not allowed here, or a smaller one has come before it."""
        fits = size + OVERHEAD <= frame_max or not frame_max
        if not (fits and self.header and size <= self.left) or self.swallowed or self.body:
            return None
        self.left -= size
        return FrameInPieces(channel, size + OVERHEAD, self)

    def room(
        self, frame: FrameInPieces, rest_min: int, largest: int, stock: RoomStock
    ) -> memoryview | None:
        """Return where the octets may be read to that come next, from `stock`, if body frames
        follow that are as large as `frame`, which is being read. None: fewer than `rest_min` are
        still to come; or too few have come for as much memory, and the peer's `largest` content was
        smaller."""
        frames = self.frames
        if isinstance(frames, Pieces):
            more_frames = -(-self.left // (frame.size - OVERHEAD))
            rest = frame.due + self.left + OVERHEAD * more_frames
            come = len(self.header) + frames.size
            whole = come + rest
            if rest < rest_min or whole > max(largest, come * GROWTH):
                return None
            frames = self.frames = Room(self.header, frames, whole, stock)
        return frames.free() or None

    def filled(self, frame: FrameInPieces, count: int) -> bytes:
        """Take `count` octets that were read into the room. Returns those of them that have to be
        parsed: from a frame on, or its wrong end, that is not as expected."""
        room = self.frames
        assert isinstance(room, Room), "octets were read, but there is no room"
        room.filled(count)
        frame.due -= count
        while frame.due <= 0:
            end = room.end + frame.due
            if room.view[end - 1] != END:
                frame.due = 1
                return room.cut(end - 1)
            payload = min(frame.size - OVERHEAD, self.left)
            is_begun = payload > 0 and frame.due <= -FRAME_HEAD_SIZE
            head = (BODY, frame.channel, payload)
            if not is_begun or FRAME.unpack_from(room.view, end) != head:
                frame.due = 0
                return room.cut(end)
            self.left -= payload
            frame.size = payload + OVERHEAD
            frame.due += frame.size
        return b""

    def add(self, buf: bytes, pos: int, end: int, frame_max: int) -> None:
        """Add the body frame from `pos` to `end`, which is split again when it is larger than
        `frame_max` (0: no limit)."""
        self.left -= end - pos - OVERHEAD
        fits = end - pos <= frame_max or not frame_max
        if fits and not self.body and (end - pos >= PIECE_BYTES or not self.left):
            self.frames.add(buf, pos, end)
            return
        if self.frames.size:
            frames, at = self.frames.joined(), 0
            self.frames = Pieces()
            while at < len(frames):
                after = frame_end(frames, at)
                self.body += memoryview(frames)[at + FRAME_HEAD_SIZE : after - 1]
                at = after
        self.body += memoryview(buf)[pos + FRAME_HEAD_SIZE : end - 1]

    def whole(self, channel: int, frame_max: int) -> bytes:
        """Return the header frame and the body frames, split at `frame_max` if they were not kept
        as received."""
        if self.frames.size:
            return self.frames.joined(self.header)
        return b"".join([self.header, *body_frames(channel, self.body, frame_max)])


class FrameInPieces:
    """A large body frame of `size` octets that is being read, whose pieces go to its content as
    they come."""

    __slots__ = ("channel", "content", "due", "size")

    def __init__(self, channel: int, size: int, content: UnfinishedContent) -> None:
        self.channel = channel
        self.size = size
        self.due = size
        """Octets that are still to come."""
        self.content: UnfinishedContent | None = content
        """The content that it belongs to; None: nobody wants that any more."""

    def payload(self) -> bytes:
        """Return the payload of the whole frame; nothing when nobody wants it."""
        if self.content is None:
            return b""
        return self.content.frames.joined()[-self.size + FRAME_HEAD_SIZE : -1]
