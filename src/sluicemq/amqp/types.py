"""The basic types of AMQP 0-9-1, and field tables as RabbitMQ writes them.

A decoder takes the buffer, where to begin and where the enclosing frame (or table) ends. It
returns the value and the position after it, or raises `Malformed`. Every length is checked
against that end before anything is cut out or allocated.

    field   in Python         field   in Python           field   in Python
    t       bool              l L     int, 64 bits        S       str
    b B     int, 8 bits       f d     float               x       bytes
    s u     int, 16 bits      D       decimal.Decimal     A       list
    I i     int, 32 bits      T       Timestamp           F       dict
                                                          V       None

Whole numbers are written as `I` or, when too large for it, `l`. So the width may change when a
decoded table is encoded again; the broker therefore passes headers on as the bytes that came.
Text that is not UTF-8 survives as surrogate escapes (RabbitMQ takes any bytes for text there).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeAlias

from sluicemq.limits import TABLE_DEPTH_MAX, TABLE_VALUES_MAX
from sluicemq.text import octets, text_of

FieldValue: TypeAlias = (
    "bool | int | float | str | bytes | Decimal | Timestamp"
    " | Sequence[FieldValue] | Mapping[str, FieldValue] | None"
)
Table: TypeAlias = dict[str, FieldValue]

SHORTSTR_MAX: Final = 255
INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
UINT32_MAX: Final = 2**32 - 1
UINT64_MAX: Final = 2**64 - 1

SHORT: Final = struct.Struct(">H")
LONG: Final = struct.Struct(">I")
LONGLONG: Final = struct.Struct(">Q")
SIGNED: Final = struct.Struct(">ci")
SIGNED_LONG: Final = struct.Struct(">cq")
DOUBLE: Final = struct.Struct(">cd")
DECIMAL: Final = struct.Struct(">BI")

NUMBERS: Final[dict[int, struct.Struct]] = {
    ord(tag): struct.Struct(">" + code)
    for tag, code in zip("tbBsuIilLfd", "?bBhHiIqQfd", strict=True)
}
"""The field types whose value is what `struct` makes of it."""


TEXT: Final = ord("S")
OTHER_SIZES: Final = {ord("V"): 0, ord("T"): 8, ord("D"): 5}
"""The sizes in bytes of field types that are no numbers and have no length before them."""


class Malformed(ValueError):
    """Bytes that are not AMQP, or a value that AMQP cannot carry."""


class MalformedText(Malformed):
    """A short string of a method that is not UTF-8, which RabbitMQ answers differently."""


class Timestamp:
    """Seconds since the epoch, 64 bits: more than `datetime` can hold."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.seconds == other.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)

    def __repr__(self) -> str:
        return f"Timestamp({self.seconds})"


