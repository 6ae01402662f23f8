"""Raw field tables, to which the broker adds headers without touching those of clients.

A field is a name and a value as on the wire: the value begins with the letter of its type. So
everything that decoding and encoding would lose (the width of a number, a float's last bit) is
preserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Final, TypeAlias

from sluicemq.amqp.types import (
    LONGLONG,
    UINT64_MAX,
    Malformed,
    encode_longstr,
    skip_shortstr,
    skip_value,
)

Field: TypeAlias = "tuple[bytes, bytes]"
"""A field of a table: its name and its raw value."""

NUMBERS: Final = {ord("b"): 1, ord("s"): 2, ord("I"): 4, ord("l"): 8}
"""The types of whole numbers that RabbitMQ tells from others, with their size in bytes."""

name_of = itemgetter(0)
"""The key by which fields are sorted."""


def fields_of(table: bytes) -> list[Field]:
    """Return the fields of a table given without its length. Raises Malformed when it
    is not one."""
    fields: list[Field] = []
    pos, end = 0, len(table)
    while pos < end:
        after = skip_shortstr(table, pos, end)
        value_end = skip_value(table, after, end)
        fields.append((table[pos + 1 : after], table[after:value_end]))
        pos = value_end
    return fields


def fields_before_flaw(table: bytes) -> list[Field]:
    """Return the fields of a table given without its length, up to the first one that is broken."""
    fields: list[Field] = []
    pos, end = 0, len(table)
    with suppress(Malformed):
        while pos < end:
            after = skip_shortstr(table, pos, end)
            value_end = skip_value(table, after, end)
            fields.append((table[pos + 1 : after], table[after:value_end]))
            pos = value_end
    return fields


def table_of(fields: Sequence[Field]) -> bytes:
    """Return a table of these fields, without its length."""
    return b"".join(bytes((len(name),)) + name + value for name, value in fields)


def items_of(array: bytes) -> list[bytes]:
    """Return the raw values of an array given without its length. Raises Malformed when it is not
    one."""
    items: list[bytes] = []
    pos, end = 0, len(array)
    while pos < end:
        after = skip_value(array, pos, end)
        items.append(array[pos:after])
        pos = after
    return items


def items_in(value: bytes | None) -> list[bytes] | None:
    """Return the raw values of a field value that is an array; None when it is not one,
    or broken."""
    if value is None or value[:1] != b"A":
        return None
    try:
        return items_of(value[5:])
    except Malformed:
        return None


def value_of(fields: Sequence[Field], name: bytes) -> bytes | None:
    """Return the raw value of the first field of that name; None when there is no such field."""
    return next((value for key, value in fields if key == name), None)


def replaced(fields: Sequence[Field], name: bytes, value: bytes) -> list[Field]:
    """Return the fields with `value` under `name`, in order of the names."""
    found = False
    result: list[Field] = []
    for key, old in fields:
        result.append((key, old if found or key != name else value))
        found |= key == name
    if not found:
        result.append((name, value))
    return sorted(result, key=name_of)


def long_string(value: bytes) -> bytes:
    return b"S" + encode_longstr(value)


def array(items: Sequence[bytes]) -> bytes:
    return b"A" + encode_longstr(b"".join(items))


def nested(fields: Sequence[Field]) -> bytes:
    return b"F" + encode_longstr(table_of(fields))


def long(value: int) -> bytes:
    """Return a whole number as a raw field value. Beyond 64 bits it wraps around, as in Erlang."""
    return b"l" + LONGLONG.pack(value & UINT64_MAX)


def time(seconds: int) -> bytes:
    return b"T" + LONGLONG.pack(seconds)


def text_in(value: bytes | None) -> bytes | None:
    """Return the octets of a raw value that is a long string; None when it is not one."""
    return value[5:] if value is not None and value[:1] == b"S" else None


def number_in(value: bytes | None) -> int | None:
    """Return the number in a raw value that is a whole number; None when it is not one."""
    if value is None or NUMBERS.get(value[0]) != len(value) - 1:
        return None
    return int.from_bytes(value[1:], signed=True)
