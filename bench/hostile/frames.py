"""What attackers send, as bytes that are made once."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from sluicemq.amqp.frames import BODY, FRAME, PROTOCOL_HEADER, content_frames
from sluicemq.amqp.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    QueueBind,
    QueueDeclare,
    QueueDelete,
)
from sluicemq.amqp.properties import (
    DELIVERY_MODE,
    EXPIRATION,
    HEADER_FRAME,
    HEADERS,
    NO_PROPERTIES,
)
from sluicemq.amqp.types import encode_shortstr, encode_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluicemq.amqp.types import Table

FRAME_MAX = 131_072
CHANNEL_MAX = 2047
CHUNK_BYTES = 1 << 16
"""About what one write of an attacker is."""


def login(channels: int = 1, user: str = "guest", password: str = "guest") -> bytes:
    """All a client says up to its open channels; the answers come in their time."""
    said = ConnectionStartOk(
        client_properties={"capabilities": {"connection.blocked": True}},
        mechanism="PLAIN",
        response=f"\0{user}\0{password}".encode(),
        locale="en_US",
    )
    tuned = ConnectionTuneOk(channel_max=CHANNEL_MAX, frame_max=FRAME_MAX, heartbeat=0)
    opened = ConnectionOpen(virtual_host="/")
    return b"".join(
        (PROTOCOL_HEADER, said.frame(0), tuned.frame(0), opened.frame(0), open_channels(channels))
    )


def open_channels(count: int) -> bytes:
    """channel.open of the channels from 1."""
    return b"".join(ChannelOpen().frame(number) for number in range(1, count + 1))


def close_channel(channel: int = 1) -> bytes:
    """channel.close"""
    return ChannelClose(200, "bye", 0, 0).frame(channel)


def after_error(channel: int = 1) -> bytes:
    """What brings a channel back that the broker closes for what was sent before."""
    return ChannelCloseOk().frame(channel) + ChannelOpen().frame(channel)


def publish(
    exchange: str,
    key: str,
    body: bytes = b"",
    properties: bytes = NO_PROPERTIES,
    mandatory: bool = False,
    channel: int = 1,
) -> bytes:
    """A message."""
    method = BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory)
    return method.frame(channel) + content_frames(channel, properties, body, FRAME_MAX)


def begun_body(channel: int, key: str, promised: int, frames: int) -> bytes:
    """A message whose body is announced with so many bytes and ends after so many full frames."""
    head = BasicPublish(exchange="", routing_key=key).frame(channel)
    size = FRAME_MAX - 8
    header = HEADER_FRAME.pack(2, channel, 14, 60, 0, promised) + NO_PROPERTIES + b"\xce"
    frame = FRAME.pack(BODY, channel, size) + bytes(size) + b"\xce"
    return head + header + frame * frames


def with_headers(table: Table) -> bytes:
    """Properties that are these headers."""
    return struct.pack(">H", HEADERS) + encode_table(table)


def expiring(milliseconds: int) -> bytes:
    """Properties with that expiration."""
    return struct.pack(">H", EXPIRATION) + encode_shortstr(str(milliseconds))


def persistent() -> bytes:
    """Properties with delivery mode 2."""
    return struct.pack(">H", DELIVERY_MODE) + b"\2"


def declares(
    names: Iterable[str],
    *,
    nowait: bool = False,
    durable: bool = False,
    exclusive: bool = False,
    arguments: Table | None = None,
) -> list[bytes]:
    """A queue.declare each."""
    return [
        QueueDeclare(
            queue=name, nowait=nowait, durable=durable, exclusive=exclusive, arguments=arguments
        ).frame(1)
        for name in names
    ]


def deletes(names: Iterable[str], *, nowait: bool = True) -> list[bytes]:
    """A queue.delete each."""
    return [QueueDelete(queue=name, nowait=nowait).frame(1) for name in names]


def binds(
    queues: Iterable[str], exchange: str, key: str = "", arguments: Table | None = None
) -> list[bytes]:
    """A queue.bind each, without an answer."""
    return [
        QueueBind(
            queue=queue, exchange=exchange, routing_key=key, nowait=True, arguments=arguments
        ).frame(1)
        for queue in queues
    ]


def joined(frames: Sequence[bytes], size: int = CHUNK_BYTES) -> list[bytes]:
    """Frames in chunks of about that size."""
    chunks: list[bytes] = []
    part: list[bytes] = []
    length = 0
    for frame in frames:
        part.append(frame)
        length += len(frame)
        if length >= size:
            chunks.append(b"".join(part))
            part, length = [], 0
    if part:
        chunks.append(b"".join(part))
    return chunks


def repeated(frame: bytes, size: int = CHUNK_BYTES) -> tuple[bytes, int]:
    """A chunk of one frame over and over, and how often it is in it."""
    times = max(1, size // len(frame))
    return frame * times, times
