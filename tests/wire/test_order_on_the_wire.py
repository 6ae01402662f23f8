"""What must come before what on the socket, seen frame by frame."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pamqp import commands

from support.broker import Target
from support.peer import (
    BODY,
    FRAME_MAX,
    METHOD,
    PROTOCOL,
    Peer,
    body,
    call,
    channel_open,
    connection_open,
    frame,
    header,
    publish,
    start_ok,
    tune_ok,
)
from support.waiting import await_truth

Basic, Channel, Connection = commands.Basic, commands.Channel, commands.Connection
Confirm, Queue = commands.Confirm, commands.Queue


@pytest.fixture
def peer(target: Target) -> Iterator[Peer]:
    """Logged in, channel 1 open."""
    with Peer(target) as opened:
        yield opened.log_in().open()


def declare(name: str, channel: int = 1) -> bytes:
    return call(Queue.Declare(queue=name, exclusive=True), channel)


def confirmed(peer: Peer, count: int) -> list[int]:
    """Read acks until `count` numbers are confirmed; each once, multiple or not."""
    numbers: set[int] = set()
    in_order: list[int] = []
    while len(numbers) < count:
        ack = peer.expect("Basic.Ack")
        first = min(set(range(1, ack.delivery_tag + 1)) - numbers) if ack.multiple else None
        for number in range(first or ack.delivery_tag, ack.delivery_tag + 1):
            assert ack.multiple or number not in numbers
            if number not in numbers:
                numbers.add(number)
                in_order.append(number)
    return in_order


def test_a_return_comes_before_its_confirm(peer: Peer, name: str) -> None:
    peer.send(call(Confirm.Select())).expect("Confirm.SelectOk")
    peer.send(publish(name, b"lost", mandatory=True))
    returned = peer.expect("Basic.Return")
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
    assert peer.content() == b"lost"
    assert confirmed(peer, 1) == [1]


def test_returns_and_confirms_of_a_burst(peer: Peer, name: str) -> None:
    """Every second message is unroutable; its return precedes the ack that covers it."""
    peer.send(declare(name), call(Confirm.Select()))
    peer.expect("Queue.DeclareOk")
    peer.expect("Confirm.SelectOk")
    peer.send(
        b"".join(
            publish(name if number % 2 else f"{name}-lost", b"%d" % number, mandatory=True)
            for number in range(1, 201)
        )
    )
    returned: set[int] = set()
    acknowledged: set[int] = set()
    while len(acknowledged) < 200:
        got = peer.read()
        assert got is not None
        if got.kind == BODY:
            returned.add(int(got.payload))
        elif got.kind == METHOD and got.payload.startswith(struct.pack(">HH", 60, 80)):
            (tag,) = struct.unpack_from(">Q", got.payload, 4)
            covered = set(range(1, tag + 1)) if got.payload[12] & 1 else {tag}
            acknowledged |= covered
            assert {number for number in acknowledged if number % 2 == 0} <= returned
    assert returned == set(range(2, 201, 2))


def test_confirms_of_a_burst_are_coalesced(peer: Peer, name: str) -> None:
    peer.send(declare(name), call(Confirm.Select()))
    peer.expect("Queue.DeclareOk")
    peer.expect("Confirm.SelectOk")
    peer.send(publish(name) * 5000)
    frames = 0
    highest = 0
    while highest < 5000:
        ack = peer.expect("Basic.Ack")
        frames += 1
        assert ack.delivery_tag > highest
        assert ack.multiple or ack.delivery_tag == highest + 1
        highest = ack.delivery_tag
    assert frames < 2500
    assert peer.is_silent()


def test_numbers_count_from_confirm_select_and_all_messages(peer: Peer, name: str) -> None:
    peer.send(publish(name) * 3, call(Confirm.Select())).expect("Confirm.SelectOk")
    peer.send(publish(name) * 2)
    assert confirmed(peer, 2) == [1, 2]


def test_confirms_of_two_channels_are_counted_apart(peer: Peer, name: str) -> None:
    peer.open(2)
    for channel in (1, 2):
        peer.send(call(Confirm.Select(), channel)).expect("Confirm.SelectOk")
    peer.send(publish(name, channel=1), publish(name, channel=2))
    tags = []
    for _ in range(2):
        got = peer.read()
        assert got is not None
        tags.append((got.channel, struct.unpack_from(">Q", got.payload, 4)[0]))
    assert sorted(tags) == [(1, 1), (2, 1)]


def test_consume_ok_comes_before_the_first_delivery(peer: Peer, name: str) -> None:
    peer.send(declare(name), publish(name) * 10, call(Basic.Consume(queue=name)))
    peer.expect("Queue.DeclareOk")
    peer.expect("Basic.ConsumeOk")
    for _ in range(10):
        peer.expect("Basic.Deliver")


def test_no_delivery_comes_after_cancel_ok(target: Target, peer: Peer, name: str) -> None:
    peer.send(declare(name), call(Basic.Consume(queue=name, consumer_tag="t", no_ack=True)))
    peer.expect("Queue.DeclareOk")
    peer.expect("Basic.ConsumeOk")
    with flood(target, name):
        peer.expect("Basic.Deliver")
        peer.send(call(Basic.Cancel("t")))
        while (got := peer.read()) is not None:
            if got.kind == METHOD and got.payload.startswith(struct.pack(">HH", 60, 31)):
                break
        assert peer.is_silent()
        peer.send(call(Queue.Declare(queue=name, passive=True)))
        assert peer.expect("Queue.DeclareOk").message_count > 0, "nothing was there to be delivered"


@contextmanager
def flood(target: Target, name: str) -> Iterator[None]:
    """Messages that come to a queue all the time."""
    with Peer(target) as publisher:
        publisher.log_in().open()
        over = threading.Event()

        def run() -> None:
            while not over.wait(0.001):
                publisher.send(publish(name) * 100)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def test_a_whole_session_in_one_write(target: Target, name: str) -> None:
    with Peer(target) as peer:
        peer.send(PROTOCOL, start_ok(), tune_ok(), connection_open(), channel_open())
        peer.send(declare(name), publish(name, b"early bird"), call(Basic.Get(queue=name)))
        for answer in ("Connection.Start", "Connection.Tune", "Connection.OpenOk"):
            peer.expect(answer)
        for answer in ("Channel.OpenOk", "Queue.DeclareOk", "Basic.GetOk"):
            peer.expect(answer)
        assert peer.content() == b"early bird"


def test_a_session_byte_by_byte(target: Target, name: str) -> None:
    """Every split point a peer's TCP can produce, from the header to a content."""
    with Peer(target) as peer:
        for part, answer in (
            (PROTOCOL, "Connection.Start"),
            (start_ok(), "Connection.Tune"),
            (tune_ok() + connection_open(), "Connection.OpenOk"),
            (channel_open(), "Channel.OpenOk"),
            (declare(name), "Queue.DeclareOk"),
            (publish(name, b"slow") + call(Basic.Get(queue=name)), "Basic.GetOk"),
        ):
            for byte in part:
                peer.send(bytes([byte]))
            peer.expect(answer)
        assert peer.content() == b"slow"


