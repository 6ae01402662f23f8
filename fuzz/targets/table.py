"""Field tables: `amqp/types.py` against itself and against pamqp."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from sluicemq.amqp.types import (
    FieldValue,
    Malformed,
    Table,
    Timestamp,
    decode_table,
    drop_field,
    encode_table,
)
from sluicemq.limits import TABLE_DEPTH_MAX, TABLE_VALUES_MAX
from targets.second_codec import agree_on_table, leaves, same, written_back
from targets.target import Target

BEHIND = b"\xff\x00S\xce"
"""What might stand behind a table in a frame."""


def decode(data: bytes) -> tuple[Table, int] | None:
    """The table and its end; None: refused."""
    try:
        return decode_table(data)
    except Malformed:
        return None


def check(data: bytes) -> None:
    """Nothing but `Malformed`; no reading past the end; writing gives it back; pamqp agrees."""
    decoded = decode(data)
    if decoded is None:
        assert not written_back(data) or is_beyond_bounds(data), "pamqp accepts it"
        return
    table, end = decoded
    raw = data[:end]
    assert 4 <= end <= len(data)
    assert same(decode(raw + BEHIND), decoded), "what stands behind the table counts"
    assert decode(raw[:-1]) is None, "a table that is cut is accepted"
    assert depth_of(table) <= TABLE_DEPTH_MAX + 1
    assert sum(1 for _ in leaves(table)) <= 2 * TABLE_VALUES_MAX
    canonical = encode_table(table)
    assert same(decode_table(canonical), (table, len(canonical))), "not what was written"
    agree_on_table(table, canonical)
    for key in list(table)[:3]:
        rest, _ = decode_table(drop_field(raw, key))
        assert same(rest, {name: value for name, value in table.items() if name != key})


def depth_of(value: FieldValue) -> int:
    """How many tables and arrays are inside one another."""
    inside: object = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth_of, inside), default=0)  # type: ignore[call-overload]


def is_beyond_bounds(data: bytes) -> bool:
    """Refused for its depth or its number of values, where pamqp has no bounds."""
    try:
        decode_table(data)
    except Malformed as error:
        return "nested more" in str(error) or "of more than" in str(error)
    return False


def seeds() -> Iterator[bytes]:
    """Every field type, nesting, equal keys, what is cut."""
    values: list[FieldValue] = [
        True, 1, -(2**40), 2**63, 1.5, "text", "caf\u00e9", b"\0\xff", Timestamp(1_700_000_000),
        Decimal("1.25"), None, [], {}, [1, [2, {"k": "v"}]], {"a": {"b": {"c": 1}}},
    ]  # fmt: skip
    yield encode_table({})
    for number, value in enumerate(values):
        yield encode_table({f"key{number}": value})
    yield encode_table({f"x-{number}": value for number, value in enumerate(values)})
    fields = {b"b": b"\xff", b"B": b"\xff", b"s": b"\xff\0", b"u": b"\xff\0", b"i": b"\xff" * 4}
    fields |= {b"L": b"\x7f" * 8, b"f": b"\x3f\x80\0\0", b"t": b"\x02"}
    inside = b"".join([b"\x01" + tag + tag + raw for tag, raw in fields.items()])
    yield len(inside).to_bytes(4) + inside
    yield b"\0\0\0\x08\x01at\0\x01at\x01"
    yield b"\xff\xff\xff\xff\x01aS\x7f\xff\xff\xff"
    yield nested(3)
    yield nested(40)


def nested(depth: int) -> bytes:
    """Arrays and tables in turn."""
    raw = b""
    for number in range(depth):
        tag = b"\x01aF" if number % 2 or number == depth - 1 else b"A"
        raw = tag + len(raw).to_bytes(4) + raw
    return len(raw).to_bytes(4) + raw


TARGET = Target("table", check, decode, seeds, base_bytes=20_000, factor=120)
