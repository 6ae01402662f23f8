"""The content header: class, body size, and the 14 properties of class basic.

     0       2       4               12      14
    +-------+-------+---------------+-------+----------------------------+
    | class | 0     | body size     | flags | the properties that are set |
    +-------+-------+---------------+-------+----------------------------+

A flag bit says that its property is there; content_type is bit 15, cluster_id bit 2. Bit 0 would
announce a second word of flags, which no property of AMQP 0-9-1 needs: RabbitMQ refuses it, and
so do we. Bit 1 means nothing and is passed on.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sluicemq.amqp.types import (
    Malformed,
    Table,
    decode_label,
    decode_longlong,
    decode_octet,
    decode_table,
    drop_field,
    encode_longlong,
    encode_longstr,
    encode_octet,
    encode_shortstr,
    encode_table,
    skip_longstr,
    skip_shortstr,
    skip_value,
)

BASIC_CLASS: Final = 60
HEADER: Final = struct.Struct(">HHQ")
HEADER_FRAME: Final = struct.Struct(">BHIHHQ")
FLAGS: Final = struct.Struct(">H")
CONTINUED: Final = 1
NO_PROPERTIES: Final = b"\0\0"
NESTED: Final = b"AF"
LONG_STRINGS: Final = b"Sx"
"""The types of field values that begin with a length."""

CONTENT_TYPE: Final = 1 << 15
CONTENT_ENCODING: Final = 1 << 14
HEADERS: Final = 1 << 13
DELIVERY_MODE: Final = 1 << 12
PRIORITY: Final = 1 << 11
CORRELATION_ID: Final = 1 << 10
REPLY_TO: Final = 1 << 9
EXPIRATION: Final = 1 << 8
MESSAGE_ID: Final = 1 << 7
TIMESTAMP: Final = 1 << 6
TYPE: Final = 1 << 5
USER_ID: Final = 1 << 4
APP_ID: Final = 1 << 3
CLUSTER_ID: Final = 1 << 2

OCTETS: Final = DELIVERY_MODE | PRIORITY
TELLING: Final = REPLY_TO | EXPIRATION | USER_ID
"""The properties, all of them short strings, that a broker looks at when it takes a message."""


class Header:
    """What a content header frame says; `properties` are the raw flags and fields."""

    __slots__ = ("body_size", "class_id", "properties")

    def __init__(self, class_id: int, body_size: int, properties: bytes) -> None:
        self.class_id = class_id
        self.body_size = body_size
        self.properties = properties

    def __repr__(self) -> str:
        return f"Header({self.class_id}, {self.body_size}, {self.properties!r})"


@dataclass(slots=True)
class BasicProperties:
    """The 14 properties; None means that one is absent. `timestamp` is in seconds since
    the epoch."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

    def encode(self) -> bytes:
        """Encode as the flags and fields of a content header; properties that are None are left
        out."""
        flags = 0
        parts: list[bytes] = [b""]
        for name, flag in PROPERTIES:
            value = getattr(self, name)
            if value is not None:
                flags |= flag
                parts.append(_encode_property(flag, value))
        parts[0] = FLAGS.pack(flags)
        return b"".join(parts)

    @classmethod
    def decode(cls, raw: bytes) -> BasicProperties:
        """Decode flags and fields that fill `raw`. Raises Malformed when they do not."""
        check_properties(raw, 0, len(raw))
        properties = cls()
        flags = raw[0] << 8 | raw[1]
        pos = 2
        for name, flag in PROPERTIES:
            if flags & flag:
                value, pos = _decode_property(flag, raw, pos)
                setattr(properties, name, value)
        return properties


PROPERTIES: Final = tuple(
    (name, 1 << 15 - n) for n, name in enumerate(BasicProperties.__dataclass_fields__)
)
"""Name and flag of each property, in wire order."""


def _encode_property(flag: int, value: str | int | Table) -> bytes:
    if isinstance(value, str):
        return encode_shortstr(value)
    if isinstance(value, int):
        return encode_octet(value) if flag & OCTETS else encode_longlong(value)
    return encode_table(value)


def _decode_property(flag: int, raw: bytes, pos: int) -> tuple[str | int | Table, int]:
    end = len(raw)
    if flag & OCTETS:
        return decode_octet(raw, pos, end)
    if flag == TIMESTAMP:
        return decode_longlong(raw, pos, end)
    if flag == HEADERS:
        return decode_table(raw, pos, end)
    return decode_label(raw, pos, end)


@lru_cache(maxsize=256)
def _layout(flags: int) -> bytes:
    """Return one octet for each property that is set: its size, 0 for a short string, or 255 for a
    table."""
    sizes = bytearray()
    for _, flag in PROPERTIES:
        if flags & flag:
            if flag & OCTETS:
                sizes.append(1)
            elif flag == TIMESTAMP:
                sizes.append(8)
            else:
                sizes.append(255 if flag == HEADERS else 0)
    return bytes(sizes)


def check_properties(buf: bytes, pos: int, end: int) -> None:
    """Raise `Malformed` unless flags and fields fill `buf` from `pos` to `end` exactly.

    The inside of a headers table is not checked.
    """
    if end - pos < 2:
        raise Malformed("the property flags are cut")
    flags = buf[pos] << 8 | buf[pos + 1]
    if flags & CONTINUED:
        raise Malformed("a second word of property flags")
    pos += 2
    for size in _layout(flags):
        if size == 255:
            pos = skip_longstr(buf, pos, end)
        elif size:
            pos += size
        elif pos < end:
            pos += 1 + buf[pos]
        else:
            raise Malformed("a property is cut")
    if pos != end:
        raise Malformed("the properties do not fill the header")


