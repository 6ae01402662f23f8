"""Hostile bytes: nothing but a declared error comes out, and memory follows what came in."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.connection import CLIENT, SERVER, AmqpConnection
from sluicemq.amqp.events import MethodFrame, Publishes
from sluicemq.amqp.methods import ALL_METHODS, BasicPublish, QueueDeclare
from sluicemq.errors import ConnectionViolation
from support.thorough import examples

from .streams import body, drain, feed, flatten, frame, header, running, with_content

Q = BasicPublish("", "q")
IDS = sorted({(method.class_id, method.method_id) for method in ALL_METHODS})

method_payloads = st.builds(
    lambda ids, raw: struct.pack(">HH", *ids) + raw,
    st.sampled_from(IDS) | st.tuples(st.integers(0, 65535), st.integers(0, 65535)),
    st.binary(max_size=40),
)
header_payloads = st.builds(
    lambda class_id, weight, size, raw: struct.pack(">HHQ", class_id, weight, size) + raw,
    st.sampled_from([60, 60, 60, 50, 999]),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([0, 1, 5, 300, 2**63, 2**64 - 1]),
    st.sampled_from([b"\0\0", b"\x10\0\2", b"\x80\1", b"\xff\xff"]) | st.binary(max_size=30),
)
frames = st.one_of(
    st.builds(frame, st.just(1), st.integers(0, 3), method_payloads),
    st.builds(frame, st.just(2), st.integers(0, 3), header_payloads),
    st.builds(frame, st.just(3), st.integers(0, 3), st.binary(max_size=40)),
    st.builds(frame, st.integers(0, 255), st.integers(0, 3), st.binary(max_size=20)),
    st.integers(1, 3).map(Q.frame),
    st.binary(max_size=30),
)


def peak_of(work: Callable[[], object]) -> int:
    """The most memory that `work` had in use, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@examples(200)
@given(
    role=st.sampled_from([SERVER, CLIENT]),
    parts=st.lists(frames, max_size=12),
    fast=st.booleans(),
    step=st.integers(1, 200),
)
def test_random_frames_give_events_or_a_violation(
    role: int, parts: list[bytes], fast: bool, step: int
) -> None:
    """Method: `drain` lets anything but ConnectionViolation through to the test."""
    stream = b"".join(parts)
    pieces = [stream[pos : pos + step] for pos in range(0, len(stream), step)]
    events = feed(running(role, fast), pieces)
    assert flatten(events) == flatten(feed(running(role, False), [stream]))
    violations = [event for event in events if isinstance(event, ConnectionViolation)]
    assert len(violations) <= 1
    for violation in violations:
        assert violation.code in (501, 503, 505)
        assert len(violation.reply_text.encode()) <= 255


@given(st.sampled_from([SERVER, CLIENT]), st.binary(max_size=200))
def test_random_bytes_from_the_start_give_events_or_a_violation(role: int, raw: bytes) -> None:
    feed(AmqpConnection(role), [raw[:7], raw[7:]])


@pytest.mark.parametrize("size", [100 << 20, 2**63])
def test_announced_size_costs_nothing(size: int) -> None:
    def announce() -> None:
        connection = running()
        for channel in range(1, 50):
            feed(connection, [Q.frame(channel) + header(channel, size) + body(channel, b"x")])
        feed(connection, [struct.pack(">BHI", 3, 1, 131064) + b"x"])

    assert peak_of(announce) < 300_000


def test_many_tiny_body_frames_cost_no_more_than_their_body() -> None:
    """5,000 octets in as many frames, with ten times as many empty ones between."""
    stream = (body(1, b"x") + body(1, b"") * 10) * 4_999

    def send() -> None:
        connection = running()
        feed(connection, [Q.frame(1) + header(1, 5_000)])
        for pos in range(0, len(stream), 5000):
            feed(connection, [stream[pos : pos + 5000]])

    assert peak_of(send) < 50_000


def test_large_message_costs_time_in_proportion_to_its_size() -> None:
    """32 MiB in 4 KiB reads: copied again at each of them it would be 130 GiB."""
    stream = with_content(1, Q, bytes(32 << 20))
    connection = running()
    started = time.thread_time()
    for pos in range(0, len(stream), 4096):
        connection.receive_data(stream[pos : pos + 4096])
        event = connection.next_event()
    assert isinstance(event, Publishes)
    assert event.contents[0] == stream[len(Q.frame(1)) :]
    assert time.thread_time() - started < 10


def test_frame_in_single_octets_is_put_together_once() -> None:
    stream = with_content(1, Q, bytes(130_000))
    connection = running()
    started = time.thread_time()
    for pos in range(len(stream)):
        connection.receive_data(stream[pos : pos + 1])
        event = connection.next_event()
    assert isinstance(event, Publishes)
    assert time.thread_time() - started < 10


def nested(depth: int) -> bytes:
    raw = b""
    for _ in range(depth):
        raw = b"\x01aF" + struct.pack(">I", len(raw)) + raw
    return struct.pack(">I", len(raw)) + raw


@pytest.mark.parametrize("depth", [1000, 10_000])
def test_tables_nested_beyond_reason_are_refused_in_arguments(depth: int) -> None:
    declare = frame(1, 1, struct.pack(">HH", 50, 10) + b"\0\0\0\0" + nested(depth))
    ((kind, text, *_),) = flatten(feed(running(), [declare]))
    assert kind == "violation"
    assert str(text).startswith("501 FRAME_ERROR - cannot decode <<0,0,0,0,")


def test_tables_nested_ten_deep_are_accepted_in_arguments() -> None:
    declare = frame(1, 1, struct.pack(">HH", 50, 10) + b"\0\0\0\0" + nested(10))
    (event,) = feed(running(), [declare])
    assert isinstance(event, MethodFrame)
    assert isinstance(event.method, QueueDeclare)


def test_tables_nested_beyond_reason_pass_through_in_headers() -> None:
    """They are never decoded on the way: RabbitMQ passes them on, and so do we."""
    stream = with_content(1, Q, b"x", b"\x20\0" + nested(10_000))
    (event,) = feed(running(), [stream])
    assert isinstance(event, Publishes)
    assert event.contents == [stream[len(Q.frame(1)) :]]


def test_publish_methods_that_never_repeat_are_forgotten() -> None:
    def send() -> None:
        connection = running()
        for n in range(6_000):
            connection.receive_data(with_content(1, BasicPublish("", f"key{n}"), b"x" * 100))
            drain(connection)

    assert peak_of(send) < 3_000_000
