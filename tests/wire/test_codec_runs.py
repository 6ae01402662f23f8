"""The cutters of runs against the frame-by-frame path: any stream, right or wrong, reads alike.

Goal: the fast path is an optimisation and nothing else. Method: random sequences of what peers
send, with runs of equal messages in them, sometimes with one octet changed, in random pieces.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.connection import CLIENT, SERVER
from sluicemq.amqp.events import Acks, Deliveries, Publishes
from sluicemq.amqp.frames import HEARTBEAT_FRAME, content_body
from sluicemq.amqp.methods import BasicAck, BasicCancel, BasicDeliver, BasicPublish
from sluicemq.amqp.properties import BasicProperties, free_spans
from support.thorough import examples

from .streams import body, cut_at, feed, flatten, header, running, with_content

FRAME_MAX = 64
Q = BasicPublish("", "q")

MID = b"\0\x80\x03%03d"
HEADERS = b"\x30\0\0\0\0\x0d\x01ks%b\x01tx\0\0\0\x01%c\x02"
"""With a number and an octet as values."""

LONG = b"\x80\0\x46" + b"t" * 70
"""Properties whose header frame is larger than frame_max."""

channels = st.sampled_from([1, 1, 1, 2])
bodies = st.sampled_from([b"", b"a", b"abcde", b"\xce" * 5, b"x" * 56, b"y" * 57, b"z" * 200])
raws = st.sampled_from(
    [
        b"\x10\0\x02",
        b"\x10\0\x02",
        b"\x10\0\x01",
        b"\0\0",
        b"\x08\x80\x05\x03mid",
        MID % 1,
        MID % 2,
        b"\x80\x01",
        LONG,
    ]
)
publish_methods = st.sampled_from([Q, Q, Q, BasicPublish("x", "key")])
deliver_methods = st.builds(
    BasicDeliver,
    st.just("tag"),
    st.integers(0, 2**64 - 1),
    st.sampled_from([False, False, True]),
    st.just(""),
    st.sampled_from(["q", "q", "key"]),
)
ack_frames = st.builds(
    lambda tag, multiple, channel: BasicAck(tag, multiple).frame(channel),
    st.integers(0, 2**64 - 1),
    st.sampled_from([False, False, False, True]),
    channels,
)


def one_message(
    methods: st.SearchStrategy[BasicPublish | BasicDeliver],
) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda channel, method, data, raw: with_content(channel, method, data, raw, FRAME_MAX),
        channels,
        methods,
        bodies,
        raws,
    )


def same_size_publishes(count: int, size: int, fill: int) -> bytes:
    return b"".join(
        with_content(1, Q, bytes(((fill + n) % 256,)) * size, frame_max=FRAME_MAX)
        for n in range(count)
    )


def numbered_publishes(count: int, size: int, fill: int) -> bytes:
    """Alike but for values: a name of their own, or two headers."""
    raws = [MID % n if fill % 2 else numbered_headers(n) for n in range(count)]
    return b"".join(with_content(1, Q, bytes((fill,)) * size, raw, FRAME_MAX) for raw in raws)


def numbered_headers(number: int) -> bytes:
    return HEADERS % (number.to_bytes(2), number % 256)


def same_size_deliveries(count: int, size: int, fill: int) -> bytes:
    return b"".join(
        with_content(1, BasicDeliver("tag", fill + n, False, "", "q"), bytes((n % 256,)) * size)
        for n in range(count)
    )


counts = st.integers(1, 30)
sizes = st.sampled_from([0, 1, 5, 40, 56])
fills = st.integers(0, 255)
mixed_contents = st.just(
    Q.frame(1) + Q.frame(2) + header(1, 1) + header(2, 1) + body(2, b"2") + body(1, b"1")
)
others = st.sampled_from([HEARTBEAT_FRAME, BasicCancel("t").frame(1), BasicCancel("t").frame(0)])

to_server = st.lists(
    st.one_of(
        st.builds(same_size_publishes, counts, sizes, fills),
        st.builds(numbered_publishes, counts, sizes, fills),
        one_message(publish_methods),
        st.lists(ack_frames, min_size=1, max_size=8).map(b"".join),
        mixed_contents,
        others,
    ),
    max_size=8,
).map(b"".join)
to_client = st.lists(
    st.one_of(
        st.builds(same_size_deliveries, counts, sizes, fills),
        one_message(deliver_methods),
        st.lists(ack_frames, min_size=1, max_size=8).map(b"".join),
        others,
    ),
    max_size=8,
).map(b"".join)
run_maxima = st.sampled_from([1, 2, 7, 8, 9, 200])
places = st.lists(st.integers(0, 2**16), max_size=6)
changes = st.none() | st.tuples(st.integers(0, 2**16), st.integers(1, 255))


def changed(stream: bytes, change: tuple[int, int] | None) -> bytes:
    """`stream`, perhaps with one octet changed."""
    if change is None or not stream:
        return stream
    raw = bytearray(stream)
    raw[change[0] % len(raw)] ^= change[1]
    return bytes(raw)


def check_same(role: int, stream: bytes, where: list[int], run_max: int) -> None:
    slow = running(role, fast=False)
    quick = running(role, run_max=run_max)
    for connection in (slow, quick):
        connection.frame_max = FRAME_MAX
        connection.max_message_size = 150
    events = feed(quick, cut_at(stream, where))
    assert flatten(events) == flatten(feed(slow, [stream]))
    for event in events:
        if isinstance(event, Publishes | Deliveries):
            assert 1 <= len(event.contents) <= run_max
        if isinstance(event, Publishes) and event.same_properties:
            heads = {content[: content.index(b"\xce") + 1] for content in event.contents}
            assert len(heads) == 1
        if isinstance(event, Publishes) and event.same_size:
            assert len(set(map(len, event.contents))) == 1
            assert len(set(map(fixed_part, event.contents))) == 1


def fixed_part(content: bytes) -> bytes:
    """The properties of a content, without what is free to change."""
    raw = bytearray(content[19 : content.index(b"\xce", 18)])
    for start, end in free_spans(bytes(raw)):
        raw[start:end] = bytes(end - start)
    return bytes(raw)


@examples(150)
@given(stream=to_server, where=places, run_max=run_maxima, change=changes)
def test_server_reads_the_same_by_both_paths(
    stream: bytes, where: list[int], run_max: int, change: tuple[int, int] | None
) -> None:
    check_same(SERVER, changed(stream, change), where, run_max)


@examples(150)
@given(stream=to_client, where=places, run_max=run_maxima, change=changes)
def test_client_reads_the_same_by_both_paths(
    stream: bytes, where: list[int], run_max: int, change: tuple[int, int] | None
) -> None:
    check_same(CLIENT, changed(stream, change), where, run_max)


@pytest.mark.parametrize("role", [SERVER, CLIENT])
@pytest.mark.parametrize("fill", [2, 3])
def test_every_changed_octet_reads_the_same_by_both_paths(role: int, fill: int) -> None:
    """Twelve messages that are alike; each octet in turn, in each of its bits' company."""
    make = numbered_publishes if role == SERVER else same_size_deliveries
    stream = make(12, 5, fill)
    for place in range(len(stream)):
        for bits in (0x01, 0x80, 0xFF):
            check_same(role, changed(stream, (place, bits)), [], 200)


