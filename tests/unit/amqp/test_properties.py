"""The content header: properties come back as written, and never reach past the frame."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.properties import (
    CONTENT_TYPE,
    EXPIRATION,
    MESSAGE_ID,
    PROPERTIES,
    USER_ID,
    BasicProperties,
    check_properties,
    delivery_mode,
    free_spans,
    header_frame,
    parse_header,
    text_property,
    with_text,
    without_header,
)
from sluicemq.amqp.types import Malformed, Table

from .strategies import bit_patterns, places, plain_values, properties, spoil

ALL_SET = (
    b"\xff\xfc" b"\x0atext/plain" b"\x05utf-8" b"\0\0\0\x05\x01kV\x00V" b"\2\5" b"\4corr"
    b"\5reply" b"\x0560000" b"\3mid" b"\0\0\0\0\x65\x53\xf1\0" b"\4type" b"\5guest" b"\3app"
    b"\7cluster"
)  # fmt: skip


def test_properties_read_all_fourteen() -> None:
    decoded = BasicProperties.decode(ALL_SET)
    assert decoded == BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"k": None, "": None},
        delivery_mode=2,
        priority=5,
        correlation_id="corr",
        reply_to="reply",
        expiration="60000",
        message_id="mid",
        timestamp=1700000000,
        type="type",
        user_id="guest",
        app_id="app",
        cluster_id="cluster",
    )
    assert decoded.encode() == ALL_SET
    assert delivery_mode(ALL_SET) == 2


@given(properties)
def test_properties_come_back_as_they_were_written(given_properties: BasicProperties) -> None:
    raw = given_properties.encode()
    check_properties(b"x" + raw, 1, len(raw) + 1)
    assert BasicProperties.decode(raw) == given_properties
    assert delivery_mode(raw) == (given_properties.delivery_mode or 0)


@given(properties, st.sampled_from([EXPIRATION, MESSAGE_ID, USER_ID, CONTENT_TYPE]))
def test_one_text_is_read_without_the_others(given_properties: BasicProperties, flag: int) -> None:
    names = {name: bit for name, bit in PROPERTIES if bit == flag}
    (name,) = names
    expected = getattr(given_properties, name)
    raw = text_property(given_properties.encode(), flag)
    assert raw == (None if expected is None else expected.encode("utf-8", "surrogateescape"))


def check_stable(raw: bytes) -> None:
    """What is accepted can be written, and reads the same again."""
    try:
        again = BasicProperties.decode(raw).encode()
    except Malformed:
        return
    assert BasicProperties.decode(again).encode() == again


@given(st.binary(max_size=80))
def test_properties_of_random_bytes_are_stable_or_malformed(raw: bytes) -> None:
    check_stable(raw)


@given(properties, places, bit_patterns)
def test_properties_with_a_changed_octet_are_stable_or_malformed(
    given_properties: BasicProperties, place: int, bits: int
) -> None:
    check_stable(spoil(given_properties.encode(), place, bits))


@pytest.mark.parametrize("cut", range(len(ALL_SET)))
def test_properties_cut_anywhere_are_malformed(cut: int) -> None:
    with pytest.raises(Malformed):
        check_properties(ALL_SET, 0, cut)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\0\x20abc",
        b"\x80\x01",
        b"\0\x01",
        b"\0\0GARBAGE",
        b"\x20\0\0\1\x86\x9fabc",
        b"\0",
        b"",
        b"\x10\0",
        b"\0\x40\0\0\0",
    ],
)
def test_properties_that_do_not_fill_the_header_are_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        check_properties(raw, 0, len(raw))


def test_properties_with_the_meaningless_bit_are_accepted() -> None:
    check_properties(b"\0\x02", 0, 2)
    assert BasicProperties.decode(b"\0\x02") == BasicProperties()


def test_properties_leave_the_inside_of_headers_unread() -> None:
    """RabbitMQ passes on tables of any depth; only who needs the headers looks inside."""
    raw = b"\x20\0\0\0\0\x03???"
    check_properties(raw, 0, len(raw))
    with pytest.raises(Malformed):
        BasicProperties.decode(raw)


def test_properties_keep_text_that_is_not_utf8() -> None:
    raw = b"\x04\0\x02\xff\xfe"
    assert BasicProperties.decode(raw).encode() == raw


def test_header_frame_is_golden() -> None:
    frame = header_frame(3, 1000, BasicProperties(delivery_mode=2))
    assert frame == struct.pack(">BHIHHQ", 2, 3, 15, 60, 0, 1000) + b"\x10\0\x02\xce"
    assert header_frame(3, 1000, b"\x10\0\x02") == frame


def test_header_is_parsed_from_its_payload() -> None:
    header = parse_header(header_frame(3, 2**64 - 1, b"\0\0")[7:-1])
    assert (header.class_id, header.body_size, header.properties) == (60, 2**64 - 1, b"\0\0")
    assert repr(header) == "Header(60, 18446744073709551615, b'\\x00\\x00')"
    with pytest.raises(Malformed):
        parse_header(b"\0\x3c\0\0\0\0")


@given(
    properties, st.sampled_from(["content_type", "reply_to", "cluster_id"]), st.text(max_size=60)
)
def test_a_text_is_replaced_and_the_rest_stays_as_it_is(
    given_properties: BasicProperties, name: str, value: str
) -> None:
    setattr(given_properties, name, "before")
    raw = given_properties.encode()
    setattr(given_properties, name, value)
    assert with_text(raw, dict(PROPERTIES)[name], value) == given_properties.encode()


@given(
    st.dictionaries(st.sampled_from(["BCC", "CC", "a", "b"]), plain_values, max_size=4),
    properties,
)
def test_a_header_is_taken_out_and_the_rest_stays_as_it_is(
    headers: Table, others: BasicProperties
) -> None:
    others.headers = headers
    raw = others.encode()
    without = {name: value for name, value in headers.items() if name != "BCC"}
    assert without_header(raw, "nobody's") == raw
    others.headers = without
    assert without_header(raw, "BCC") == others.encode()


@given(properties, st.randoms(use_true_random=False))
def test_what_is_free_changes_values_only(given_properties: BasicProperties, dice: Random) -> None:
    raw = bytearray(given_properties.encode())
    before = BasicProperties.decode(bytes(raw))
    for start, end in free_spans(bytes(raw)):
        raw[start:end] = dice.randbytes(end - start)
    after = BasicProperties.decode(bytes(raw))
    assert list(after.headers or {}) == list(before.headers or {})
    for name in ("delivery_mode", "priority", "expiration", "reply_to", "user_id"):
        assert getattr(after, name) == getattr(before, name)
    for name, _ in PROPERTIES:
        assert (getattr(after, name) is None) == (getattr(before, name) is None)


def test_everything_that_may_differ_between_messages_is_free() -> None:
    free = [ALL_SET[start:end] for start, end in free_spans(ALL_SET) if start < end]
    texts = [b"text/plain", b"utf-8", b"corr", b"mid"]
    assert free == [*texts, (1_700_000_000).to_bytes(8), b"type", b"app", b"cluster"]


@pytest.mark.parametrize("value", [b"F\0\0\0\0", b"A\0\0\0\0", b"?", b"S\0\0\0\x09x"])
def test_nothing_is_free_in_headers_that_are_nested_or_broken(value: bytes) -> None:
    table = b"\x01ns\0\x01" + b"\x01k" + value
    raw = b"\x20\0" + len(table).to_bytes(4) + table
    assert free_spans(raw) == []
