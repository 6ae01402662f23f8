"""Frames and contents as bytes.

     0      1         3           7              7+size
    +------+---------+-----------+----- - - -----+------+
    | type | channel | size      | payload       | 0xCE |
    +------+---------+-----------+----- - - -----+------+

A content is a header frame and the body frames after it, in one `bytes`.
"""

from __future__ import annotations

import struct
from typing import Final

from sluicemq.amqp.properties import Header, header_frame, parse_header

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
END: Final = 0xCE
END_OCTET: Final = b"\xce"
OVERHEAD: Final = 8
"""Octets of a frame around its payload."""

LARGE_BYTES: Final = 8192
"""From so many octets on a copy costs more than another piece of a write."""

FRAME: Final = struct.Struct(">BHI")
CHANNEL: Final = struct.Struct(">H")
SIZE: Final = struct.Struct(">I")

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def frame_end(buf: bytes, pos: int) -> int:
    """Return where the frame at `pos` ends, frame end octet included."""
    size: int = SIZE.unpack_from(buf, pos + 3)[0]
    return pos + OVERHEAD + size


def body_frames(
    channel: int, body: bytes | bytearray, frame_max: int
) -> list[bytes | bytearray | memoryview]:
    """Return the parts of the body frames; none for an empty body. `frame_max` 0 makes
    one frame."""
    step = frame_max - OVERHEAD if frame_max else len(body)
    if len(body) <= step:
        return [FRAME.pack(BODY, channel, len(body)), body, END_OCTET] if body else []
    parts: list[bytes | bytearray | memoryview] = []
    view = memoryview(body)
    for pos in range(0, len(body), step):
        piece = view[pos : pos + step]
        parts += (FRAME.pack(BODY, channel, len(piece)), piece, END_OCTET)
    return parts


def content_frames(channel: int, properties_payload: bytes, body: bytes, frame_max: int) -> bytes:
    """Return the header and body frames of a content; `properties_payload` are raw flags and
    fields."""
    header = header_frame(channel, len(body), properties_payload)
    return b"".join([header, *body_frames(channel, body, frame_max)])


def content_header(content: bytes) -> Header:
    """Return what the content's header frame says."""
    return parse_header(content[7 : frame_end(content, 0) - 1])


def content_body(content: bytes) -> bytes:
    """Return the body of a content, without its frames."""
    pos = frame_end(content, 0)
    if pos == len(content):
        return b""
    end = frame_end(content, pos)
    if end == len(content):
        return content[pos + 7 : -1]
    pieces: list[bytes] = []
    while pos < len(content):
        end = frame_end(content, pos)
        pieces.append(content[pos + 7 : end - 1])
        pos = end
    return b"".join(pieces)


def on_channel(content: bytes, channel: int) -> bytes:
    """Return the same content with another channel number in all its frames."""
    number = CHANNEL.pack(channel)
    if content[1:3] == number:
        return content
    parts = [b"\x02", number]
    pos = 3
    end = frame_end(content, 0)
    while end < len(content):
        parts += (content[pos : end + 1], number)
        pos = end + 3
        end = frame_end(content, end)
    parts.append(content[pos:])
    return b"".join(parts)


def fit(content: bytes, frame_max: int) -> bytes:
    """Return the same content, its body split again if a frame is larger than `frame_max` bytes (0:
    no limit)."""
    if not frame_max or len(content) <= frame_max:
        return content
    pos = header_end = frame_end(content, 0)
    while pos < len(content):
        end = frame_end(content, pos)
        if end - pos > frame_max:
            channel = CHANNEL.unpack_from(content, 1)[0]
            parts = body_frames(channel, content_body(content), frame_max)
            return b"".join([content[:header_end], *parts])
        pos = end
    return content


def joined(parts: list[bytes]) -> list[bytes]:
    """Return the same octets in pieces for a socket: large parts stay as they are, and the small
    ones between are joined. There must be at least one part."""
    if len(parts) == 1:
        return parts
    if max(map(len, parts)) < LARGE_BYTES:
        return [b"".join(parts)]
    pieces: list[bytes] = []
    small: list[bytes] = []
    for part in parts:
        if len(part) < LARGE_BYTES:
            small.append(part)
            continue
        if small:
            pieces.append(b"".join(small))
            small.clear()
        pieces.append(part)
    if small:
        pieces.append(b"".join(small))
    return pieces