# -- what comes in one piece


def test_publishes_of_one_size_come_as_one_run() -> None:
    stream = same_size_publishes(50, 20, 0)
    (event,) = feed(running(), [stream])
    assert isinstance(event, Publishes)
    assert (len(event.contents), event.same_properties, event.method) == (50, True, Q)
    assert content_body(event.contents[49]) == bytes((49,)) * 20


@pytest.mark.parametrize("fill", [2, 3])
def test_publishes_that_differ_in_values_come_as_one_run(fill: int) -> None:
    (event,) = feed(running(), [numbered_publishes(50, 20, fill)])
    assert isinstance(event, Publishes)
    assert (len(event.contents), event.same_properties, event.same_size) == (50, False, True)
    assert event.contents[49] == numbered_publishes(50, 20, fill)[-len(event.contents[49]) :]


@pytest.mark.parametrize(
    "raws",
    [
        (b"\x10\0\x01", b"\x10\0\x02"),
        (b"\x01\0\x0210", b"\x01\0\x0220"),
        (b"\x00\x10\x01a", b"\x00\x10\x01b"),
        (b"\x02\0\x01a", b"\x02\0\x01b"),
        (b"\x20\0\0\0\0\x04\x01ksx", b"\x20\0\0\0\0\x04\x01lsx"),
    ],
)
def test_what_a_broker_looks_at_does_not_vary_in_a_run(
    raws: tuple[bytes, bytes],
) -> None:
    """Delivery mode, expiration, user, reply-to, names of headers."""
    stream = b"".join(with_content(1, Q, b"x", raws[n % 2]) for n in range(10))
    for event in feed(running(), [stream]):
        assert isinstance(event, Publishes)
        assert not event.same_size or len(event.contents) == 1


def test_mixed_publishes_come_as_one_run() -> None:
    stream = b"".join(with_content(1, Q, b"x" * n) for n in (3, 3, 0, 9, 9, 1))
    (event,) = feed(running(), [stream])
    assert isinstance(event, Publishes)
    assert (len(event.contents), event.same_properties) == (6, False)


