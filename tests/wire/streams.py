"""Byte streams and what a connection makes of them, in a form that can be compared."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise

from sluicemq.amqp.connection import SERVER, AmqpConnection
from sluicemq.amqp.events import (
    Acks,
    ContentMethod,
    ContentTooLarge,
    Deliveries,
    Event,
    MethodFrame,
    MixedKeyPublishes,
    ProtocolHeader,
    Publishes,
)
from sluicemq.amqp.frames import PROTOCOL_HEADER, content_frames
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import BasicPublish
from sluicemq.errors import ConnectionViolation

PERSISTENT = b"\x10\x00\x02"


def frame(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes((end,))


def header(
    channel: int, size: int, raw: bytes = b"\0\0", class_id: int = 60, weight: int = 0
) -> bytes:
    return frame(2, channel, struct.pack(">HHQ", class_id, weight, size) + raw)


def body(channel: int, data: bytes) -> bytes:
    return frame(3, channel, data)


def with_content(
    channel: int, method: Method, data: bytes, raw: bytes = PERSISTENT, frame_max: int = 131072
) -> bytes:
    return method.frame(channel) + content_frames(channel, raw, data, frame_max)


def running(role: int = SERVER, fast: bool = True, run_max: int = 200) -> AmqpConnection:
    """A connection after its protocol header."""
    connection = AmqpConnection(role)
    connection.fast = fast
    connection.run_max = run_max
    if role == SERVER:
        connection.receive_data(PROTOCOL_HEADER)
        assert isinstance(connection.next_event(), ProtocolHeader)
    return connection


def drain(connection: AmqpConnection) -> list[Event | ConnectionViolation]:
    """All events there are now; a violation stands at its place."""
    events: list[Event | ConnectionViolation] = []
    while True:
        try:
            event = connection.next_event()
        except ConnectionViolation as violation:
            events.append(violation)
            continue
        if event is None:
            return events
        events.append(event)


def feed(connection: AmqpConnection, chunks: Iterable[bytes]) -> list[Event | ConnectionViolation]:
    """Events of a stream that arrives in these pieces."""
    events: list[Event | ConnectionViolation] = []
    for chunk in chunks:
        connection.receive_data(chunk)
        events += drain(connection)
    return events


def cut_at(stream: bytes, places: Iterable[int]) -> list[bytes]:
    """The stream in pieces; places beyond its end wrap round."""
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


Story = list[tuple[object, ...]]


def flatten(events: Iterable[Event | ConnectionViolation]) -> Story:
    """The events message by message, so that runs cut differently compare equal."""
    story: Story = []
    for event in events:
        if isinstance(event, Publishes):
            assert event.size == sum(map(len, event.contents))
            story += [("publish", event.channel, event.raw_method, c) for c in event.contents]
        elif isinstance(event, MixedKeyPublishes):
            assert event.size == sum(map(len, event.contents))
            assert [BasicPublish.decode_args(r, 11, len(r) - 1) for r in event.raw_methods] == (
                event.methods
            )
            pairs = zip(event.raw_methods, event.contents, strict=True)
            story += [("publish", event.channel, *pair) for pair in pairs]
        elif isinstance(event, Acks):
            story += [("ack", event.channel, tag) for tag in event.tags]
        elif isinstance(event, Deliveries):
            where = (event.channel, event.consumer_tag, event.exchange, event.routing_key)
            pairs = zip(event.tags, event.contents, strict=True)
            story += [("deliver", *where, event.redelivered, *pair) for pair in pairs]
        elif isinstance(event, ContentMethod):
            story.append(("content", event.channel, event.method, event.content))
        elif isinstance(event, ContentTooLarge):
            story.append(("too large", event.channel, event.method, event.size))
        elif isinstance(event, MethodFrame):
            story.append(("method", event.channel, event.method, event.raw))
        elif isinstance(event, ProtocolHeader):
            story.append(("header", event.data))
        elif isinstance(event, ConnectionViolation):
            story.append(("violation", str(event), event.class_id, event.method_id))
        else:
            story.append((type(event).__name__,))
    return story
