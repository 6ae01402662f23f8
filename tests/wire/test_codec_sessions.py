"""Golden sessions of both sides: whatever the pieces the bytes come in, the events are the same.

Method: one stream that uses everything; it is cut at every position, into single octets and into
random pieces, and read by the fast and by the slow path.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.connection import CLIENT, SERVER, AmqpConnection
from sluicemq.amqp.frames import HEARTBEAT_FRAME, PROTOCOL_HEADER
from sluicemq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReturn,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
    QueueDeclareOk,
)

from .streams import Story, body, cut_at, drain, feed, flatten, header, with_content

FRAME_MAX = 128
WITH_ID = b"\x10\x80\x02\x08message1"
Q = BasicPublish("", "q")
X = BasicPublish("x", "key", mandatory=True)

TO_SERVER = b"".join(
    [
        PROTOCOL_HEADER,
        ConnectionStartOk({"product": "test"}, "PLAIN", b"\0guest\0guest", "en_US").frame(0),
        ConnectionTuneOk(2047, FRAME_MAX, 60).frame(0),
        ConnectionOpen("/").frame(0),
        ChannelOpen().frame(1) + ChannelOpen().frame(2),
        QueueDeclare("q", durable=True, arguments={"x-max-length": 5}).frame(1),
        ConfirmSelect().frame(1) + BasicQos(prefetch_count=10).frame(1),
        *[with_content(1, Q, bytes((n,)) * 8) for n in range(12)],
        with_content(1, Q, b"") * 3,
        with_content(2, X, b"abc", WITH_ID),
        with_content(1, Q, b"more than a frame holds" * 12, frame_max=FRAME_MAX),
        Q.frame(1) + X.frame(2) + header(1, 3) + header(2, 2) + body(2, b"12") + body(1, b"abc"),
        BasicConsume("q", "tag").frame(1),
        HEARTBEAT_FRAME,
        *[BasicAck(n).frame(1) for n in range(1, 12)],
        BasicAck(20, multiple=True).frame(1) + BasicAck(21).frame(2) + BasicNack(22).frame(1),
        *[with_content(1, Q, b"x" * n) for n in (5, 5, 6, 6, 1, 0, 7)],
        BasicCancel("tag").frame(1),
        ConnectionClose(200, "bye").frame(0) + ConnectionCloseOk().frame(0),
    ]
)
TO_CLIENT = b"".join(
    [
        ConnectionStart(0, 9, {"product": "RabbitMQ"}, b"PLAIN", b"en_US").frame(0),
        ConnectionTune(2047, FRAME_MAX, 60).frame(0),
        ConnectionOpenOk().frame(0) + ChannelOpenOk().frame(1),
        QueueDeclareOk("q", 5, 0).frame(1) + BasicConsumeOk("tag").frame(1),
        *[with_content(1, BasicDeliver("tag", n, False, "", "q"), b"%08d" % n) for n in range(12)],
        *[with_content(1, BasicDeliver("tag", n, True, "", "q"), b"x" * n) for n in range(12, 16)],
        with_content(1, BasicDeliver("tag", 20, False, "x", "k"), b"y" * 300, frame_max=FRAME_MAX),
        with_content(2, BasicDeliver("other", 1, False, "", "q"), b""),
        with_content(2, BasicDeliver("other", 2, False, "", "q"), b""),
        BasicDeliver("tag", 21).frame(1) + BasicDeliver("other", 3).frame(2),
        header(1, 1) + header(2, 1) + body(2, b"2") + body(1, b"1"),
        *[BasicAck(n).frame(1) for n in range(1, 12)],
        BasicAck(20, multiple=True).frame(1) + BasicNack(22).frame(1) + HEARTBEAT_FRAME,
        with_content(1, BasicReturn(312, "NO_ROUTE", "x", "k"), b"back"),
        with_content(1, BasicGetOk(30, False, "", "q", 4), b"got"),
        ConnectionBlocked("low on memory").frame(0) + BasicCancelOk("tag").frame(1),
        ConnectionCloseOk().frame(0),
    ]
)
STREAMS = {SERVER: TO_SERVER, CLIENT: TO_CLIENT}


def read(role: int, pieces: list[bytes], fast: bool = True, run_max: int = 200) -> Story:
    connection = AmqpConnection(role)
    connection.frame_max = FRAME_MAX
    connection.fast = fast
    connection.run_max = run_max
    return flatten(feed(connection, pieces))


def kinds(story: Story) -> list[str]:
    """The story in one word an event, equal neighbours counted."""
    found: list[str] = []
    for part in story:
        word = part[2].NAME if part[0] == "method" else part[0]  # type: ignore[attr-defined]
        found.append(str(word))
    return found


def test_session_to_a_server_is_golden() -> None:
    assert kinds(read(SERVER, [TO_SERVER], fast=False)) == [
        "header",
        "connection.start-ok",
        "connection.tune-ok",
        "connection.open",
        "channel.open",
        "channel.open",
        "queue.declare",
        "confirm.select",
        "basic.qos",
        *["publish"] * 19,
        "basic.consume",
        "Heartbeat",
        *["ack"] * 11,
        "basic.ack",
        "ack",
        "basic.nack",
        *["publish"] * 7,
        "basic.cancel",
        "connection.close",
        "connection.close-ok",
    ]


def test_session_to_a_client_is_golden() -> None:
    assert kinds(read(CLIENT, [TO_CLIENT], fast=False)) == [
        "connection.start",
        "connection.tune",
        "connection.open-ok",
        "channel.open-ok",
        "queue.declare-ok",
        "basic.consume-ok",
        *["deliver"] * 21,
        *["ack"] * 11,
        "basic.ack",
        "basic.nack",
        "Heartbeat",
        "content",
        "content",
        "connection.blocked",
        "basic.cancel-ok",
        "connection.close-ok",
    ]


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("role", [SERVER, CLIENT])
def test_session_is_the_same_at_every_split(role: int, fast: bool) -> None:
    stream = STREAMS[role]
    expected = read(role, [stream], fast=False)
    for place in range(len(stream) + 1):
        assert read(role, [stream[:place], stream[place:]], fast) == expected, place


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("role", [SERVER, CLIENT])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 19, 64, 1000])
def test_session_is_the_same_in_equal_pieces(role: int, fast: bool, step: int) -> None:
    stream = STREAMS[role]
    pieces = [stream[pos : pos + step] for pos in range(0, len(stream), step)]
    assert read(role, pieces, fast) == read(role, [stream], fast=False)


@given(
    role=st.sampled_from([SERVER, CLIENT]),
    places=st.lists(st.integers(0, 2**16), max_size=12),
    run_max=st.sampled_from([1, 2, 7, 8, 9, 200]),
)
def test_session_is_the_same_in_random_pieces(role: int, places: list[int], run_max: int) -> None:
    stream = STREAMS[role]
    story = read(role, cut_at(stream, places), run_max=run_max)
    assert story == read(role, [stream], fast=False)


@pytest.mark.parametrize("role", [SERVER, CLIENT])
def test_session_is_the_same_when_the_owner_asks_late(role: int) -> None:
    """Everything is received before the first event is asked for."""
    stream = STREAMS[role]
    connection = AmqpConnection(role)
    connection.frame_max = FRAME_MAX
    for pos in range(0, len(stream), 5):
        connection.receive_data(stream[pos : pos + 5])
    assert flatten(drain(connection)) == read(role, [stream], fast=False)
