"""Makes a message's frames from its properties and body, and reads them back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, overload

from sluicemq.amqp.frames import (
    END,
    END_OCTET,
    OVERHEAD,
    content_body,
    content_frames,
    frame_end,
)
from sluicemq.amqp.methods import BasicPublish
from sluicemq.amqp.properties import PROPERTIES, BasicProperties
from sluicemq.amqp.types import FieldValue, Malformed, Table, Timestamp
from sluicemq.client.wire import CHANNEL

__all__ = [
    "END",
    "END_OCTET",
    "OVERHEAD",
    "PROPERTIES",
    "PROPERTIES_AT",
    "BasicProperties",
    "FieldValue",
    "Malformed",
    "Messages",
    "Table",
    "Timestamp",
    "body_of",
    "content",
    "frame_end",
    "properties_of",
    "publish_frame",
]

PROPERTIES_AT: Final = 19
"""The offset of the properties in a content: behind the head of the frame, class, weight and
size."""


def publish_frame(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """Return the method frame that precedes a content."""
    return BasicPublish(exchange, routing_key, mandatory).frame(CHANNEL)


def content(properties: bytes, body: bytes, frame_max: int) -> bytes:
    """Return the header frame and body frames of a message, each of at most `frame_max` bytes;
    `properties` are encoded."""
    return content_frames(CHANNEL, properties, body, frame_max)


def properties_of(frames: bytes) -> bytes:
    """Return the encoded properties of a content."""
    return frames[PROPERTIES_AT : frame_end(frames, 0) - 1]


def body_of(frames: bytes) -> bytes:
    """Return the body of a content, taken from all its frames."""
    return content_body(frames)


class Messages(Sequence[bytes]):
    """The frames of consecutive messages in one buffer; slices copy nothing."""

    __slots__ = ("_bounds", "_frames")

    def __init__(self, frames: bytes | memoryview, bounds: Sequence[int]) -> None:
        """Message n is in `frames` from `bounds[n]` to before `bounds[n + 1]`."""
        self._frames = frames
        self._bounds = bounds

    @classmethod
    def of(cls, messages: Iterable[bytes]) -> Messages:
        """Make the sequence from one `bytes` for each message."""
        messages = list(messages)
        return cls(b"".join(messages), [*accumulate(map(len, messages), initial=0)])

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Messages: ...

    def __getitem__(self, index: int | slice) -> bytes | Messages:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            assert step == 1
            return Messages(self._frames, self._bounds[start : max(start, stop) + 1])
        index = range(len(self))[index]
        return bytes(self._frames[self._bounds[index] : self._bounds[index + 1]])

    def octets(self) -> bytes:
        """Return the frames of all messages, end to end."""
        return bytes(self._frames[self._bounds[0] : self._bounds[-1]])
