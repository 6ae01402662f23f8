"""Goal: what a consumer reads is what was published. Method: the frames that a DeliveryEncoder
makes are read by the codec's client side, which knows nothing of it.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp import methods as m
from sluicemq.amqp.connection import CLIENT, AmqpConnection
from sluicemq.amqp.events import ContentMethod, Deliveries
from sluicemq.amqp.frames import LARGE_BYTES, content_body, content_frames, frame_end
from sluicemq.amqp.stream_offsets import headless, with_offsets
from sluicemq.chain.channel.delivery_frames import DeliveryEncoder, got_frames, short_string
from sluicemq.flow.credit import LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.prefetch import Limiter, Prefetch
from sluicemq.limits import ENVELOPES_MAX
from sluicemq.model.traits import message_traits
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.effects import Deliver, Got, StampedDeliver
from support.fakes import FakeClock, bystander

PERSISTENT = b"\x10\x00\x02"
NO_PROPERTIES = b"\0\0"
SMALL_FRAMES = 4096
LARGE_FRAMES = 131072

bodies = st.lists(
    st.one_of(st.binary(max_size=20), st.integers(4000, 9000).map(bytes)), min_size=1, max_size=5
)
names = st.text(max_size=30)


def consumer(tag: str) -> Consumer:
    window = Outflow(GateKeeper(FakeClock()), "deliveries", LinkSpec(10, 1))
    return Consumer(bystander(), tag, False, False, 0, Prefetch(0), Limiter(), window, {})


def contents_of(some: list[bytes], number: int, raw: bytes = NO_PROPERTIES) -> list[bytes]:
    """As they came from a publisher with large frames."""
    return [content_frames(number, raw, body, LARGE_FRAMES) for body in some]


def read(data: bytes) -> list[Deliveries | ContentMethod]:
    """What a client makes of it."""
    client = AmqpConnection(CLIENT)
    client.frame_max = LARGE_FRAMES
    client.receive_data(data)
    events = []
    while (event := client.next_event()) is not None:
        assert isinstance(event, Deliveries | ContentMethod)
        events.append(event)
    return events


def largest_frame(data: bytes) -> int:
    pos = largest = 0
    while pos < len(data):
        end = frame_end(data, pos)
        largest = max(largest, end - pos)
        pos = end
    return largest


@given(
    bodies,
    st.integers(1, 65535),
    st.integers(1, 65535),
    names,
    names,
    names,
    st.booleans(),
    st.integers(1, 2**63),
    st.booleans(),
)
def test_client_reads_what_was_published(
    some: list[bytes],
    published_on: int,
    number: int,
    tag: str,
    exchange: str,
    key: str,
    redelivered: bool,
    first_tag: int,
    refit: bool,
) -> None:
    encoder = DeliveryEncoder(number, tag, SMALL_FRAMES if refit else LARGE_FRAMES, refit)
    contents = contents_of(some, published_on, PERSISTENT)
    traits = message_traits(short_string(exchange) + short_string(key), published_on, True)
    deliver = Deliver(consumer(tag), 1, contents, traits, redelivered, 1)
    data = b"".join(encoder.frames(deliver, first_tag))
    events = read(data)
    for event in events:
        assert isinstance(event, Deliveries)
        assert (event.channel, event.consumer_tag) == (number, tag)
        assert (event.exchange, event.routing_key) == (exchange, key)
        assert event.redelivered == redelivered
        assert all(
            content[19 : frame_end(content, 0) - 1] == PERSISTENT for content in event.contents
        )
    tags = [one for event in events for one in event.tags]  # type: ignore[union-attr]
    assert tags == list(range(first_tag, first_tag + len(some)))
    assert [content_body(c) for event in events for c in event.contents] == some  # type: ignore[union-attr]
    assert largest_frame(data) <= (SMALL_FRAMES if refit else LARGE_FRAMES)


NUMBERS = st.one_of(
    st.integers(1, 2**40), st.sampled_from([250, 2**16 - 5, 2**24 - 300, 2**32 - 9, 2**56 - 1])
)
"""First tags, and some before more than one octet changes."""


@pytest.mark.parametrize("size", [0, 100, LARGE_BYTES])
@given(
    count=st.integers(2, 700) | st.integers(2, 20),
    first_tag=NUMBERS,
    on=st.integers(5, 6),
    again=st.booleans(),
)
def test_contents_of_one_length_go_out_as_others_do(
    size: int, count: int, first_tag: int, on: int, again: bool
) -> None:
    encoder = DeliveryEncoder(5, "c", LARGE_FRAMES, False)
    contents = contents_of([bytes((n % 256,)) * size for n in range(count)], on)
    traits = message_traits(b"\0\x01q", on, True)
    others = Deliver(consumer("c"), 1, contents, traits, again, count)
    alike = Deliver(consumer("c"), 1, contents, traits, again, count, None, True)
    pieces = encoder.frames(alike, first_tag)
    assert b"".join(pieces) == b"".join(encoder.frames(others, first_tag))
    if on == 5 and size >= LARGE_BYTES:
        assert all(any(piece is content for piece in pieces) for content in contents)


@given(
    st.binary(min_size=1, max_size=20),
    st.integers(1, 5) | st.integers(6, 128),
    st.integers(0, 2**62) | NUMBERS,
    st.integers(4, 5),
    st.booleans(),
)
def test_contents_of_a_stream_get_their_offsets_on_any_channel(
    body: bytes, count: int, first: int, number: int, refit: bool
) -> None:
    encoder = DeliveryEncoder(number, "c", LARGE_FRAMES, refit)
    contents = contents_of([body[:1] * len(body) for _ in range(count)], 5, PERSISTENT)
    found = headless(b"?" + b"".join(contents), 1, len(contents[0]), count)
    assert found is not None
    traits = message_traits(b"\0\x01s", 5, True)
    deliver = StampedDeliver(consumer("c"), 1, found, traits, 1, first)
    whole = Deliver(consumer("c"), 1, with_offsets(contents, first), traits, False, 1)
    assert deliver.whole() == whole.contents
    assert b"".join(encoder.frames(deliver, 7)) == b"".join(encoder.frames(whole, 7))


def test_contents_with_different_headers_keep_them() -> None:
    contents = contents_of([b"one", b"two"], 5)
    other = contents_of([b"six"], 5, b"\x00\x08\x00")
    assert headless(b"".join(contents), 0, len(contents[0]), 2) is not None
    size = len(other[0])
    assert headless(other[0] + contents_of([b"x" * 4], 5)[0], 0, size, 2) is None
    assert headless(b"\xff" * 20, 0, 10, 2) is None


def test_contents_are_left_alone_when_nothing_must_change() -> None:
    """The same octets go out that came in."""
    encoder = DeliveryEncoder(5, "c", LARGE_FRAMES, False)
    contents = contents_of([b"one", b"two"], 5)
    deliver = Deliver(consumer("c"), 1, contents, message_traits(b"\0\x01q", 5, True), False, 2)
    data = b"".join(encoder.frames(deliver, 1))
    assert data.endswith(contents[1])
    assert data.count(contents[0]) == data.count(contents[1]) == 1
    assert deliver.contents == contents


@pytest.mark.parametrize("redelivered", [False, True])
def test_got_message_is_read_as_it_was_published(redelivered: bool) -> None:
    [content] = contents_of([b"x" * 5000], 9)
    got = Got(bystander(), content, 1, message_traits(b"\x01e\x01k", 9, True), redelivered, 17)
    data = got_frames(got, 4, 33, SMALL_FRAMES)
    [event] = read(data)
    assert isinstance(event, ContentMethod)
    assert event.channel == 4
    assert event.method == m.BasicGetOk(
        delivery_tag=33,
        redelivered=redelivered,
        exchange="e",
        routing_key="k",
        message_count=17,
    )
    assert content_body(event.content) == b"x" * 5000
    assert largest_frame(data) <= SMALL_FRAMES


def test_outlet_remembers_only_so_many_addresses() -> None:
    """Producers may use a new key for each message."""
    encoder = DeliveryEncoder(1, "c", LARGE_FRAMES, False)
    for number in range(ENVELOPES_MAX + 10):
        encoder.ends(short_string("") + short_string(f"key {number}"))
    assert len(encoder.known) <= ENVELOPES_MAX
