"""Goal: the count is added to what is delivered, and nothing else changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.chain.queue.delivery_counts import counted
from sluicemq.model.batch import ENVELOPED
from sluicemq.model.content import properties_of

from ..amqp.strategies import properties

ENVELOPE = b"\x01x\x03key"
BODIES = st.binary(max_size=300)


def told(content: bytes) -> BasicProperties:
    return BasicProperties.decode(properties_of(content))


@given(properties, BODIES, st.integers(1, 2**40), st.booleans())
def test_the_header_is_added(
    before: BasicProperties, body: bytes, count: int, enveloped: bool
) -> None:
    content = content_frames(1, before.encode(), body, 128)
    front = ENVELOPE if enveloped else b""
    envelope = ENVELOPED if enveloped else ENVELOPE
    first, second = counted([front + content] * 2, envelope, [0, count])
    assert first == front + content
    assert second.startswith(front)
    after = told(second[len(front) :])
    headers = dict(after.headers or {})
    assert headers.pop("x-delivery-count") == count
    others = dict(before.headers or {})
    others.pop("x-delivery-count", None)
    assert headers == others
    after.headers = before.headers
    assert after == before
    size = 7 + int.from_bytes(content[3:7]) + 1
    assert second.endswith(content[size:]), "the body is as it was"


def test_a_count_from_elsewhere_is_replaced() -> None:
    before = BasicProperties(headers={"x-delivery-count": 7, "a": 1}).encode()
    content = content_frames(1, before, b"x", 128)
    (after,) = counted([content], ENVELOPE, [2])
    assert told(after).headers == {"a": 1, "x-delivery-count": 2}


def test_headers_that_cannot_be_read_are_passed_on() -> None:
    broken = BasicProperties(headers={"a": 1}).encode()
    broken = broken.replace(b"\x01a", b"\x09a")
    content = content_frames(1, broken, b"x", 128)
    assert counted([content], ENVELOPE, [2]) == [content]