def test_run_ends_at_run_max() -> None:
    events = feed(running(run_max=20), [same_size_publishes(50, 20, 0)])
    assert [len(event.contents) for event in events if isinstance(event, Publishes)] == [20, 20, 10]


def test_run_ends_where_the_buffer_does_and_goes_on_with_the_next() -> None:
    stream = same_size_publishes(50, 20, 0)
    events = feed(running(), [stream[:1000], stream[1000:]])
    runs = [len(event.contents) for event in events if isinstance(event, Publishes)]
    assert sum(runs) == 50
    assert len(runs) == 3


def test_deliveries_of_one_size_come_as_one_run() -> None:
    (event,) = feed(running(CLIENT), [same_size_deliveries(50, 20, 7)])
    assert isinstance(event, Deliveries)
    assert event.tags == list(range(7, 57))
    assert (event.consumer_tag, event.routing_key, event.redelivered) == ("tag", "q", False)
    assert content_body(event.contents[49]) == bytes((49,)) * 20


def test_mixed_deliveries_come_as_one_run() -> None:
    sizes = (3, 3, 0, 9, 9, 1)
    deliveries = [BasicDeliver("tag", 7 + n, False, "", "q") for n in range(len(sizes))]
    stream = b"".join(
        with_content(1, method, bytes((n,)) * size)
        for n, (method, size) in enumerate(zip(deliveries, sizes, strict=True))
    )
    (event,) = feed(running(CLIENT), [stream])
    assert isinstance(event, Deliveries)
    assert event.tags == [7, 8, 9, 10, 11, 12]
    assert [len(content_body(each)) for each in event.contents] == [3, 3, 0, 9, 9, 1]


def test_deliveries_of_a_stream_are_of_one_run_though_their_offsets_differ() -> None:
    stream = b"".join(
        BasicDeliver("tag", 7 + n, False, "", "s").frame(1)
        + header(1, 4, BasicProperties(headers={"x-stream-offset": 2**40 + n}).encode())
        + body(1, bytes((n,)) * 4)
        for n in range(50)
    )
    (event,) = feed(running(CLIENT), [stream])
    assert isinstance(event, Deliveries)
    assert event.tags == list(range(7, 57))
    assert event.stride * 50 == len(stream)
    assert [content_body(each) for each in event.contents] == [bytes((n,)) * 4 for n in range(50)]


@pytest.mark.parametrize("sizes", [(4,) * 12, (4, 5, 6)])
def test_one_content_of_a_run_can_be_cut(sizes: tuple[int, ...]) -> None:
    stream = b"".join(
        with_content(1, BasicDeliver("tag", n + 1, False, "", "q"), bytes((n,)) * size)
        for n, size in enumerate(sizes)
    )
    (event,) = feed(running(CLIENT), [stream])
    assert isinstance(event, Deliveries)
    ends = [content_body(event.content(n))[0] for n in (0, len(sizes) - 1, -1)]
    assert ends == [0, len(sizes) - 1, len(sizes) - 1]
    assert event.contents[1] == event.content(1)


def test_acks_come_as_runs_of_one_channel() -> None:
    stream = b"".join(BasicAck(n).frame(1 + n // 5000) for n in range(6000))
    events = feed(running(), [stream])
    runs = [(event.channel, len(event.tags)) for event in events if isinstance(event, Acks)]
    assert runs == [(1, 4096), (1, 904), (2, 1000)]


@pytest.mark.parametrize("role", [SERVER, CLIENT])
def test_run_stops_before_what_is_too_large_for_its_owner(role: int) -> None:
    """A limit lowered between two messages counts for the next."""
    message = same_size_publishes(1, 20, 0) if role == SERVER else same_size_deliveries(1, 20, 0)
    connection = running(role)
    assert len(feed(connection, [message])) == 1
    connection.max_message_size = 10
    story = flatten(feed(connection, [message]))
    assert [part[0] for part in story] == ["too large"]


def test_delivery_methods_that_never_repeat_are_forgotten() -> None:
    connection = running(CLIENT)
    for n in range(2000):
        feed(connection, [with_content(1, BasicDeliver("tag", n, False, "", str(n)), b"x")])
    assert len(connection._delivers) <= 1024


def test_body_that_looks_like_a_message_is_a_body() -> None:
    inner = with_content(1, Q, b"trick")
    stream = with_content(1, Q, inner) * 10
    (event,) = feed(running(), [stream])
    assert isinstance(event, Publishes)
    assert [content_body(content) for content in event.contents] == [inner] * 10
