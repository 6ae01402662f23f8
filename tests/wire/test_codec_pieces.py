"""Goal: large body frames that are taken in pieces, or read into room for their content, read as
those that come whole.

Method: streams of large and small frames of two channels, one octet of them changed perhaps, cut
anywhere; what comes is compared with what comes of the whole stream at once.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.connection import AmqpConnection
from sluicemq.amqp.events import ContentDue, Event, Publishes
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.methods import BasicAck, BasicPublish
from sluicemq.amqp.pieces import PIECE_BYTES, Pieces
from sluicemq.amqp.room import Room
from sluicemq.errors import ConnectionViolation
from sluicemq.sim.checkers import held_by_codec
from support.thorough import examples

from .streams import PERSISTENT, body, cut_at, drain, feed, flatten, header, running, with_content

PUBLISH = BasicPublish("", "q")
OCTETS = Random(0).randbytes(20_000)

frame_sizes = st.sampled_from([0, 10, PIECE_BYTES, PIECE_BYTES + 1, 9000])
sizes_of_frames = st.lists(frame_sizes, min_size=1, max_size=3) | st.builds(
    lambda size, count, last: [size] * count + [last],
    st.sampled_from([PIECE_BYTES, 6000]),
    st.integers(1, 3),
    st.integers(1, PIECE_BYTES),
)
messages = st.tuples(st.integers(1, 2), sizes_of_frames)


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


def with_room() -> AmqpConnection:
    connection = in_pieces()
    connection.room_bytes = PIECE_BYTES
    return connection


def read_in(connection: AmqpConnection, chunk: bytes) -> list[Event | ConnectionViolation]:
    """Events of these octets, which are read into the room that there is."""
    room = connection.room()
    if room is None:
        return feed(connection, [chunk])
    count = min(len(room), len(chunk))
    room[:count] = chunk[:count]
    connection.filled(count)
    events = drain(connection)
    return events + (read_in(connection, chunk[count:]) if count < len(chunk) else [])


@examples(60)
@given(
    published=st.lists(messages, min_size=1, max_size=4),
    mixed=st.booleans(),
    places=st.lists(st.integers(0, 1 << 16), max_size=12),
    change=st.none() | st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)),
    has_room=st.booleans(),
)
def test_pieces_read_as_the_whole(
    published: list[tuple[int, list[int]]],
    mixed: bool,
    places: list[int],
    change: tuple[int, int] | None,
    has_room: bool,
) -> None:
    raw = bytearray(stream_of(published, mixed))
    if change is not None:
        raw[change[0] % len(raw)] ^= change[1]
    stream = bytes(raw)
    cut = with_room() if has_room else in_pieces()
    story = []
    for chunk in cut_at(stream, places):
        story += read_in(cut, chunk) if has_room else feed(cut, [chunk])
        assert cut.held_bytes == held_by_codec(cut)
    assert flatten(story) == flatten(feed(running(fast=False), [stream]))


STREAM = with_content(1, PUBLISH, OCTETS, frame_max=6000)
CONTENT = content_frames(1, PERSISTENT, OCTETS, 6000)
FIRST = len(STREAM) - len(CONTENT) + len(header(1, 0, PERSISTENT)) + 10_500
"""So many octets are more than half of the content."""


def test_the_rest_of_a_large_content_is_read_into_what_it_becomes() -> None:
    connection = with_room()
    assert read_in(connection, STREAM[:FIRST]) == []
    room = connection.room()
    assert room is not None
    assert len(room) == len(STREAM) - FIRST
    held = connection.held_bytes
    assert held >= len(CONTENT)
    room[:9000] = STREAM[FIRST : FIRST + 9000]
    connection.filled(9000)
    assert drain(connection) == []
    assert connection.held_bytes == held == held_by_codec(connection)
    room = connection.room()
    assert room is not None
    store = connection._contents[1].frames
    assert isinstance(store, Room)
    room[:] = STREAM[FIRST + 9000 :]
    connection.filled(len(STREAM) - FIRST - 9000)
    (event,) = drain(connection)
    assert isinstance(event, Publishes)
    assert event.contents == [CONTENT]
    assert event.contents[0] is store.store.getvalue(), "it was copied"
    assert connection.held_bytes == 0


def test_little_of_a_content_gets_no_room_from_one_who_never_sent_as_much() -> None:
    connection = with_room()
    little = FIRST - 3000
    assert read_in(connection, STREAM[:little]) == []
    assert connection.room() is None
    assert len(read_in(connection, STREAM[little:] + STREAM[:little])) == 1
    assert connection.room() is not None


def test_frames_that_are_not_as_expected_make_the_room_grow() -> None:
    connection = with_room()
    frames = message(1, [6000, 6000, 6000, 4096, 10, 10, 4000])
    stream = b"".join(frames)
    assert read_in(connection, stream[:14_000]) == []
    assert connection.room() is not None
    (event,) = read_in(connection, stream[14_000:])
    assert isinstance(event, Publishes)
    whole = running(fast=False)
    assert flatten([event]) == flatten(feed(whole, [stream]))


def test_nothing_is_read_into_room_that_nobody_wants() -> None:
    connection = with_room()
    assert read_in(connection, STREAM[:FIRST]) == []
    connection.wants_content = False
    assert connection.room() is None
    connection.wants_content = True
    connection.receive_data(b"x")
    assert connection.room() is None
    connection.ignore_content(1)
    assert connection.room() is None
    assert drain(connection) == []
    assert connection.room() is None


def test_reads_in_the_midst_of_a_large_body_stay_as_they_are() -> None:
    """Until it is whole; of the read in which it begins only its part is kept."""
    connection = in_pieces()
    stream = with_content(1, PUBLISH, OCTETS)
    first, second = stream[:9000], stream[9000:18000]
    assert feed(connection, [first, second]) == []
    frames = connection._contents[1].frames
    assert isinstance(frames, Pieces)
    begun, middle = frames.parts
    assert middle is second
    assert len(begun) < len(first)
    assert begun == first[-len(begun) :]
    (event,) = feed(connection, [stream[18000:]])
    assert isinstance(event, Publishes)
    assert event.contents == [content_frames(1, PERSISTENT, OCTETS, 131072)]


def test_a_small_part_of_a_read_does_not_keep_all_of_it() -> None:
    pieces = Pieces()
    pieces.add(OCTETS, 0, PIECE_BYTES)
    pieces.add(OCTETS, PIECE_BYTES, 15_000)
    assert [type(part) for part in pieces.parts] == [bytes, bytes]
    assert pieces.joined() == OCTETS[:15_000]


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