def test_contents_of_channels_may_be_interleaved(peer: Peer, name: str) -> None:
    peer.open(2).send(declare(name)).expect("Queue.DeclareOk")
    one, two = (call(Basic.Publish(routing_key=name), channel) for channel in (1, 2))
    peer.send(
        one, two, header(3), header(4, channel=2), body(b"zw", 2), body(b"xyz"), body(b"zw", 2)
    )
    peer.send(call(Basic.Get(queue=name, no_ack=True)) * 2)
    got = []
    for _ in range(2):
        peer.expect("Basic.GetOk")
        got.append(peer.content())
    assert sorted(got) == [b"xyz", b"zwzw"]


def test_a_body_in_crumbs(peer: Peer, name: str) -> None:
    """One byte a frame, with empty frames in between."""
    peer.send(declare(name), call(Basic.Publish(routing_key=name)), header(300))
    peer.send((body(b"a") + body(b"")) * 150, body(b"b") * 150, call(Basic.Get(queue=name)))
    peer.expect("Queue.DeclareOk")
    peer.expect("Basic.GetOk")
    assert peer.content() == b"a" * 150 + b"b" * 150


@pytest.mark.parametrize("frame_max", [4096, 10000, FRAME_MAX])
def test_bodies_are_cut_at_frame_max(target: Target, name: str, frame_max: int) -> None:
    with Peer(target) as peer:
        peer.log_in(frame_max=frame_max).open()
        room = frame_max - 8
        data = bytes(range(256)) * 600
        parts = [data[start : start + room] for start in range(0, len(data), room)]
        peer.send(declare(name), call(Basic.Publish(routing_key=name)), header(len(data)))
        peer.send(*map(body, parts), call(Basic.Get(queue=name)))
        peer.expect("Queue.DeclareOk")
        peer.expect("Basic.GetOk")
        assert peer.read() is not None
        sizes = []
        while sum(sizes) < len(data):
            part = peer.read()
            assert part is not None
            sizes.append(len(part.payload))
        assert sizes == [len(part) for part in parts]


