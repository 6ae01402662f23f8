"""Incomplete contents, as far as they have come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp.frames import OVERHEAD, body_frames

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method

FRAME_HEAD_SIZE: Final = 7
CONTENT_BYTES: Final = 400
"""Bytes of RAM that an unfinished content takes beside its octets: the object, its places in
tables."""
PIECE_BYTES: Final = 4096
"""From so many octets on a piece of a frame, or a frame of a body, is kept by itself: what an
object takes beside them is little then."""


class UnfinishedContent:
    """A content that is being put together. Large body frames are kept as received, and joined
    once. From the first small one on, the last excepted, only the `body` that they make is kept, so
    that many tiny ones cost no more memory than one large one."""

    __slots__ = (
        "body",
        "frames",
        "frames_bytes",
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
        self.frames: list[bytes] = []
        """All body frames so far, unless there is a `body`."""
        self.frames_bytes = 0
        self.body = bytearray()
        self.left = 0
        self.swallowed = False
        self.held_bytes = 0
        """Bytes of the unfinished content that were counted."""

    def size(self) -> int:
        """Return the bytes it takes in memory, including the room that its body has to grow."""
        held = len(self.raw_method) + len(self.header) + self.frames_bytes
        return CONTENT_BYTES + held + self.body.__alloc__()

    def add(self, buf: bytes, pos: int, end: int, frame_max: int) -> None:
        """Add the body frame from `pos` to `end`, which is split again when it is larger than
        `frame_max` (0: no limit)."""
        self.left -= end - pos - OVERHEAD
        fits = end - pos <= frame_max or not frame_max
        if fits and not self.body and (end - pos >= PIECE_BYTES or not self.left):
            self.frames.append(buf[pos:end])
            self.frames_bytes += end - pos
            return
        for frame in self.frames:
            self.body += memoryview(frame)[FRAME_HEAD_SIZE:-1]
        self.frames.clear()
        self.frames_bytes = 0
        self.body += memoryview(buf)[pos + FRAME_HEAD_SIZE : end - 1]

    def whole(self, channel: int, frame_max: int) -> bytes:
        """Return the header frame and the body frames, split at `frame_max` if they were not kept
        as received."""
        frames = self.frames or body_frames(channel, self.body, frame_max)
        return b"".join([self.header, *frames])
