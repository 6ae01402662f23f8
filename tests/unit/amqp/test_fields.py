"""Raw tables are cut as decoded ones are; what is put in stands in order of the names."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp import fields as f
from sluicemq.amqp.properties import (
    EXPIRATION,
    BasicProperties,
    headers_of,
    with_headers,
    without_text,
)
from sluicemq.amqp.types import Malformed, Timestamp, decode_table, encode_table, encode_value

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=9),
    st.binary(max_size=9),
    st.builds(Timestamp, st.integers(0, 2**64 - 1)),
    st.builds(Decimal, st.integers(0, 2**31)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
TABLES = st.dictionaries(st.text(max_size=5), VALUES, max_size=6)


@given(TABLES)
def test_a_table_is_its_fields(table: dict[str, object]) -> None:
    raw = encode_table(table)[4:]  # type: ignore[arg-type]
    fields = f.fields_of(raw)
    assert [name.decode() for name, _ in fields] == list(table)
    assert [value for _, value in fields] == [encode_value(v) for v in table.values()]  # type: ignore[arg-type]
    assert f.table_of(fields) == raw


@given(st.binary(max_size=60))
def test_any_bytes_are_a_table_or_malformed(raw: bytes) -> None:
    try:
        fields = f.fields_of(raw)
    except Malformed:
        return
    assert f.table_of(fields) == raw


@given(TABLES, st.text(max_size=5), st.integers(-(2**63), 2**63 - 1))
def test_a_field_is_replaced_or_added(table: dict[str, object], name: str, number: int) -> None:
    fields = f.fields_of(encode_table(table)[4:])  # type: ignore[arg-type]
    changed = f.replaced(fields, name.encode(), encode_value(number))
    assert [key for key, _ in changed] == sorted(key for key, _ in changed)
    assert f.number_in(f.value_of(changed, name.encode())) == number
    others = [field for field in changed if field[0] != name.encode()]
    assert sorted(others) == sorted(field for field in fields if field[0] != name.encode())


def test_what_is_built_can_be_decoded() -> None:
    entry = [(b"n", f.long(7)), (b"t", f.time(5)), (b"s", f.long_string(b"x"))]
    raw = f.table_of([(b"a", f.array([f.nested(entry), f.long_string(b"y")]))])
    decoded, _ = decode_table(len(raw).to_bytes(4) + raw)
    assert decoded == {"a": [{"n": 7, "t": Timestamp(5), "s": "x"}, "y"]}
    assert f.text_in(f.long_string(b"x")) == b"x"
    assert f.text_in(f.long(1)) is f.text_in(None) is None
    assert f.number_in(f.long_string(b"x")) is f.number_in(None) is None


PROPERTIES = st.builds(
    BasicProperties,
    content_type=st.none() | st.text(max_size=5),
    headers=st.none() | TABLES,
    delivery_mode=st.none() | st.just(2),
    expiration=st.none() | st.text(max_size=5),
    timestamp=st.none() | st.integers(0, 2**40),
    app_id=st.none() | st.text(max_size=5),
)


@given(PROPERTIES, TABLES)
def test_headers_come_and_an_expiration_goes(
    properties: BasicProperties, table: dict[str, object]
) -> None:
    raw = properties.encode()
    assert headers_of(raw) == encode_table(properties.headers or {})[4:]
    properties.headers = table  # type: ignore[assignment]
    assert with_headers(raw, encode_table(table)[4:]) == properties.encode()  # type: ignore[arg-type]
    properties.expiration = None
    assert without_text(properties.encode(), EXPIRATION) == properties.encode()
    properties.expiration = "7"
    longer = properties.encode()
    properties.expiration = None
    assert without_text(longer, EXPIRATION) == properties.encode()
