"""Goal: the offset is added to the headers, and nothing else of a message changes. Method: random
properties, encoded, given an offset and decoded.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.frames import body_frames, content_body, content_header
from sluicemq.amqp.properties import BasicProperties, check_properties, header_frame
from sluicemq.amqp.stream_offsets import NAME, with_offsets

SHORT = st.none() | st.text(max_size=20)
HEADERS = st.none() | st.dictionaries(
    st.sampled_from([NAME, "a", "b", "x-stream-offsets", ""]),
    st.integers(-5, 5) | st.text(max_size=5) | st.booleans() | st.none(),
    max_size=4,
)
PROPERTIES = st.builds(
    BasicProperties,
    content_type=SHORT,
    content_encoding=SHORT,
    headers=HEADERS,
    delivery_mode=st.none() | st.integers(1, 2),
    correlation_id=SHORT,
    timestamp=st.none() | st.integers(0, 2**40),
    cluster_id=SHORT,
)


def content(properties: BasicProperties | bytes, body: bytes, number: int = 1) -> bytes:
    head = header_frame(number, len(body), properties)
    return b"".join([head, *body_frames(number, body, 4096)])


@given(st.lists(st.tuples(PROPERTIES, st.binary(max_size=30)), min_size=1), st.integers(0, 2**62))
def test_everything_else_stays(messages: list[tuple[Any, bytes]], first: int) -> None:
    stamped = with_offsets([content(*each) for each in messages], first)
    for offset, (sent, body), got in zip(range(first, first + 99), messages, stamped, strict=False):
        header = content_header(got)
        check_properties(header.properties, 0, len(header.properties))
        found = BasicProperties.decode(header.properties)
        assert found.headers == (sent.headers or {}) | {NAME: offset}
        assert list(found.headers)[-1] == NAME
        found.headers = sent.headers
        assert found == sent
        assert (header.body_size, content_body(got)) == (len(body), body)


def test_a_table_that_cannot_be_read_goes_as_it_is() -> None:
    table = b"\x0fx-stream-offset?"
    raw = b"\x20\x00" + len(table).to_bytes(4) + table
    [got] = with_offsets([content(raw, b"body")], 5)
    properties = content_header(got).properties
    check_properties(properties, 0, len(properties))
    assert table + b"\x0fx-stream-offsetl" + (5).to_bytes(8) == properties[6:]
