"""Goal: large body frames that are taken in pieces read as those that come whole.

Method: streams of large and small frames of two channels, one octet of them changed perhaps, cut
anywhere; what comes is compared with what comes of the whole stream at once.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.connection import AmqpConnection
from sluicemq.amqp.events import ContentDue, Publishes
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.methods import BasicAck, BasicPublish
from sluicemq.amqp.pieces import PIECE_BYTES, Pieces
from sluicemq.sim.checkers import held_by_codec
from support.thorough import examples

from .streams import PERSISTENT, body, cut_at, drain, feed, flatten, header, running, with_content

PUBLISH = BasicPublish("", "q")
OCTETS = Random(0).randbytes(20_000)

frame_sizes = st.sampled_from([0, 10, PIECE_BYTES, PIECE_BYTES + 1, 9000])
messages = st.tuples(st.integers(1, 2), st.lists(frame_sizes, min_size=1, max_size=3))


def message(channel: int, sizes: list[int]) -> list[bytes]:
    """The frames of a publish whose body frames have these sizes."""
    bodies = [body(channel, OCTETS[size : 2 * size]) for size in sizes]
    return [PUBLISH.frame(channel), header(channel, sum(sizes), PERSISTENT), *bodies]


def stream_of(published: list[tuple[int, list[int]]], mixed: bool) -> bytes:
    """All these messages; if `mixed` those of two channels frame by frame in turn."""
    of_channel: dict[int, list[bytes]] = {1: [], 2: []}
    for channel, sizes in published:
        of_channel[channel if mixed else 1] += message(channel if mixed else 1, sizes)
    frames: list[bytes] = []
    while of_channel[1] or of_channel[2]:
        for waiting in of_channel.values():
            frames += waiting[:1]
            del waiting[:1]
    return b"".join(frames)


def in_pieces() -> AmqpConnection:
    connection = running()
    connection.large_bytes = PIECE_BYTES
    return connection


@examples(60)
@given(
    published=st.lists(messages, min_size=1, max_size=4),
    mixed=st.booleans(),
    places=st.lists(st.integers(0, 1 << 16), max_size=12),
    change=st.none() | st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)),
)
def test_pieces_read_as_the_whole(
    published: list[tuple[int, list[int]]],
    mixed: bool,
    places: list[int],
    change: tuple[int, int] | None,
) -> None:
    raw = bytearray(stream_of(published, mixed))
    if change is not None:
        raw[change[0] % len(raw)] ^= change[1]
    stream = bytes(raw)
    cut = in_pieces()
    story = []
    for chunk in cut_at(stream, places):
        story += feed(cut, [chunk])
        assert cut.held_bytes == held_by_codec(cut)
    assert flatten(story) == flatten(feed(running(fast=False), [stream]))


def test_a_large_body_is_copied_once() -> None:
    """Its pieces are views of what was read until it is whole."""
    connection = in_pieces()
    stream = with_content(1, PUBLISH, OCTETS)
    assert feed(connection, [stream[:9000], stream[9000:18000]]) == []
    parts = connection._contents[1].frames.parts
    assert [type(part) for part in parts] == [memoryview, memoryview]
    (event,) = feed(connection, [stream[18000:]])
    assert isinstance(event, Publishes)
    assert event.contents == [content_frames(1, PERSISTENT, OCTETS, 131072)]


def test_a_small_part_of_a_read_does_not_keep_all_of_it() -> None:
    pieces = Pieces()
    pieces.add(OCTETS, 0, PIECE_BYTES)
    assert type(pieces.parts[0]) is bytes
    pieces.add(OCTETS, PIECE_BYTES, 2 * PIECE_BYTES + 1000)
    assert type(pieces.parts[1]) is memoryview
    assert pieces.joined() == OCTETS[: 2 * PIECE_BYTES + 1000]


def test_single_octets_are_joined() -> None:
    pieces = Pieces()
    for at in range(1000):
        pieces.add(OCTETS, at, at + 1)
    assert len(pieces.parts) == 1
    assert pieces.joined(b"x") == b"x" + OCTETS[:1000]


@pytest.mark.parametrize("all_channels", [False, True])
def test_the_rest_of_a_frame_that_nobody_wants_is_dropped(all_channels: bool) -> None:
    connection = in_pieces()
    stream = with_content(1, PUBLISH, OCTETS)
    assert feed(connection, [stream[:9000]]) == []
    if all_channels:
        connection.ignore_all()
    else:
        connection.ignore_content(1)
    assert connection.held_bytes == 0
    story = flatten(feed(connection, [stream[9000:], BasicAck(7).frame(2)]))
    assert story == ([] if all_channels else [("ack", 2, 7)])
    assert connection.held_bytes == 0


def test_pieces_wait_while_no_content_is_wanted() -> None:
    connection = in_pieces()
    stream = with_content(1, PUBLISH, OCTETS)
    assert feed(connection, [stream[:9000]]) == []
    connection.wants_content = False
    connection.receive_data(stream[9000:12_000])
    assert isinstance(connection.next_event(), ContentDue)
    assert isinstance(connection.next_event(), ContentDue)
    connection.wants_content = True
    assert drain(connection) == []
    (event,) = feed(connection, [stream[12_000:]])
    assert isinstance(event, Publishes)
    assert event.contents == [content_frames(1, PERSISTENT, OCTETS, 131072)]


@pytest.mark.parametrize("size", [PIECE_BYTES, 9000, 20_000])
def test_a_wrong_end_of_pieces_is_told_as_that_of_a_whole_frame(size: int) -> None:
    stream = with_content(1, PUBLISH, OCTETS[:size])[:-1] + b"\x00"
    pieces = flatten(feed(in_pieces(), [stream[:3000], stream[3000:]]))
    assert len(pieces) == 1
    assert pieces == flatten(feed(running(fast=False), [stream]))
