"""The bytes that wait to be written to one connection of a link, in order; heartbeats and grants,
which must never be late, go first.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sluicemq.amqp.frames import joined
from sluicemq.cluster.frame import encode_frames
from sluicemq.limits import LINK_MESSAGE_COST_BYTES, LINK_PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.cluster.cluster_port import FrameType, PeerMessage


class LinkOutbox:
    """Makes the frames of large messages one by one, as they are taken. `waiting_bytes` is the size
    of messages that are not completely taken."""

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self._raw: deque[bytes] = deque()
        self._first: dict[FrameType, PeerMessage] = {}
        self._messages: deque[PeerMessage] = deque()
        self._frames: Iterator[tuple[bytes, bytes]] | None = None
        """The remaining frames of the first message; None: none was taken yet."""
        self._frames_left = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing waits to be written."""
        return not (self._messages or self._raw or self._first)

    @property
    def is_cut(self) -> bool:
        """Tell whether some, but not all, frames of a message were taken."""
        return self._frames is not None

    @property
    def behind_first_bytes(self) -> int:
        """Return the size of the messages behind the first one, which may be large."""
        if not self._messages:
            return 0
        return self.waiting_bytes - LINK_MESSAGE_COST_BYTES - len(self._messages[0].payload)

    def put(self, message: PeerMessage) -> None:
        """Queue a message behind those that are there."""
        self._messages.append(message)
        self.waiting_bytes += LINK_MESSAGE_COST_BYTES + len(message.payload)

    def put_raw(self, data: bytes) -> None:
        """Queue bytes before all messages, as they are."""
        self._raw.append(data)

    def put_first(self, message: PeerMessage) -> None:
        """Queue a heartbeat or grants before all messages; it replaces a waiting one of
        its type.
        """
        self._first[message.frame_type] = message

    def has_first(self, frame_type: FrameType) -> bool:
        """Tell whether a frame of this type waits to go first."""
        return frame_type in self._first

    def take(self, size: int) -> list[bytes]:
        """Take the next bytes to be written, about `size` if there are so many, in pieces, at least
        one: what is large is a piece by itself, which nobody copies. Something must be waiting."""
        parts = [*self._raw]
        self._raw.clear()
        for message in self._first.values():
            for frame in encode_frames(message):
                parts += frame
        self._first.clear()
        taken = sum(map(len, parts))
        while self._messages and taken < size:
            head, piece = self._next_frame(self._messages[0])
            parts += (head, piece)
            taken += len(head) + len(piece)
        return joined(parts)

    def _next_frame(self, message: PeerMessage) -> tuple[bytes, bytes]:
        if self._frames is None:
            self._frames = encode_frames(message)
            self._frames_left = max(1, -(-len(message.payload) // LINK_PIECE_BYTES))
        frame = next(self._frames)
        self._frames_left -= 1
        if not self._frames_left:
            self._frames = None
            self._messages.popleft()
            self.waiting_bytes -= LINK_MESSAGE_COST_BYTES + len(message.payload)
        return frame

    def clear(self) -> None:
        """Drop everything that waits to be written."""
        self._raw.clear()
        self._messages.clear()
        self._first.clear()
        self._frames = None
        self.waiting_bytes = 0
