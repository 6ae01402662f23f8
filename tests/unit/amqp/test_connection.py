"""AmqpConnection frame by frame: events, contents, and RabbitMQ's answers to broken framing."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.connection import CLIENT, SERVER, AmqpConnection
from sluicemq.amqp.events import (
    ContentMethod,
    ContentTooLarge,
    Deliveries,
    Heartbeat,
    MethodFrame,
    ProtocolHeader,
    Publishes,
)
from sluicemq.amqp.frames import PROTOCOL_HEADER, content_body, content_frames
from sluicemq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
)
from sluicemq.amqp.runs import read_publish
from sluicemq.amqp.types import Malformed
from sluicemq.errors import ConnectionViolation
from wire.streams import (
    PERSISTENT,
    body,
    drain,
    feed,
    flatten,
    frame,
    header,
    running,
    with_content,
)

from .strategies import short_texts

PUBLISH = BasicPublish("", "q")
P1 = PUBLISH.frame(1)


def violation_of(*chunks: bytes, role: int = SERVER) -> tuple[str, int, int]:
    """What the first thing wrong with these bytes is called, with its class and method."""
    events = feed(running(role), chunks)
    found = [event for event in events if isinstance(event, ConnectionViolation)]
    assert len(found) == 1
    return str(found[0]), found[0].class_id, found[0].method_id


# -- the protocol header


def test_server_hears_the_protocol_header_first() -> None:
    connection = AmqpConnection(SERVER)
    assert flatten(feed(connection, [b"AMQ", b"P\0\0\x09", b"\x01", P1[:5]])) == [
        ("header", PROTOCOL_HEADER)
    ]


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\x01", b"XMQP"])
def test_server_hears_four_octets_of_anything_else_and_then_nothing(start: bytes) -> None:
    connection = AmqpConnection(SERVER)
    assert flatten(feed(connection, [start[:3], start[3:], P1])) == [("header", start[:4])]


def test_client_hears_frames_at_once() -> None:
    connection = AmqpConnection(CLIENT)
    assert len(feed(connection, [ChannelOpenOk().frame(1)])) == 1


def test_client_hears_a_protocol_header_when_it_is_refused() -> None:
    connection = AmqpConnection(CLIENT)
    assert flatten(feed(connection, [b"AMQ", b"P\0\0\x09\x01", P1])) == [
        ("header", PROTOCOL_HEADER)
    ]


# -- methods and contents


def test_method_comes_with_its_raw_frame() -> None:
    raw = QueueDeclare("abc").frame(3)
    (event,) = feed(running(), [raw])
    assert isinstance(event, MethodFrame)
    assert (event.channel, event.method, event.raw) == (3, QueueDeclare("abc"), raw)


def test_publish_comes_with_its_content_as_it_stood_on_the_wire() -> None:
    content = content_frames(1, PERSISTENT, b"hello", 131072)
    (event,) = feed(running(fast=False), [P1 + content])
    assert isinstance(event, Publishes)
    assert (event.channel, event.raw_method, event.method) == (1, P1, PUBLISH)
    assert (event.contents, event.size, event.same_properties) == ([content], len(content), True)


def test_publish_without_body_is_complete_with_its_header() -> None:
    (event,) = feed(running(fast=False), [P1 + header(1, 0)])
    assert isinstance(event, Publishes)
    assert event.contents == [header(1, 0)]


def test_body_in_many_small_frames_arrives_in_one() -> None:
    """Goal: what a content costs in memory is bounded by its body, not by its frames."""
    stream = P1 + header(1, 300) + b"".join(body(1, b"x") + body(1, b"") for _ in range(300))
    (event,) = feed(running(), [stream[:-8]])
    assert isinstance(event, Publishes)
    assert event.contents == [header(1, 300) + body(1, b"x" * 300)]


def test_body_larger_than_a_frame_arrives_in_full_frames() -> None:
    connection = running()
    connection.frame_max = 4096
    raw = content_frames(1, PERSISTENT, b"x" * 10_000, 4096)
    (event,) = feed(connection, [P1 + raw])
    assert isinstance(event, Publishes)
    assert event.contents == [raw]


@pytest.mark.parametrize("sizes", [(5000, 6000, 7), (5000, 7, 6000), (7, 5000, 5000)])
@pytest.mark.parametrize("step", [1, 4000, 4096, 4500, 100_000])
def test_large_body_frames_stay_as_they_came_until_a_small_one_comes(
    sizes: tuple[int, ...], step: int
) -> None:
    octets = bytes(range(256)) * 60
    whole, at, frames = octets[: sum(sizes)], 0, b""
    for size in sizes:
        frames += body(1, octets[at : at + size])
        at += size
    stream = P1 + header(1, len(whole)) + frames
    connection = running()
    (event,) = feed(connection, [stream[i : i + step] for i in range(0, len(stream), step)])
    assert isinstance(event, Publishes)
    stays = all(size > 4096 for size in sizes[:-1])
    expected = frames if stays else body(1, whole)
    assert event.contents == [header(1, len(whole)) + expected]
    assert connection.held_bytes == 0


def test_contents_of_several_channels_may_be_mixed() -> None:
    stream = [
        P1 + PUBLISH.frame(2) + header(1, 3) + header(2, 4) + body(2, b"zw"),
        body(1, b"xyz") + QueueDeclare("q").frame(3) + body(2, b"zw"),
    ]
    story = flatten(feed(running(), stream))
    assert [part[0] for part in story] == ["publish", "method", "publish"]
    assert story[0][3] == header(1, 3) + body(1, b"xyz")
    assert story[2][3] == header(2, 4) + body(2, b"zwzw")


def test_acks_come_as_tags_and_multiple_ones_as_methods() -> None:
    stream = BasicAck(7).frame(1) + BasicAck(8).frame(1) + BasicAck(9, True).frame(1)
    for role in (SERVER, CLIENT):
        for fast in (False, True):
            story = flatten(feed(running(role, fast), [stream]))
            assert story == [
                ("ack", 1, 7),
                ("ack", 1, 8),
                ("method", 1, BasicAck(9, True), BasicAck(9, True).frame(1)),
            ]


def test_delivery_to_a_client() -> None:
    deliver = BasicDeliver("tag", 5, True, "x", "key")
    (event,) = feed(running(CLIENT, fast=False), [with_content(1, deliver, b"hello")])
    assert isinstance(event, Deliveries)
    assert (event.channel, event.consumer_tag, event.redelivered) == (1, "tag", True)
    assert (event.exchange, event.routing_key, event.tags) == ("x", "key", [5])
    assert [content_body(content) for content in event.contents] == [b"hello"]


@pytest.mark.parametrize("method", [BasicReturn(312, "NO_ROUTE", "x", "k"), BasicGetOk(3, False)])
def test_other_contents_come_with_their_method(method: BasicReturn | BasicGetOk) -> None:
    (event,) = feed(running(CLIENT), [with_content(1, method, b"hello")])
    assert isinstance(event, ContentMethod)
    assert (event.channel, event.method) == (1, method)
    assert content_body(event.content) == b"hello"


def test_content_methods_of_the_other_side_are_no_runs() -> None:
    """A server that is sent a delivery may refuse it; a client, a publish."""
    (event,) = feed(running(SERVER), [with_content(1, BasicDeliver("t", 1), b"x")])
    assert isinstance(event, ContentMethod)
    (event,) = feed(running(CLIENT), [with_content(1, PUBLISH, b"x")])
    assert isinstance(event, ContentMethod)


def test_heartbeat() -> None:
    (event,) = feed(running(), [b"\x08\0\0\0\0\0\0\xce"])
    assert isinstance(event, Heartbeat)


def test_connection_remembers_only_so_many_publish_methods() -> None:
    connection = running()
    for n in range(10_000):
        feed(connection, [with_content(1, BasicPublish("", str(n)), b"")] * (1 + n % 2))
    assert len(connection._publishes) <= 1024
    assert len(connection._methods) <= 4096 + 200


@given(st.binary(max_size=40), st.binary(max_size=6))
def test_a_publish_is_read_as_it_is_decoded(arguments: bytes, spoilt: bytes) -> None:
    for args in (arguments, BasicPublish("x", "k", True).encode_args() + spoilt):
        raw = b"\x01\0\x01" + (4 + len(args)).to_bytes(4) + b"\0\x3c\0\x28" + args + b"\xce"
        try:
            expected = BasicPublish.decode_args(raw, 11, len(raw) - 1)
        except Malformed:
            assert read_publish(raw) is None
        else:
            assert read_publish(raw) == expected


@given(st.builds(BasicPublish, short_texts, short_texts, st.booleans(), st.booleans()))
def test_every_publish_is_read(method: BasicPublish) -> None:
    assert read_publish(method.frame(1)) == method


# -- what the owner decides


def test_channel_that_is_not_open_gets_no_content() -> None:
    connection = running()
    connection.open_channels = {1: "open"}
    (event,) = feed(connection, [PUBLISH.frame(2)])
    assert isinstance(event, MethodFrame)
    assert event.method == PUBLISH
    (event,) = feed(connection, [with_content(1, PUBLISH, b"x")])
    assert isinstance(event, Publishes)


def test_channel_0_gets_no_content() -> None:
    story = flatten(feed(running(), [PUBLISH.frame(0) + BasicAck(1).frame(0)]))
    assert [part[0] for part in story] == ["method", "method"]


def test_ignored_channel_yields_no_contents_until_it_is_opened_again() -> None:
    connection = running()
    feed(connection, [P1 + header(1, 10) + body(1, b"hello")])
    connection.ignore_content(1)
    rest = body(1, b"world") + with_content(1, PUBLISH, b"x") * 3 + P1 + header(1, 5)
    # In the middle of a content the client sees the close and answers it.
    story = flatten(feed(connection, [rest, BasicCancel("t").frame(1), ChannelCloseOk().frame(1)]))
    assert [part[2] for part in story] == [BasicCancel("t"), ChannelCloseOk()]
    other = flatten(feed(connection, [with_content(2, PUBLISH, b"x")]))
    assert [part[0] for part in other] == ["publish"]
    story = flatten(feed(connection, [ChannelOpen().frame(1) + with_content(1, PUBLISH, b"y")]))
    assert [part[0] for part in story] == ["method", "publish"]


def test_ignored_channel_is_heard_again_once_the_owner_calls_it_closed() -> None:
    connection = running()
    channels = {1: "open"}
    connection.open_channels = channels
    connection.ignore_content(1)
    assert feed(connection, [with_content(1, PUBLISH, b"x")]) == []
    del channels[1]
    (event,) = feed(connection, [P1])
    assert isinstance(event, MethodFrame)
    channels[1] = "open"
    (event,) = feed(connection, [with_content(1, PUBLISH, b"x")])
    assert isinstance(event, Publishes)


def test_content_too_large_is_told_once_and_swallowed() -> None:
    connection = running()
    connection.max_message_size = 9
    stream = P1 + header(1, 10) + body(1, b"hello") + header(1, 10) + body(1, b"world" * 9)
    story = flatten(feed(connection, [stream, with_content(1, PUBLISH, b"fits")]))
    assert [part[0] for part in story] == ["too large", "publish"]
    assert story[0][3] == 10


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 600 << 20, 136 << 20])
def test_content_announced_too_large_costs_nothing(size: int) -> None:
    (event,) = feed(running(), [P1 + header(1, size)])
    assert isinstance(event, ContentTooLarge)
    assert event.size == size


def test_ignore_all_lets_only_the_closing_through() -> None:
    connection = running()
    connection.receive_data(P1 + header(1, 5))
    drain(connection)
    connection.ignore_all()
    stream = with_content(1, PUBLISH, b"x") + frame(9, 1, b"x") + ChannelClose().frame(1)
    stream += frame(1, 0, struct.pack(">HH", 10, 50)) + frame(1, 0, b"\0") + header(0, 1)
    close = ConnectionClose(200, "bye").frame(0)
    story = flatten(feed(connection, [stream + close + ConnectionCloseOk().frame(0)]))
    assert [part[2] for part in story] == [ConnectionClose(200, "bye"), ConnectionCloseOk()]


def test_ignore_all_ends_in_silence_when_the_framing_breaks() -> None:
    for wrong in (frame(1, 1, b"1234", end=0xCD), struct.pack(">BHI", 1, 0, 2**32 - 1)):
        connection = running()
        connection.ignore_all()
        assert feed(connection, [wrong, ConnectionCloseOk().frame(0)]) == []


# -- what is wrong


UNEXPECTED = "505 UNEXPECTED_FRAME - "
CLASS_60 = "expected content header for class 60, got "
GARBLED = struct.pack(">HH", 50, 10) + b"\0\0\0\x04\0\0\0\0"


@pytest.mark.parametrize(
    ("raw", "text", "where"),
    [
        (frame(9, 1, b"xx"), '501 FRAME_ERROR - type 9, all octets = <<"xx">>: unknown_frame', 0),
        (frame(0, 1, b"xx"), '501 FRAME_ERROR - type 0, all octets = <<"xx">>: unknown_frame', 0),
        (frame(4, 0, b""), "501 FRAME_ERROR - type 4, all octets = <<>>: unknown_frame", 0),
        (
            frame(9, 1, b"0123456789abcdefX"),
            '501 FRAME_ERROR - type 9, first 16 octets = <<"0123456789abcdef">>: unknown_frame',
            0,
        ),
        (
            frame(9, 1, b'"\\'),
            r'501 FRAME_ERROR - type 9, all octets = <<"\"\\">>: unknown_frame',
            0,
        ),
        (
            frame(1, 1, GARBLED, end=0xCD),
            "501 FRAME_ERROR - type 1, all octets = <<0,50,0,10,0,0,0,4,0,0,0,0>>:"
            " {invalid_frame_end_marker,\n" + " " * 53 + "205}",
            0,
        ),
        (
            frame(1, 1, b"1234", end=0),
            '501 FRAME_ERROR - type 1, all octets = <<"1234">>: {invalid_frame_end_marker,0}',
            0,
        ),
        (frame(8, 1, b""), f"{UNEXPECTED}type 8, all octets = <<>>", 0),
        (
            frame(8, 0, b"hello"),
            '501 FRAME_ERROR - type 8, all octets = <<"hello">>: unknown_frame',
            0,
        ),
        (
            struct.pack(">BHI", 1, 0, 0xFFFFFFFF),
            "501 FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4294967295,131064}",
            0,
        ),
        (frame(1, 0, b""), "501 FRAME_ERROR - type 1, all octets = <<>>: unknown_frame", 0),
        (
            frame(1, 0, b"\0\x0a\0"),
            "501 FRAME_ERROR - type 1, all octets = <<0,10,0>>: unknown_frame",
            0,
        ),
        (frame(2, 1, b""), "501 FRAME_ERROR - type 2, all octets = <<>>: unknown_frame", 0),
        (
            P1 + frame(2, 1, b"\0\x3c\0\0\0\0"),
            "501 FRAME_ERROR - type 2, all octets = <<0,60,0,0,0,0>>: unknown_frame",
            0,
        ),
        (
            header(0, 5),
            f"{UNEXPECTED}type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,5,0,0>>",
            0,
        ),
        (body(0, b"abc"), f'{UNEXPECTED}type 3, all octets = <<"abc">>', 0),
        (
            header(1, 5),
            f"{UNEXPECTED}expected method frame, got non method frame instead",
            0,
        ),
        (body(1, b"abc"), f"{UNEXPECTED}expected method frame, got non method frame instead", 0),
        (
            with_content(1, PUBLISH, b"abc") + body(1, b"x"),
            f"{UNEXPECTED}expected method frame, got non method frame instead",
            0,
        ),
        (
            P1 + header(1, 0) + body(1, b""),
            f"{UNEXPECTED}expected method frame, got non method frame instead",
            0,
        ),
        (P1 + P1, f"{UNEXPECTED}{CLASS_60}non content header frame instead", 40),
        (P1 + body(1, b""), f"{UNEXPECTED}{CLASS_60}non content header frame instead", 40),
        (
            P1 + header(1, 5, weight=1),
            f"{UNEXPECTED}{CLASS_60}non content header frame instead",
            40,
        ),
        (P1 + header(1, 5, class_id=50), f"{UNEXPECTED}{CLASS_60}one for class 50 instead", 40),
        (
            P1 + header(1, 5) + header(1, 5),
            f"{UNEXPECTED}expected content body, got non content body frame instead",
            40,
        ),
        (
            P1 + header(1, 5) + P1,
            f"{UNEXPECTED}expected content body, got non content body frame instead",
            40,
        ),
        (
            P1 + header(1, 3) + body(1, b"hello"),
            "501 FRAME_ERROR - content body of 5 bytes where 3 were left to come",
            40,
        ),
        (P1 + header(1, 0, b"\x80\x01"), "501 FRAME_ERROR - cannot decode <<128,1>>", 40),
        (
            P1 + header(1, 0, b"\x80\0\x20abc"),
            "501 FRAME_ERROR - cannot decode <<128,0,32,97,98,99>>",
            40,
        ),
        (
            frame(1, 1, struct.pack(">HH", 60, 80) + b"\0\0\0"),
            "501 FRAME_ERROR - cannot decode <<0,0,0>>",
            80,
        ),
        (
            frame(1, 1, struct.pack(">HH", 60, 10)),
            "501 FRAME_ERROR - cannot decode <<>>",
            10,
        ),
        (
            frame(1, 1, struct.pack(">HH", 60, 40) + b"\0\0\0\0\0GARBAGE"),
            "501 FRAME_ERROR - cannot decode <<0,0,0,0,0,71,65,82,66,65,71,69>>",
            40,
        ),
        (
            frame(1, 1, struct.pack(">HH", 60, 40) + b"\0\0\0\x03\xff\xfe\xfd\0"),
            "501 FRAME_ERROR - Malformed UTF-8 in shortstr",
            0,
        ),
        (
            frame(1, 1, struct.pack(">HH", 60, 999)),
            "503 COMMAND_INVALID - unknown method 60.999",
            999,
        ),
    ],
)
def test_wrong_frame_is_told_in_the_words_of_rabbitmq(raw: bytes, text: str, where: int) -> None:
    """Recorded from RabbitMQ 3.10.8, but for body too long, properties and unknown methods."""
    assert violation_of(raw) == (text, 60 if where else 0, where)
    assert violation_of(*[raw[pos : pos + 1] for pos in range(len(raw))])[0] == text


def test_wrong_method_on_channel_0_is_told_too() -> None:
    raw = frame(1, 0, struct.pack(">HH", 999, 1))
    assert violation_of(raw)[0] == "503 COMMAND_INVALID - unknown method 999.1"


def test_frame_above_frame_max_is_refused_at_its_head() -> None:
    connection = running()
    connection.frame_max = 4096
    feed(connection, [P1 + header(1, 9000)])
    (violation,) = flatten(feed(connection, [struct.pack(">BHI", 3, 1, 5000)]))
    assert violation[1] == (
        "501 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,5000,4088}"
    )


def test_frame_of_exactly_frame_max_is_accepted() -> None:
    connection = running()
    connection.frame_max = 4096
    (event,) = feed(connection, [P1 + header(1, 4088) + body(1, b"x" * 4088)])
    assert isinstance(event, Publishes)


def test_frame_without_frame_max_is_bounded_by_the_message_size() -> None:
    connection = running()
    connection.frame_max = 0
    connection.max_message_size = 500_000
    (event,) = feed(connection, [P1 + header(1, 500_000) + body(1, b"x" * 500_000)])
    assert isinstance(event, Publishes)
    (violation,) = flatten(feed(connection, [struct.pack(">BHI", 1, 1, 500_001)]))
    assert "{frame_too_large,500001,500000}" in str(violation[1])


def test_reply_text_fits_into_a_short_string() -> None:
    text, _, _ = violation_of(frame(1, 1, struct.pack(">HH", 50, 10) + b"\0" * 100_000))
    assert len(text) == len("501 ") + 255
    assert text.endswith("...")


def test_after_a_violation_only_the_closing_comes() -> None:
    """The peer has already sent more, and answers our close in time."""
    connection = running()
    stream = body(1, b"x") + with_content(1, PUBLISH, b"x") + ConnectionCloseOk().frame(0)
    story = flatten(feed(connection, [stream]))
    assert [part[0] for part in story] == ["violation", "method"]
    assert story[1][2] == ConnectionCloseOk()


def test_after_broken_framing_nothing_comes() -> None:
    connection = running()
    stream = frame(1, 1, b"1234", end=0) + ConnectionCloseOk().frame(0)
    assert [part[0] for part in flatten(feed(connection, [stream, stream]))] == ["violation"]


def test_protocol_header_event_is_not_confused_with_frames() -> None:
    (event,) = feed(AmqpConnection(SERVER), [b"AMQP\x01\x01\x00\x0a"])
    assert isinstance(event, ProtocolHeader)
