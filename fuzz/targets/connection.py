"""What a whole connection sends, as `amqp/connection.py` hears it; in either role.

An input is a first octet, then the stream. Of the octet bit 0 is the role (1: client), bit 1 says
that the protocol header has come already, the others choose where the stream is cut.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import pamqp.frame

from sluicemq.amqp import methods as m
from sluicemq.amqp.connection import CLIENT, SERVER, AmqpConnection
from sluicemq.amqp.events import (
    ContentMethod,
    Deliveries,
    Event,
    MethodFrame,
    MixedKeyPublishes,
    Publishes,
)
from sluicemq.amqp.frames import PROTOCOL_HEADER, content_frames, frame_end
from sluicemq.amqp.properties import BasicProperties
from sluicemq.errors import ConnectionViolation
from targets import method as method_target
from targets import properties as properties_target
from targets.target import Target
from wire.streams import Story, cut_at, feed, flatten

FRAME_MAX = 4096
MESSAGE_MAX = 1 << 20
SHORT = 300
"""A stream of this size also comes octet by octet."""
CODES = (501, 503, 505)


def connection_for(flags: int, fast: bool) -> AmqpConnection:
    """As the first octet says."""
    connection = AmqpConnection(CLIENT if flags & 1 else SERVER)
    connection.fast = fast
    connection.run_max = 3
    connection.frame_max = FRAME_MAX
    connection.max_message_size = MESSAGE_MAX
    if flags & 2 and not flags & 1:
        feed(connection, [PROTOCOL_HEADER])
    return connection


def decode(data: bytes) -> list[Event | ConnectionViolation]:
    """All that is heard, with violations in their places."""
    if not data:
        return []
    return feed(connection_for(data[0], True), cuts_of(data))


def cuts_of(data: bytes) -> list[bytes]:
    """The stream in the pieces that its first octet asks for."""
    dice = Random(data[0] >> 2)
    stream = data[1:]
    return cut_at(stream, [dice.randrange(len(stream) + 1) for _ in range(data[0] >> 2)])


def check(data: bytes) -> None:
    """Nothing but a `ConnectionViolation`, and one at most; the cuts do not matter, nor does it
    whether runs are cut out or frames are read one by one; pamqp agrees."""
    events = decode(data)
    if not data:
        return
    story = flatten(events)
    for fast in (True, False):
        assert flatten(feed(connection_for(data[0], fast), [data[1:]])) == story, fast
    if len(data) <= SHORT:
        octets = [data[place : place + 1] for place in range(1, len(data))]
        assert flatten(feed(connection_for(data[0], True), octets)) == story, "octet by octet"
    violations = [event for event in events if isinstance(event, ConnectionViolation)]
    assert len(violations) <= 1
    for violation in violations:
        assert violation.code in CODES
        assert len(violation.reply_text.encode()) <= 255
    check_silence(story)
    if not data[0] & 1 and overflows(data[1:]):
        kinds = [kind for kind, *_ in story]
        assert "violation" in kinds or "too large" in kinds, "a body above its announced size"
    for event in events:
        check_event(event)


def overflows(stream: bytes) -> bool:
    """Does a body come that is longer than its header has said? Told without our codec, as far as
    the frames go that are whole; what else is wrong there is a violation too."""
    left: dict[int, int] = {}
    pos = len(PROTOCOL_HEADER) if stream.startswith(PROTOCOL_HEADER) else 0
    while len(stream) - pos >= 8:
        kind, channel, size = struct.unpack_from(">BHI", stream, pos)
        end = pos + 8 + size
        if end > len(stream) or stream[end - 1] != 0xCE:
            return False
        if kind == 2 and size >= 14:
            left[channel] = int.from_bytes(stream[pos + 11 : pos + 19])
        elif kind == 3 and channel in left:
            left[channel] -= size
            if left[channel] < 0:
                return True
        elif kind == 1:
            left.pop(channel, None)
        pos = end
    return False


def check_silence(story: Story) -> None:
    """After a violation only the closing is heard."""
    kinds = [kind for kind, *_ in story]
    if "violation" in kinds:
        for kind, *facts in story[kinds.index("violation") + 1 :]:
            assert kind == "method"
            assert isinstance(facts[1], m.ConnectionClose | m.ConnectionCloseOk)


def check_event(event: Event | ConnectionViolation) -> None:
    """The raw frames in it are what they are said to be, also for pamqp."""
    if isinstance(event, MethodFrame):
        check_method(event.raw)
    elif isinstance(event, Publishes):
        check_method(event.raw_method)
        for content in event.contents:
            check_content(content)
    elif isinstance(event, MixedKeyPublishes):
        for raw_method, content in zip(event.raw_methods, event.contents, strict=True):
            check_method(raw_method)
            check_content(content)
    elif isinstance(event, Deliveries):
        assert len(event.tags) == len(event.contents)
        for content in event.contents:
            check_content(content)
    elif isinstance(event, ContentMethod):
        check_content(event.content)


def check_method(raw: bytes) -> None:
    """One whole frame, of a method."""
    assert frame_end(raw, 0) == len(raw)
    method_target.check(raw[7:-1])


def check_content(content: bytes) -> None:
    """A header frame, then body frames of together the size that it says; none above frame_max."""
    end = frame_end(content, 0)
    properties_target.check(content[7 : end - 1])
    size = int.from_bytes(content[11:19])
    assert size <= MESSAGE_MAX
    while end < len(content):
        pos, end = end, frame_end(content, end)
        assert end - pos <= FRAME_MAX + 8
        used, channel, found = pamqp.frame.unmarshal(content[pos:end])
        assert (used, channel) == (end - pos, int.from_bytes(content[1:3]))
        size -= len(found.value)  # type: ignore[union-attr]
    assert (size, end) == (0, len(content))


def seeds() -> Iterator[bytes]:
    """A client's whole life, a server's, runs, mixed channels, each way to break the framing."""
    raw = BasicProperties(delivery_mode=2, headers={"a": 1}).encode()
    publish = m.BasicPublish("", "q").frame(1)
    message = publish + content_frames(1, raw, b"body", FRAME_MAX)
    large = publish + content_frames(1, b"\0\0", bytes(9000), FRAME_MAX)
    deliver = m.BasicDeliver("tag", 7, False, "", "q").frame(1)
    delivery = deliver + content_frames(1, raw, b"body", FRAME_MAX)
    hello = m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US").frame(0)
    hello += m.ConnectionTuneOk(10, 4096, 0).frame(0) + m.ConnectionOpen("/").frame(0)
    hello += m.ChannelOpen().frame(1)
    yield b"\x10" + PROTOCOL_HEADER + hello + message * 4 + m.ConnectionClose().frame(0)
    yield b"\x22" + message * 5 + m.BasicAck(1).frame(1) * 3 + b"\x08\0\0\0\0\0\0\xce"
    yield (
        b"\x23"
        + delivery * 5
        + m.BasicGetOk(1, False, "", "q", 0).frame(1)
        + message[len(publish) :]
    )
    yield b"\x42" + large
    yield b"\x02" + publish + m.BasicPublish("", "q").frame(2) + message[len(publish) :]
    header = message[len(publish) : frame_end(message, len(publish))]
    halves = b"\x03\0\1\0\0\0\2bo\xce\x03\0\1\0\0\0\2dy\xce"
    yield b"\x02" + (publish + header + halves) * 3 + message * 2
    yield b"\x22" + message * 2 + publish + header + halves + message
    longer = b"\x03\0\1\0\0\0\x0cbody\xce1234567\xce"
    yield b"\x02" + message * 2 + (publish + header + longer) * 2
    announced = header[:11] + (900_000).to_bytes(8) + header[19:]
    yield b"\x02" + (publish + announced + b"\x03\0\1\0\0\0\1x\xce")
    for broken in (
        b"\x05\0\1\0\0\0\0\xce", b"\x01\0\1\0\0\0\x04\0\x3c\0\x63\xce", b"\x01\0\1\xff\xff\xff\xff",
        publish[:-1] + b"\xcd", publish + publish, header, publish + header + header,
        publish + header + b"\x03\0\1\0\0\0\x05hello\xce", publish + b"\x03\0\1\0\0\0\1x\xce",
        publish + header[:7] + b"\0\x3c\0\1" + header[11:],
        publish + header[:7] + b"\0\x32" + header[9:], publish + header[:11] + b"\xff" * 8,
        b"\x08\0\1\0\0\0\0\xce", b"\x08\0\0\0\0\0\1x\xce", b"\x03\0\0\0\0\0\1x\xce",
        b"\x01\0\1\0\0\0\x02\0\x3c\xce", m.QueueDeclare("q").frame(1)[:-4] + b"\xce\xce\xce\xce",
    ):  # fmt: skip
        yield b"\x02" + broken + m.ConnectionCloseOk().frame(0)
    for start in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\0\xa5", b"AMQP\x01\x01\0\x09", b"AMQP"):
        yield b"\x04" + start
        yield b"\x05" + start


TARGET = Target("connection", check, decode, seeds, base_bytes=120_000, factor=120)
