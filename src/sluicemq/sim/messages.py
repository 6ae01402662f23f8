"""The messages of the simulation: each says in its body who it is, and can be made again from that.

     0        4          8      10     12
    +--------+----------+------+------+------------- - - -
    | stream | sequence | kind | size | filler
    +--------+----------+------+------+------------- - - -

A stream is what one channel of one publisher sends; `size` is the body's length less HEAD. The
filler and the properties follow from these numbers, so whoever receives a message can tell whether
it is the one that was sent, to the last bit.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Final

from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.properties import BasicProperties

MessageId = tuple[int, int]
"""(stream, sequence)."""

HEAD: Final = struct.Struct(">IIHH")
PATTERN: Final = bytes(n * 7 % 251 for n in range(1 << 16)) * 2

TRANSIENT, PERSISTENT, TRANSIENT_NAMED, PERSISTENT_NAMED = range(4)
FORMS: Final = 4
"""So many kinds are there of each priority."""
PRIORITIES: Final = (None, 1, 9)

PROPERTIES: Final = tuple(
    properties.encode()
    for priority in PRIORITIES
    for properties in (
        BasicProperties(priority=priority),
        BasicProperties(delivery_mode=2, priority=priority),
        BasicProperties(
            delivery_mode=1, content_type="text/plain", headers={"x": 1}, priority=priority
        ),
        BasicProperties(delivery_mode=2, headers={"n": "ü"}, message_id="m", priority=priority),
    )
)
"""Raw properties by kind."""

ADDED: Final = (
    "x-delivery-count",
    "x-death",
    "x-first-death-reason",
    "x-first-death-queue",
    "x-first-death-exchange",
)
"""Headers of the broker's own."""


def is_persistent(kind: int) -> bool:
    """Has it delivery mode 2?"""
    return kind % FORMS in (PERSISTENT, PERSISTENT_NAMED)


def urgent(kind: int, nth: int) -> int:
    """The same with the nth priority."""
    return kind + FORMS * nth


def priority_of(kind: int) -> int:
    """What counts."""
    return PRIORITIES[kind // FORMS] or 0


def body_of(stream: int, sequence: int, kind: int, size: int) -> bytes:
    """The body of a message."""
    start = (stream * 131 + sequence * 17) % 65_521
    return HEAD.pack(stream, sequence, kind, size) + PATTERN[start : start + size]


def content_of(
    channel: int, stream: int, sequence: int, kind: int, size: int, frame_max: int
) -> bytes:
    """The message's header and body frames."""
    body = body_of(stream, sequence, kind, size)
    return content_frames(channel, PROPERTIES[kind], body, frame_max)


def id_of_content(content: bytes) -> MessageId:
    """Whose content this is. The first body frame holds all of HEAD."""
    start = 15 + int.from_bytes(content[3:7])
    stream, sequence, _, _ = HEAD.unpack_from(content, start)
    return stream, sequence


def id_of_body(properties: bytes, body: bytes) -> MessageId | None:
    """Whose body this is; None if it is nobody's, to the last bit."""
    if len(body) < HEAD.size:
        return None
    stream, sequence, kind, size = HEAD.unpack_from(body)
    if kind >= len(PROPERTIES):
        return None
    if properties != PROPERTIES[kind] and as_sent(properties) != PROPERTIES[kind]:
        return None
    return (stream, sequence) if body == body_of(stream, sequence, kind, size) else None


def as_sent(properties: bytes) -> bytes:
    """Without what the broker has added: how often the message had come back, how it died."""
    decoded = BasicProperties.decode(properties)
    headers = {k: v for k, v in (decoded.headers or {}).items() if k not in ADDED}
    if len(headers) == len(decoded.headers or {}):
        return properties
    return replace(decoded, headers=headers or None).encode()


def first_death(properties: bytes) -> object:
    """The queue that the message died in first; None: it has not."""
    if b"x-first-death-queue" not in properties:
        return None
    return (BasicProperties.decode(properties).headers or {})["x-first-death-queue"]
