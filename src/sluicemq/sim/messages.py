"""The messages of the simulation: each has its identity in its body, and can be rebuilt from that.

     0        4          8      10     12
    +--------+----------+------+------+------------- - - -
    | stream | sequence | kind | size | filler
    +--------+----------+------+------+------------- - - -

A stream is the messages of one channel of one publisher; `size` is the body's length less HEAD. The
filler and the properties follow from these numbers, so every receiver can tell whether the message
is the one that was sent, to the last bit.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.routing.delayed import holding_queue

if TYPE_CHECKING:
    from sluicemq.amqp.types import FieldValue, Table

MessageId = tuple[int, int]
"""(stream, sequence)."""

HEAD: Final = struct.Struct(">IIHH")
PATTERN: Final = bytes(n * 7 % 251 for n in range(1 << 16)) * 2

TRANSIENT, PERSISTENT, TRANSIENT_NAMED, PERSISTENT_NAMED = range(4)
FORMS: Final = 4
"""The number of kinds for each priority."""
PRIORITIES: Final = (None, 1, 9)

LATER: Final = "later"
"""The exchange that delays messages."""
HOLDING: Final = holding_queue(LATER)
"""The queue that holds delayed messages."""
DELAYS_MS: Final = (1, 30, 400)
DELAY: Final = "x-delay"


def forms(priority: int | None = None, **headers: FieldValue) -> list[BasicProperties]:
    """Return the properties for each kind of message with that priority, or with those headers."""
    return [
        BasicProperties(priority=priority, headers=headers or None),
        BasicProperties(delivery_mode=2, priority=priority, headers=headers or None),
        BasicProperties(
            delivery_mode=1,
            content_type="text/plain",
            headers={"x": 1, **headers},
            priority=priority,
        ),
        BasicProperties(
            delivery_mode=2, headers={"n": "ü", **headers}, message_id="m", priority=priority
        ),
    ]


PLAIN: Final = tuple(each.encode() for priority in PRIORITIES for each in forms(priority))
DELAYED: Final = tuple(
    each.encode() for delay_ms in DELAYS_MS for each in forms(**{DELAY: delay_ms})
)
PROPERTIES: Final = (*PLAIN, *DELAYED)
"""Raw properties by kind."""

ADDED: Final = (
    "x-delivery-count",
    "x-death",
    "x-first-death-reason",
    "x-first-death-queue",
    "x-first-death-exchange",
    "x-stream-offset",
)
"""The headers that the broker adds."""


def is_persistent(kind: int) -> bool:
    """Tell whether messages of that kind have delivery mode 2."""
    return kind % FORMS in (PERSISTENT, PERSISTENT_NAMED)


def urgent(kind: int, nth: int) -> int:
    """Return the kind like `kind` that has the nth priority."""
    return kind + FORMS * nth


def delayed(kind: int, nth: int) -> int:
    """Return the kind like `kind`, without priority, that has the nth delay."""
    return len(PLAIN) + FORMS * nth + kind % FORMS


def priority_of(kind: int) -> int:
    """Return the effective priority of messages of that kind; 0 when they have none."""
    return (PRIORITIES[kind // FORMS] or 0) if kind < len(PLAIN) else 0


def body_of(stream: int, sequence: int, kind: int, size: int) -> bytes:
    """Return the body of a message, of `size` bytes."""
    start = (stream * 131 + sequence * 17) % 65_521
    return HEAD.pack(stream, sequence, kind, size) + PATTERN[start : start + size]


def content_of(
    channel: int, stream: int, sequence: int, kind: int, size: int, frame_max: int
) -> bytes:
    """Return the message's header and body frames."""
    body = body_of(stream, sequence, kind, size)
    return content_frames(channel, PROPERTIES[kind], body, frame_max)


def id_of_content(content: bytes) -> MessageId:
    """Return the id of the message with this content. The first body frame has all of HEAD."""
    start = 15 + int.from_bytes(content[3:7])
    stream, sequence, _, _ = HEAD.unpack_from(content, start)
    return stream, sequence


def id_of_body(properties: bytes, body: bytes) -> MessageId | None:
    """Return the id of the message with this body; None if a single bit differs from what its
    publisher sent."""
    if len(body) < HEAD.size:
        return None
    stream, sequence, kind, size = HEAD.unpack_from(body)
    if kind >= len(PROPERTIES):
        return None
    if properties != PROPERTIES[kind] and as_sent(properties) != PROPERTIES[kind]:
        return None
    return (stream, sequence) if body == body_of(stream, sequence, kind, size) else None


def as_sent(properties: bytes) -> bytes:
    """Return the properties as the publisher sent them: without the headers the broker added about
    deliveries and dead-lettering, and with the sign of the delay that it changed."""
    decoded = BasicProperties.decode(properties)
    headers = {k: v for k, v in (decoded.headers or {}).items() if k not in ADDED}
    if was_delayed(headers):
        headers[DELAY] = -cast("int", headers[DELAY])
    elif len(headers) == len(decoded.headers or {}):
        return properties
    return replace(decoded, headers=headers or None).encode()


def was_delayed(headers: Table) -> bool:
    """Tell whether the broker has delayed a message with these headers."""
    delay = headers.get(DELAY)
    return isinstance(delay, int) and delay < 0


def sent_on_by(properties: bytes) -> object:
    """Return the queue that first dead-lettered the message, or the one that delayed it; None when
    it comes straight from its publisher."""
    if b"x-" not in properties:
        return None
    headers = BasicProperties.decode(properties).headers or {}
    return HOLDING if was_delayed(headers) else headers.get("x-first-death-queue")


def offset_of(properties: bytes) -> int:
    """Return the offset of a message in its stream."""
    return cast("int", (BasicProperties.decode(properties).headers or {})["x-stream-offset"])


def returns_of(properties: bytes) -> int:
    """Return how often a message was requeued, according to its header; 0 without one."""
    if b"x-delivery-count" not in properties:
        return 0
    return cast("int", (BasicProperties.decode(properties).headers or {})["x-delivery-count"])