def test_a_frame_above_the_negotiated_size(target: Target, name: str) -> None:
    with Peer(target) as peer:
        peer.log_in(frame_max=4096).open()
        peer.send(call(Basic.Publish(routing_key=name)), header(5000), body(b"x" * 5000))
        assert peer.verdict() == (
            "connection 501 FRAME_ERROR - type 3, all octets = <<>>: "
            "{frame_too_large,5000,4088} (0.0)"
        )


@pytest.mark.parametrize("count", [1, 3])
def test_a_payload_of_the_negotiated_size_is_forgiven(
    target: Target, name: str, count: int
) -> None:
    """Some clients count no overhead. What goes out is cut as it should be."""
    with Peer(target) as peer:
        peer.log_in(frame_max=4096).open().send(declare(name)).expect("Queue.DeclareOk")
        size = 4096 * count
        parts = [body(b"x" * 4096)] * count
        peer.send(call(Basic.Publish(routing_key=name)), header(size), *parts)
        peer.send(call(Basic.Get(queue=name, no_ack=True))).expect("Basic.GetOk")
        peer.read()
        cut = [peer.read() for _ in range(count + 1)]
        assert [len(part.payload) for part in cut if part] == [4088] * count + [8 * count]


def test_nothing_behind_a_frame_error_is_done(target: Target, peer: Peer, name: str) -> None:
    peer.send(frame(9, 1, b"x"), call(Queue.Declare(queue=name)))
    assert peer.verdict().startswith("connection 501")
    with Peer(target) as other:
        other.log_in().open().send(call(Queue.Declare(queue=name, passive=True)))
        assert other.verdict().startswith("channel 404")


def test_nothing_behind_a_channel_error_is_done(peer: Peer, name: str) -> None:
    peer.send(call(Basic.Get(queue=name)), declare(name), publish(name))
    assert peer.verdict().startswith("channel 404")
    assert peer.is_silent()
    peer.send(call(Channel.CloseOk())).open(1)
    peer.send(call(Queue.Declare(queue=name, passive=True)))
    assert peer.verdict().startswith("channel 404")


def test_a_channel_awaiting_close_ok_cannot_be_opened(peer: Peer, name: str) -> None:
    peer.send(call(Basic.Get(queue=name)))
    assert peer.verdict().startswith("channel 404")
    peer.send(channel_open())
    assert peer.verdict().startswith("connection 504")


def test_after_close_ok_the_socket_ends(peer: Peer) -> None:
    peer.send(channel_open())
    assert peer.verdict().startswith("connection 504")
    peer.send(call(Connection.CloseOk(), 0))
    assert peer.verdict() == "end"


def test_close_ok_reaches_a_client_that_still_writes(peer: Peer, name: str) -> None:
    """A socket closed with something unread in it would be reset, and close-ok might be lost."""
    peer.send(call(Connection.Close(reply_code=200, class_id=0, method_id=0), 0))
    for _ in range(50):
        peer.send(publish(name, bytes(20_000)))
    assert not peer.is_at_end
    peer.expect("Connection.CloseOk")


def test_who_deletes_a_queue_hears_of_that_before_its_consumers_end(peer: Peer, name: str) -> None:
    for durable in (False, True):
        own = f"{name}-{durable}"
        peer.send(call(Queue.Declare(queue=own, durable=durable))).expect("Queue.DeclareOk")
        peer.send(call(Basic.Consume(queue=own, consumer_tag="t"))).expect("Basic.ConsumeOk")
        peer.send(call(Queue.Delete(queue=own))).expect("Queue.DeleteOk")
        assert peer.expect("Basic.Cancel").consumer_tag == "t"


def test_close_is_answered_and_a_closed_channel_is_free(peer: Peer, name: str) -> None:
    peer.send(call(Channel.Close(200, "", 0, 0))).expect("Channel.CloseOk")
    peer.open().send(declare(name)).expect("Queue.DeclareOk")
    peer.send(call(Connection.Close(200, "", 0, 0), 0)).expect("Connection.CloseOk")


def test_what_was_asked_before_a_close_is_answered_before_it(peer: Peer, name: str) -> None:
    close = call(Channel.Close(200, "", 0, 0))
    peer.send(declare(name), publish(name), call(Basic.Get(queue=name)), close)
    peer.expect("Queue.DeclareOk")
    peer.expect("Basic.GetOk")
    peer.expect("Channel.CloseOk")