def free_spans(raw: bytes) -> list[tuple[int, int]]:
    """Return the spans of checked properties whose octets affect neither the layout nor what a
    broker looks at when it takes a message: most short strings, the timestamp, plain values of
    headers."""
    flags = raw[0] << 8 | raw[1]
    spans: list[tuple[int, int]] = []
    pos = 2
    for _, flag in PROPERTIES:
        if not flags & flag:
            continue
        start = pos
        if flag == HEADERS:
            pos = skip_longstr(raw, start, len(raw))
            spans += _free_in_table(raw, start + 4, pos)
        elif flag == TIMESTAMP:
            pos += 8
            spans.append((start, pos))
        elif flag & OCTETS:
            pos += 1
        else:
            pos += 1 + raw[start]
            if not flag & TELLING:
                spans.append((start + 1, pos))
    return spans


def _free_in_table(raw: bytes, pos: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of the values in a table from `pos` to `end`; none if one is nested or
    something is broken."""
    spans: list[tuple[int, int]] = []
    try:
        while pos < end:
            value = skip_shortstr(raw, pos, end)
            pos = skip_value(raw, value, end)
            if raw[value] in NESTED:
                return []
            spans.append((value + (5 if raw[value] in LONG_STRINGS else 1), pos))
    except Malformed:
        return []
    return spans


def delivery_mode(raw: bytes, pos: int = 0) -> int:
    """Return the delivery mode in checked properties, 0 if there is none, without decoding them
    all."""
    flags = raw[pos] << 8 | raw[pos + 1]
    if not flags & DELIVERY_MODE:
        return 0
    pos += 2
    if flags & CONTENT_TYPE:
        pos += 1 + raw[pos]
    if flags & CONTENT_ENCODING:
        pos += 1 + raw[pos]
    if flags & HEADERS:
        pos = skip_longstr(raw, pos, len(raw))
    return raw[pos]


def priority_of(raw: bytes) -> int:
    """Return the priority in checked properties, 0 if there is none, without decoding them all."""
    if not (raw[0] << 8 | raw[1]) & PRIORITY:
        return 0
    return raw[_start(raw, PRIORITY)]


def parse_header(payload: bytes) -> Header:
    """Return what the payload of a header frame says. The properties are not checked."""
    if len(payload) < HEADER.size:
        raise Malformed("a content header is cut")
    class_id, _, body_size = HEADER.unpack_from(payload)
    return Header(class_id, body_size, payload[HEADER.size :])


def header_frame(channel: int, body_size: int, properties: BasicProperties | bytes) -> bytes:
    """Return a whole header frame; `properties` may be raw flags and fields."""
    raw = properties if isinstance(properties, bytes) else properties.encode()
    head = HEADER_FRAME.pack(2, channel, HEADER.size + len(raw), BASIC_CLASS, 0, body_size)
    return b"".join((head, raw, b"\xce"))


def text_property(raw: bytes, flag: int) -> bytes | None:
    """Return a short string property of checked properties, without decoding the others; None when
    it is not set."""
    if not (raw[0] << 8 | raw[1]) & flag:
        return None
    pos = _start(raw, flag)
    return raw[pos + 1 : pos + 1 + raw[pos]]


def _start(raw: bytes, flag: int) -> int:
    """Return where the property of that flag begins, or would begin."""
    pos = 2
    before = (raw[0] << 8 | raw[1]) & ~(2 * flag - 1)
    for size in _layout(before):
        if size == 255:
            pos = skip_longstr(raw, pos, len(raw))
        else:
            pos += size or 1 + raw[pos]
    return pos


def with_text(raw: bytes, flag: int, value: str) -> bytes:
    """Return checked properties with another value of a short string property that is set."""
    old = text_property(raw, flag)
    assert old is not None
    start = _start(raw, flag)
    return raw[:start] + encode_shortstr(value) + raw[start + 1 + len(old) :]


def headers_of(raw: bytes) -> bytes:
    """Return the headers table of checked properties, without its length; b"" when
    there is none."""
    if not (raw[0] << 8 | raw[1]) & HEADERS:
        return b""
    start = _start(raw, HEADERS)
    return raw[start + 4 : skip_longstr(raw, start, len(raw))]


def with_headers(raw: bytes, table: bytes) -> bytes:
    """Return checked properties with that headers table, given without its length."""
    flags = raw[0] << 8 | raw[1]
    start = _start(raw, HEADERS)
    end = skip_longstr(raw, start, len(raw)) if flags & HEADERS else start
    return b"".join((FLAGS.pack(flags | HEADERS), raw[2:start], encode_longstr(table), raw[end:]))


def without_text(raw: bytes, flag: int) -> bytes:
    """Return checked properties without that short string property."""
    flags = raw[0] << 8 | raw[1]
    if not flags & flag:
        return raw
    start = _start(raw, flag)
    return FLAGS.pack(flags & ~flag) + raw[2:start] + raw[start + 1 + raw[start] :]


def without_header(raw: bytes, name: str) -> bytes:
    """Return checked properties that have a headers table without the header of that name."""
    flags = raw[0] << 8 | raw[1]
    start = 2
    for flag in (CONTENT_TYPE, CONTENT_ENCODING):
        if flags & flag:
            start += 1 + raw[start]
    end = skip_longstr(raw, start, len(raw))
    return raw[:start] + drop_field(raw[start:end], name) + raw[end:]