def decode_octet(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    if pos >= end:
        raise Malformed("an octet is missing")
    return buf[pos], pos + 1


def decode_short(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    if end - pos < 2:
        raise Malformed("a short is cut")
    value: int = SHORT.unpack_from(buf, pos)[0]
    return value, pos + 2


def decode_long(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    if end - pos < 4:
        raise Malformed("a long is cut")
    value: int = LONG.unpack_from(buf, pos)[0]
    return value, pos + 4


def decode_longlong(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    if end - pos < 8:
        raise Malformed("a longlong is cut")
    value: int = LONGLONG.unpack_from(buf, pos)[0]
    return value, pos + 8


def skip_shortstr(buf: bytes, pos: int, end: int) -> int:
    """Return where the short string at `pos` ends."""
    if pos >= end or pos + 1 + buf[pos] > end:
        raise Malformed("a short string is cut")
    return pos + 1 + buf[pos]


def skip_longstr(buf: bytes, pos: int, end: int) -> int:
    """Return where the long string, table or array at `pos` ends."""
    size, pos = decode_long(buf, pos, end)
    if size > end - pos:
        raise Malformed("a long string, table or array is cut")
    return pos + size


def skip_value(buf: bytes, pos: int, end: int) -> int:
    """Return where the field value at `pos`, which begins with its type letter, ends. Nested values
    are not checked."""
    tag, pos = decode_octet(buf, pos, end)
    if tag in b"SxAF":
        return skip_longstr(buf, pos, end)
    size = NUMBERS[tag].size if tag in NUMBERS else OTHER_SIZES.get(tag)
    if size is None:
        raise Malformed(f"unknown field type {chr(tag)!r}")
    if size > end - pos:
        raise Malformed("a field value is cut")
    return pos + size


def decode_shortstr(buf: bytes, pos: int, end: int) -> tuple[str, int]:
    """Decode a short string of a method, which must be UTF-8, and return where it ends. Raises
    MalformedText."""
    after = skip_shortstr(buf, pos, end)
    try:
        return buf[pos + 1 : after].decode(), after
    except UnicodeDecodeError as error:
        raise MalformedText(f"Malformed UTF-8 in shortstr: {error.reason}") from error


def decode_label(buf: bytes, pos: int, end: int) -> tuple[str, int]:
    """Decode a short string of a table or of properties, which may be any bytes, and return where
    it ends."""
    after = skip_shortstr(buf, pos, end)
    return text_of(buf[pos + 1 : after]), after


def decode_longstr(buf: bytes, pos: int, end: int) -> tuple[bytes, int]:
    after = skip_longstr(buf, pos, end)
    return buf[pos + 4 : after], after


def decode_table(buf: bytes, pos: int = 0, end: int | None = None) -> tuple[Table, int]:
    """Decode a table with its length before it, and return where it ends."""
    decoder = _TableDecoder(buf)
    table = decoder.table(pos, len(buf) if end is None else end, TABLE_DEPTH_MAX)
    return table, decoder.pos


def decode_kept_table(raw: bytes) -> Table:
    """Decode a table, length first, that the broker encoded. It may have one value more than a peer
    may send, because the broker adds some."""
    decoder = _TableDecoder(raw, len(raw))
    return decoder.table(0, len(raw), TABLE_DEPTH_MAX)


def drop_field(buf: bytes, name: str) -> bytes:
    """Return a raw table, length first, without the field of that name; the others are
    unchanged."""
    decoder = _TableDecoder(buf)
    end = skip_longstr(buf, 0, len(buf))
    parts: list[bytes] = []
    pos = 4
    while pos < end:
        start = pos
        key, pos = decode_label(buf, pos, end)
        decoder.value(pos, end, TABLE_DEPTH_MAX)
        pos = decoder.pos
        if key != name:
            parts.append(buf[start:pos])
    return encode_longstr(b"".join(parts))


class _TableDecoder:
    """Decodes one table with everything nested in it; `pos` is behind the last decoded value."""

    __slots__ = ("buf", "pos", "values_left")

    def __init__(self, buf: bytes, values_max: int = TABLE_VALUES_MAX) -> None:
        self.buf = buf
        self.pos = 0
        self.values_left = values_max

    def table(self, pos: int, end: int, depth: int) -> Table:
        buf = self.buf
        end = skip_longstr(buf, pos, end)
        pos += 4
        table: Table = {}
        value = self.value
        while pos < end:
            after = pos + 1 + buf[pos]
            if after > end:
                raise Malformed("a short string is cut")
            key = buf[pos + 1 : after].decode("utf-8", "surrogateescape")
            # Of two equal keys RabbitMQ uses the first.
            table.setdefault(key, value(after, end, depth))
            pos = self.pos
        self.pos = pos
        return table

    def array(self, pos: int, end: int, depth: int) -> list[FieldValue]:
        end = skip_longstr(self.buf, pos, end)
        self.pos = pos + 4
        values: list[FieldValue] = []
        while self.pos < end:
            values.append(self.value(self.pos, end, depth))
        return values

    def value(self, pos: int, end: int, depth: int) -> FieldValue:
        """Decode the field value at `pos`: a letter for its type, then the value. A turn may have
        to read thousands of them, so the commonest types are read without further calls."""
        buf = self.buf
        if pos >= end:
            raise Malformed("an octet is missing")
        tag = buf[pos]
        pos += 1
        self.values_left -= 1
        if self.values_left < 0:
            raise Malformed(f"a table of more than {TABLE_VALUES_MAX} values")
        if tag == TEXT:
            start = pos + 4
            if start > end:
                raise Malformed("a long is cut")
            after = self.pos = start + int.from_bytes(buf[pos:start])
            if after > end:
                raise Malformed("a long string, table or array is cut")
            return buf[start:after].decode("utf-8", "surrogateescape")
        form = NUMBERS.get(tag)
        if form is not None:
            if form.size > end - pos:
                raise Malformed("a number is cut")
            self.pos = pos + form.size
            number: FieldValue = form.unpack_from(buf, pos)[0]
            return number
        if tag in b"FA":
            if depth == 0:
                raise Malformed(f"a table nested more than {TABLE_DEPTH_MAX} deep")
            return (self.table if tag == ord("F") else self.array)(pos, end, depth - 1)
        return self.other(tag, pos, end)

    def other(self, tag: int, pos: int, end: int) -> FieldValue:
        """Decode a field value that is not text, a plain number or nested."""
        if tag == ord("V"):
            self.pos = pos
            return None
        if tag == ord("x"):
            raw, self.pos = decode_longstr(self.buf, pos, end)
            return raw
        if tag == ord("T"):
            seconds, self.pos = decode_longlong(self.buf, pos, end)
            return Timestamp(seconds)
        if tag == ord("D"):
            scale, pos = decode_octet(self.buf, pos, end)
            unscaled, self.pos = decode_long(self.buf, pos, end)
            return Decimal((0, tuple(map(int, str(unscaled))), -scale))
        raise Malformed(f"unknown field type {chr(tag)!r}")


def encode_octet(value: int) -> bytes:
    return bytes((value,))


def encode_short(value: int) -> bytes:
    return SHORT.pack(value)


def encode_long(value: int) -> bytes:
    return LONG.pack(value)


def encode_longlong(value: int) -> bytes:
    return LONGLONG.pack(value)


def encode_bits(*bits: bool) -> bytes:
    """Encode neighbouring bit arguments, which share an octet; the first is its lowest bit."""
    return bytes((sum([bit << n for n, bit in enumerate(bits)]),))


def encode_text(text: str) -> bytes:
    """Encode as UTF-8; surrogate escapes become the bytes they stand for."""
    try:
        return octets(text)
    except UnicodeEncodeError as error:
        raise Malformed(f"{text!r} is no text: {error.reason}") from error


def encode_shortstr(text: str) -> bytes:
    raw = encode_text(text)
    if len(raw) > SHORTSTR_MAX:
        raise Malformed(f"a short string of {len(raw)} bytes, at most {SHORTSTR_MAX} are possible")
    return bytes((len(raw),)) + raw


def encode_longstr(raw: bytes) -> bytes:
    return LONG.pack(len(raw)) + raw


def encode_table(table: Mapping[str, FieldValue], depth: int = TABLE_DEPTH_MAX) -> bytes:
    """Encode `table` with its length before it. Raises Malformed for a value AMQP cannot carry."""
    parts: list[bytes] = []
    for key, value in table.items():
        parts.append(encode_shortstr(key))
        parts.append(encode_value(value, depth))
    return encode_longstr(b"".join(parts))


def encode_value(value: FieldValue, depth: int = TABLE_DEPTH_MAX) -> bytes:
    """Encode a field value: a letter for its type, then the value."""
    if isinstance(value, str):
        return b"S" + encode_longstr(encode_text(value))
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, int):
        return _encode_int(value)
    if isinstance(value, float):
        return DOUBLE.pack(b"d", value)
    if value is None:
        return b"V"
    if isinstance(value, bytes):
        return b"x" + encode_longstr(value)
    if isinstance(value, Timestamp):
        return b"T" + LONGLONG.pack(value.seconds)
    if isinstance(value, Decimal):
        return _encode_decimal(value)
    if depth == 0:
        raise Malformed(f"a table nested more than {TABLE_DEPTH_MAX} deep")
    if isinstance(value, Mapping):
        return b"F" + encode_table(value, depth - 1)
    if isinstance(value, Sequence):
        return b"A" + encode_longstr(b"".join([encode_value(item, depth - 1) for item in value]))
    raise Malformed(f"a table cannot carry a {type(value).__name__}")


def _encode_int(value: int) -> bytes:
    if INT32_MIN <= value <= INT32_MAX:
        return SIGNED.pack(b"I", value)
    if INT64_MIN <= value <= INT64_MAX:
        return SIGNED_LONG.pack(b"l", value)
    if INT64_MAX < value <= UINT64_MAX:
        return b"L" + LONGLONG.pack(value)  # as some clients send it
    raise Malformed(f"{value} does not fit in 64 bits")


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if sign or not isinstance(exponent, int) or not -255 <= exponent <= 0:
        raise Malformed(f"AMQP has no decimal for {value}")
    unscaled = int("".join(map(str, digits)))
    if unscaled > UINT32_MAX:
        raise Malformed(f"the decimal {value} has more than 32 bits")
    return b"D" + DECIMAL.pack(-exponent, unscaled)
