"""The header x-stream-offset, which consumers get with each message of a stream.

It is appended to the headers table in the raw header frame. A producer repeats its properties, so
its place is worked out once for equal header frames.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from sluicemq.amqp.properties import CONTENT_ENCODING, CONTENT_TYPE, HEADERS
from sluicemq.amqp.types import Malformed, drop_field, skip_longstr
from sluicemq.limits import TRAITS_MAX

NAME: Final = "x-stream-offset"
FIELD: Final = bytes([len(NAME)]) + NAME.encode() + b"l"
"""The field's name and type; its value is a signed 64-bit number."""
OFFSET_SIZE: Final = 8
FIELD_SIZE: Final = len(FIELD) + OFFSET_SIZE
PACK_OFFSET: Final = struct.Struct(">Q").pack
LENGTH: Final = struct.Struct(">I")
PROPERTIES_AT: Final = 19
"""The offset of the properties: behind the frame's head, class, weight and body size."""
HEADER_SIZE_MIN: Final = 22
"""The octets of a header frame without any property."""
CUT_MAX: Final = 128
"""The most contents that are cut at once, a power of two."""
LAYOUTS_MAX: Final = 64
"""The number of layouts that are remembered, of some kilobytes each."""


class Headless(NamedTuple):
    """Contents of one length whose header frames are the same up to the headers: with their offsets
    they are `before`, the offset, and one of the `rests`."""

    before: bytes
    rests: list[bytes]


def headless(data: bytes | memoryview, at: int, size: int, count: int) -> Headless | None:
    """Return the `count` contents of `size` octets each that stand one behind the other at
    data[at:] as Headless; None when they are not alike. It looks at many of them at once, at a
    tenth of what it costs to cut them one by one."""
    before, length = front(data, at, size)
    if not length:
        return None
    header = bytes(data[at : at + length])
    rests: list[bytes] = []
    step = CUT_MAX
    while len(rests) < count:
        while step > count - len(rests):
            step >>= 1
        pieces = layout(length, size - length, step).unpack_from(data, at)
        if pieces[::2].count(header) != step:
            return None
        rests += pieces[1::2]
        at += step * size
    return Headless(before, rests)


def front(data: bytes | memoryview, at: int, size: int) -> tuple[bytes, int]:
    """Return what stands before the offset of the content of `size` octets at data[at:], and how
    many of its own octets that replaces; 0 when it does not begin with a header frame."""
    length: int = 8 + LENGTH.unpack_from(data, at + 3)[0] if size >= 8 else 0
    if not HEADER_SIZE_MIN <= length <= size:
        return b"", 0
    before, after = around_offset(bytes(data[at : at + length]))
    return before, length - len(after)


class Packed:
    """Contents of `size` octets each, `count` of them, that stand one behind the other in `data`
    from `at` on, and are cut when they are wanted."""

    __slots__ = ("at", "count", "data", "size")

    def __init__(self, data: bytes | memoryview, at: int, size: int, count: int) -> None:
        self.data = data
        self.at = at
        self.size = size
        self.count = count

    def cut(self) -> list[bytes]:
        """Return all contents, each as an object of its own."""
        end = self.at + self.size * self.count
        return [bytes(self.data[at : at + self.size]) for at in range(self.at, end, self.size)]

    def headless(self, start: int, count: int) -> Headless | None:
        """Return `count` contents from the one at index `start` on; None when they are not
        alike."""
        return headless(self.data, self.at + start * self.size, self.size, count)

    def length(self, index: int) -> int:
        """Return the octets of the content at `index` with its offset; 0 when it does not begin
        with a header frame."""
        before, length = front(self.data, self.at + index * self.size, self.size)
        return len(before) + OFFSET_SIZE + self.size - length if length else 0


@lru_cache(maxsize=LAYOUTS_MAX)
def layout(header: int, rest: int, count: int) -> struct.Struct:
    """Return the layout of `count` contents, each of what all begin with and the rest, of these
    lengths."""
    return struct.Struct(f"{header}s{rest}s" * count)


def with_offsets(contents: list[bytes], first: int) -> list[bytes]:
    """Return the contents, each with its offset in the header x-stream-offset; that of the first is
    `first`."""
    stamped: list[bytes] = []
    known = b"\xff"
    size = 0
    head = tail = b""
    for offset, content in enumerate(contents, first):
        if not content.startswith(known):
            size = 8 + LENGTH.unpack_from(content, 3)[0]
            known = content[:size]
            head, tail = around_offset(known)
        stamped.append(b"".join((head, PACK_OFFSET(offset), tail, content[size:])))
    return stamped


@lru_cache(maxsize=TRAITS_MAX)
def around_offset(frame: bytes) -> tuple[bytes, bytes]:
    """Return a header frame with the offset's header, split where its value goes. A header of this
    name from the publisher is replaced."""
    properties = frame[PROPERTIES_AT:-1]
    flags = properties[0] << 8 | properties[1]
    at = 2
    for flag in (CONTENT_TYPE, CONTENT_ENCODING):
        if flags & flag:
            at += 1 + properties[at]
    fields, after = b"", properties[at:]
    if flags & HEADERS:
        end = skip_longstr(properties, at, len(properties))
        fields, after = without_offset(properties[at:end]), properties[end:]
    before = b"".join(
        (
            (flags | HEADERS).to_bytes(2),
            properties[2:at],
            LENGTH.pack(len(fields) + FIELD_SIZE),
            fields,
            FIELD,
        )
    )
    size = PROPERTIES_AT - 7 + len(before) + 8 + len(after)
    head = b"".join((frame[:3], LENGTH.pack(size), frame[7:PROPERTIES_AT], before))
    return head, after + b"\xce"


def without_offset(table: bytes) -> bytes:
    """Return the fields of a raw table without the header x-stream-offset. A table that cannot be
    read is returned unchanged."""
    if FIELD[:-1] in table:
        with suppress(Malformed):
            table = drop_field(table, NAME)
    return table[4:]
