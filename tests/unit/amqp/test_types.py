"""Field tables and basic types: what is written is read again, and nothing else is accepted."""

from __future__ import annotations

import struct
import tracemalloc
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.types import (
    FieldValue,
    Malformed,
    MalformedText,
    Timestamp,
    decode_long,
    decode_longlong,
    decode_longstr,
    decode_octet,
    decode_short,
    decode_shortstr,
    decode_table,
    encode_shortstr,
    encode_table,
    encode_value,
    skip_longstr,
    skip_shortstr,
)
from sluicemq.limits import TABLE_DEPTH_MAX, TABLE_VALUES_MAX

from .strategies import bit_patterns, places, short_texts, spoil, tables

EVERY_TYPE = (
    b"\x01at\x01" b"\x01bb\xff" b"\x01cB\xff" b"\x01ds\xff\xff" b"\x01eu\xff\xff"
    b"\x01fI\xff\xff\xff\xff" b"\x01gi\xff\xff\xff\xff" b"\x01hl\xff\xff\xff\xff\xff\xff\xff\xff"
    b"\x01jf\x3f\x80\0\0" b"\x01kd\x3f\xf0\0\0\0\0\0\0" b"\x01lD\x02\0\0\1\0"
    b"\x01mS\0\0\0\3abc" b"\x01nx\0\0\0\3\0\1\2" b"\x01oA\0\0\0\3t\1V"
    b"\x01pT\xff\xff\xff\xff\xff\xff\xff\xff" b"\x01qF\0\0\0\x04\x01zb\x05" b"\x01rV"
)  # fmt: skip


def with_length(raw: bytes, length: int | None = None) -> bytes:
    return struct.pack(">I", len(raw) if length is None else length) + raw


def nested(depth: int, tag: bytes = b"F") -> bytes:
    """A table in which tables, or arrays, are nested `depth` deep."""
    raw = b""
    for _ in range(depth):
        raw = (b"\x01a" if tag == b"F" else b"") + tag + with_length(raw)
    return with_length(raw if tag == b"F" else b"\x01a" + raw)


def test_table_reads_every_field_type_of_rabbitmq() -> None:
    table, pos = decode_table(with_length(EVERY_TYPE) + b"rest")
    assert pos == 4 + len(EVERY_TYPE)
    assert table == {
        "a": True,
        "b": -1,
        "c": 255,
        "d": -1,
        "e": 65535,
        "f": -1,
        "g": 2**32 - 1,
        "h": -1,
        "j": 1.0,
        "k": 1.0,
        "l": Decimal("2.56"),
        "m": "abc",
        "n": b"\0\1\2",
        "o": [True, None],
        "p": Timestamp(2**64 - 1),
        "q": {"z": 5},
        "r": None,
    }


@given(tables)
def test_table_comes_back_as_it_was_written(table: dict[str, FieldValue]) -> None:
    raw = encode_table(table)
    assert decode_table(b"xy" + raw + b"z", 2) == (table, len(raw) + 2)


def check_stable(raw: bytes) -> None:
    """What is accepted can be written, and reads the same again."""
    try:
        again = encode_table(decode_table(with_length(raw))[0])
    except Malformed:
        return
    assert encode_table(decode_table(again)[0]) == again


@given(st.binary(max_size=300))
def test_table_of_random_bytes_is_stable_or_malformed(raw: bytes) -> None:
    check_stable(raw)


@given(tables, places, bit_patterns)
def test_table_with_a_changed_octet_is_stable_or_malformed(
    table: dict[str, FieldValue], place: int, bits: int
) -> None:
    check_stable(spoil(encode_table(table)[4:], place, bits))


@pytest.mark.parametrize("cut", range(len(EVERY_TYPE)))
def test_table_cut_anywhere_is_malformed(cut: int) -> None:
    with pytest.raises(Malformed):
        decode_table(with_length(EVERY_TYPE[:cut], len(EVERY_TYPE)))


def test_table_never_reads_past_its_own_length() -> None:
    """The rest of the octets is there, but it belongs to what comes after."""
    whole = 0
    for cut in range(len(EVERY_TYPE)):
        try:
            _, pos = decode_table(with_length(EVERY_TYPE[:cut]) + EVERY_TYPE[cut:])
        except Malformed:
            continue
        assert pos == 4 + cut
        whole += 1
    assert whole == 17


def test_table_reads_the_first_of_two_equal_keys() -> None:
    assert decode_table(with_length(b"\x01at\x01\x01at\x00"))[0] == {"a": True}


def test_table_reads_an_empty_key() -> None:
    assert decode_table(with_length(b"\0t\x01"))[0] == {"": True}


