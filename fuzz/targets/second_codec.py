"""Agreement with pamqp, which was written by others from the same specification.

pamqp is lenient: it reads past the end of a table, takes cut strings, ignores bytes that are left.
So the two rules are: what we accept, it reads as the same values; and what it reads and writes back
byte for byte, we accept. The exceptions are `cannot_read` and `cannot_write`, each with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal

from pamqp import decode, encode
from pamqp.common import FieldValue as TheirValue

from sluicemq.amqp.types import FieldValue, Timestamp, decode_table

UINT32_MAX = 2**32 - 1
YEAR_9999 = 253_402_300_799
"""The last second that a datetime holds."""


def leaves(value: object) -> Iterator[object]:
    """All values in a table that have no others in them, and all keys."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def keys(value: object) -> Iterator[str]:
    """All keys of a table and of those in it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


def is_text(text: str) -> bool:
    """Was it UTF-8?"""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def seconds_of(timestamp: int) -> float:
    """What pamqp makes of a timestamp: large ones it takes for milliseconds."""
    return timestamp / 1000.0 if timestamp > UINT32_MAX else timestamp


def cannot_read(value: object) -> str | None:
    """Why pamqp refuses a table that we accept."""
    if not all(map(is_text, keys(value))):
        return "RabbitMQ takes any bytes for a key, pamqp only UTF-8"
    if any(isinstance(leaf, Timestamp) and far(leaf.seconds) for leaf in leaves(value)):
        return "a timestamp has 64 bits, a datetime ends in the year 9999"
    return None


def far(timestamp: int) -> bool:
    """Does it lie beyond what a datetime holds?"""
    return seconds_of(timestamp) > YEAR_9999


def theirs(value: FieldValue) -> TheirValue:
    """Our value as pamqp would have read it."""
    if isinstance(value, Mapping):
        return {key: theirs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [theirs(item) for item in value]
    if isinstance(value, str):
        return value if is_text(value) else value.encode("utf-8", "surrogateescape")
    if isinstance(value, Timestamp):
        return datetime.fromtimestamp(seconds_of(value.seconds), tz=UTC)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        unscaled = int("".join(map(str, digits)))
        if unscaled > 2**31 - 1:
            unscaled -= 2**32  # pamqp reads it as a signed number, RabbitMQ as we do
        return Decimal(unscaled) * Decimal(10) ** int(exponent)
    if isinstance(value, int) and value > 2**63 - 1:
        return value - 2**64  # pamqp reads an L as a signed number, RabbitMQ as we do
    if isinstance(value, bytes):
        return bytearray(value)
    return value  # type: ignore[return-value]


def same(one: object, other: object) -> bool:
    """Equal, and of the same types; NaN equals itself."""
    return repr(one) == repr(other)


def agree_on_table(table: Mapping[str, FieldValue], canonical: bytes) -> None:
    """We have accepted a table, and write it as `canonical`: pamqp reads the same, writes it with
    the narrowest numbers there are, and we read the same again."""
    if cannot_read(table) is not None:
        return
    size, found = decode.field_table(canonical)
    assert size == len(canonical), "pamqp sees another end of the table"
    assert same(found, theirs(table)), "pamqp reads other values"
    if cannot_write(table) is None:
        again, _ = decode_table(encode.field_table(found))
        assert theirs(again) == found, "pamqp's table is read as other values"


def cannot_write(value: object) -> str | None:
    """Why pamqp does not give back what it has read."""
    for leaf in leaves(value):
        if isinstance(leaf, Decimal | float):
            return "pamqp rounds decimals, and writes floats with 32 bits"
        if isinstance(leaf, Timestamp) and leaf.seconds > UINT32_MAX:
            return "pamqp takes large timestamps for milliseconds"
        if isinstance(leaf, str) and not is_text(leaf):
            return "pamqp writes text that is not UTF-8 as another type"
    return None


def written_back(raw: bytes) -> bool:
    """Does pamqp take the table and write the very same bytes?"""
    try:
        size, table = decode.field_table(raw)
        return encode.field_table(table) == raw[:size]
    except (ValueError, TypeError, OverflowError, OSError, RecursionError, ArithmeticError):
        return False  # whatever it is that pamqp does not like
