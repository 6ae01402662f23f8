"""Messages as a client makes and reads them: frames out of properties and body, and back."""

from __future__ import annotations

from typing import Final

from sluicemq.amqp.frames import content_body, content_frames, frame_end
from sluicemq.amqp.methods import BasicPublish
from sluicemq.amqp.properties import PROPERTIES, BasicProperties
from sluicemq.amqp.types import FieldValue, Malformed, Table, Timestamp
from sluicemq.client.wire import CHANNEL

__all__ = [
    "PROPERTIES",
    "PROPERTIES_AT",
    "BasicProperties",
    "FieldValue",
    "Malformed",
    "Table",
    "Timestamp",
    "body_of",
    "content",
    "frame_end",
    "properties_of",
    "publish_frame",
]

PROPERTIES_AT: Final = 19
"""Where the properties begin in a content: after the head of the frame, class, weight and size."""


def publish_frame(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """The method frame that stands before a content."""
    return BasicPublish(exchange, routing_key, mandatory).frame(CHANNEL)


def content(properties: bytes, body: bytes, frame_max: int) -> bytes:
    """Header frame and body frames; `properties` are encoded."""
    return content_frames(CHANNEL, properties, body, frame_max)


def properties_of(frames: bytes) -> bytes:
    """The encoded properties of a content."""
    return frames[PROPERTIES_AT : frame_end(frames, 0) - 1]


def body_of(frames: bytes) -> bytes:
    """The body of a content."""
    return content_body(frames)