@pytest.mark.parametrize("nowait", [True, False])
@pytest.mark.parametrize("what", ["Channel", "Connection"])
def test_what_was_published_before_a_close_counts(
    target: Target, peer: Peer, name: str, what: str, nowait: bool
) -> None:
    """One write: declare, publish, close. The publishes must not be lost behind the declare."""
    close = call(getattr(commands, what).Close(200, "", 0, 0), 1 if what == "Channel" else 0)
    with Peer(target) as leaving:
        leaving.log_in().open()
        leaving.send(call(Queue.Declare(queue=name, nowait=nowait)), publish(name) * 3, close)
        while (said := leaving.verdict()) == "Queue.DeclareOk":
            pass
        assert said == f"{what}.CloseOk"
    peer.send(call(Queue.Delete(queue=name)))
    assert peer.expect("Queue.DeleteOk").message_count == 3


def test_tag_zero_is_unknown_in_a_run_of_acks_too(peer: Peer, name: str) -> None:
    peer.send(declare(name), publish(name) * 3, call(Basic.Get(queue=name)) * 3)
    peer.expect("Queue.DeclareOk")
    for _ in range(3):
        peer.expect("Basic.GetOk")
    peer.content()
    peer.send(call(Basic.Ack(2)), call(Basic.Ack(0)), call(Basic.Ack(1)))
    assert peer.verdict() == ("channel 406 PRECONDITION_FAILED - unknown delivery tag 0 (60.80)")


def test_a_message_cut_off_in_its_body_is_none(target: Target, peer: Peer, name: str) -> None:
    with Peer(target) as cut:
        cut.log_in().open()
        peer.send(call(Queue.Declare(queue=name, auto_delete=True))).expect("Queue.DeclareOk")
        cut.send(call(Basic.Publish(routing_key=name)), header(1000), body(b"x" * 400))
    peer.send(call(Basic.Get(queue=name))).expect("Basic.GetEmpty")
    peer.send(call(Queue.Delete(queue=name))).expect("Queue.DeleteOk")


def test_the_last_words_before_a_half_close_count(target: Target, peer: Peer, name: str) -> None:
    peer.send(declare(name)).expect("Queue.DeclareOk")
    with Peer(target) as leaving:
        leaving.log_in().open().send(publish(name, b"last words"))
        leaving.socket.shutdown(socket.SHUT_WR)
        assert leaving.verdict() == "end"

    def is_there() -> bool:
        return peer.send(call(Basic.Get(queue=name))).verdict() == "Basic.GetOk"

    await_truth(is_there)
    assert peer.content() == b"last words"


def test_properties_come_back_byte_for_byte(peer: Peer, name: str) -> None:
    """Every field type there is, in an order no encoder would choose."""
    entries = b"".join(
        bytes([1]) + bytes([97 + place]) + value
        for place, value in enumerate(
            (
                b"t\x01",
                b"b\xff",
                b"B\xff",
                b"s\xff\xff",
                b"u\xff\xff",
                b"I\xff\xff\xff\xff",
                b"i\xff\xff\xff\xff",
                b"l" + b"\xff" * 8,
                b"f\x3f\x80\0\0",
                b"d" + bytes(8),
                b"D\x02\0\0\1\0",
                b"S\0\0\0\3abc",
                b"x\0\0\0\3\0\1\2",
                b"A\0\0\0\2t\1",
                b"T" + bytes(8),
                b"F\0\0\0\0",
                b"V",
            )
        )
    )
    properties = (
        b"\xff\xfc\4text\5utf-8"
        + struct.pack(">I", len(entries))
        + entries
        + b"\2\5\4corr\5reply\00512345\3mid"
        + struct.pack(">Q", 1_700_000_000)
        + b"\4type\5guest\3app\7cluster"
    )
    peer.send(declare(name), publish(name, b"x", properties=properties))
    peer.send(call(Basic.Get(queue=name)))
    peer.expect("Queue.DeclareOk")
    peer.expect("Basic.GetOk")
    head = peer.read()
    assert head is not None
    assert head.payload[12:] == properties


def test_a_refused_message_takes_none_before_it_along(peer: Peer, name: str) -> None:
    """Goal: one bad message in a run closes the channel, and the run before it counts.

    Method: good, good, bad, good in one write; then count what is in the queue.
    """
    bad = b"\x01\x00\x03abc"  # expiration "abc"
    peer.send(declare(name)).expect("Queue.DeclareOk")
    peer.send(
        publish(name, b"1")
        + publish(name, b"two")
        + publish(name, b"3", properties=bad)
        + publish(name, b"4")
    )
    assert peer.verdict().startswith("channel 406 PRECONDITION_FAILED - invalid expiration")
    peer.send(call(Channel.CloseOk()), channel_open())
    peer.expect("Channel.OpenOk")
    peer.send(call(Queue.Declare(queue=name, passive=True)))
    assert peer.expect("Queue.DeclareOk").message_count == 2