@pytest.mark.parametrize(
    "raw",
    [
        with_length(b"\x01aZ\x01"),
        with_length(b"\x01at\x01\x01bt\x01", 5),
        with_length(b"\x01at\x01", 4000),
        with_length(b"\x01aS\0\0\1\0abc"),
        with_length(b"\x01aA\xff\xff\xff\xff"),
        with_length(b"\x01aF\0\0\0\x02\x01b") + b"t\x01",
        b"\0\0\0",
    ],
)
def test_table_with_wrong_length_or_type_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        decode_table(raw)


@pytest.mark.parametrize("tag", [b"F", b"A"])
@pytest.mark.parametrize("depth", [TABLE_DEPTH_MAX + 1, 1000, 10_000])
def test_table_nested_too_deep_is_malformed(tag: bytes, depth: int) -> None:
    """Goal: the stack never overflows. 10,000 levels fit into one frame."""
    with pytest.raises(Malformed, match="deep"):
        decode_table(nested(depth, tag))


@pytest.mark.parametrize("tag", [b"F", b"A"])
def test_table_nested_as_deep_as_allowed_is_read_and_written(tag: bytes) -> None:
    raw = nested(TABLE_DEPTH_MAX, tag)
    assert encode_table(decode_table(raw)[0]) == raw


def test_table_nested_too_deep_is_not_written() -> None:
    table: dict[str, FieldValue] = {}
    for _ in range(10_000):
        table = {"a": table}
    with pytest.raises(Malformed, match="deep"):
        encode_table(table)


def test_table_of_too_many_values_is_malformed() -> None:
    """Goal: a byte on the wire may cost a hundred in RAM, but only so often."""
    fits = b"\x01aA" + with_length(b"V" * (TABLE_VALUES_MAX - 1))
    assert len(str(decode_table(with_length(fits))[0])) > TABLE_VALUES_MAX
    tracemalloc.start()
    with pytest.raises(Malformed, match="more than"):
        decode_table(with_length(b"\x01aA" + with_length(b"F\0\0\0\0" * 1_000_000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000


@pytest.mark.parametrize(
    "value", [2**64, -(2**63) - 1, Decimal(-1), Decimal(2**32), Decimal("Infinity"), "\ud800"]
)
def test_value_that_amqp_cannot_carry_is_refused(value: FieldValue) -> None:
    with pytest.raises(Malformed):
        encode_value(value)


def test_value_of_a_foreign_class_is_refused() -> None:
    with pytest.raises(Malformed, match="a table cannot carry a object"):
        encode_value(object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "tag"), [(2**31 - 1, b"I"), (2**31, b"l"), (-(2**31), b"I"), (-(2**31) - 1, b"l")]
)
def test_whole_number_takes_the_narrowest_of_two_types(value: int, tag: bytes) -> None:
    assert encode_value(value)[:1] == tag


@given(short_texts)
def test_shortstr_comes_back_as_it_was_written(text: str) -> None:
    raw = encode_shortstr(text)
    assert decode_shortstr(raw, 0, len(raw)) == (text, len(raw))
    assert skip_shortstr(raw, 0, len(raw)) == len(raw)


def test_shortstr_longer_than_255_bytes_is_refused() -> None:
    with pytest.raises(Malformed, match="256 bytes"):
        encode_shortstr("ä" * 128)


def test_shortstr_of_a_method_must_be_utf8() -> None:
    with pytest.raises(MalformedText):
        decode_shortstr(b"\x03\xff\xfe\xfd", 0, 4)


@pytest.mark.parametrize(
    ("decode", "size"),
    [
        (decode_octet, 1),
        (decode_short, 2),
        (decode_long, 4),
        (decode_longlong, 8),
        (decode_shortstr, 3),
        (decode_longstr, 6),
        (skip_shortstr, 3),
        (skip_longstr, 6),
    ],
)
def test_decoders_never_read_past_the_end(decode: object, size: int) -> None:
    """The bytes are there, but they belong to what comes after."""
    raw = bytes((0, 0, 0, 2, 65, 65, 65, 65)) if size == 6 else b"\x02AAAAAAA"
    for end in range(size):
        with pytest.raises(Malformed):
            decode(raw, 0, end)  # type: ignore[operator]
    decode(raw, 0, size)  # type: ignore[operator]


def test_timestamp_is_a_value() -> None:
    assert Timestamp(5) == Timestamp(5)
    assert Timestamp(5) != Timestamp(6)
    assert Timestamp(5) != 5
    assert len({Timestamp(5), Timestamp(5)}) == 1
    assert repr(Timestamp(5)) == "Timestamp(5)"
