"""Cutting whole runs of messages out of a buffer, in few Python statements a message.

A run is what peers send most: the same method again and again, each content complete in the buffer
with its body in one frame. Two cutters share the work. The even one takes messages that are alike
in everything but the body's octets: they stand at a constant stride, so `struct.iter_unpack` cuts
heads and contents, one strided slice looks at all end octets. The mixed one takes any sizes and
properties, message by message.

    | method frame | header frame | body frame's head | body | 0xCE | method frame | ...
    |<------------------- prefix -------------------->|
                   |<------------- content ------------------->|
    |<------------------------- stride ----------------------->|

A cutter never judges. Whatever is unusual or incomplete ends the run before it, and the connection
goes on frame by frame, which accepts the same streams and says what is wrong with the others.
"""

from __future__ import annotations

import struct
from typing import Final

from sluicemq.amqp.frames import BODY, END, END_OCTET, HEADER, OVERHEAD, frame_end
from sluicemq.amqp.properties import check_properties
from sluicemq.amqp.types import Malformed
from sluicemq.limits import RUN_ACKS_MAX

HEADER_HEAD: Final = struct.Struct(">3sI4sQ")
"""Of a header frame: type and channel, size, class and weight, body size."""
BODY_HEAD: Final = struct.Struct(">B3sI")
"""The octet before a body frame; its type and channel, size."""
SMALLEST_HEADER: Final = 22
CLASS_AND_WEIGHT: Final = b"\x00\x3c\x00\x00"
BODY_FRAME_HEAD: Final = 7

ACK_SIZE: Final = 21
ACK: Final = struct.Struct(">11sQ2s")
SINGLE: Final = b"\x00\xce"
"""How a basic.ack ends that is not multiple."""

EVEN_MIN: Final = 8
"""An even run shorter than this is given up for a mixed one, which may be longer."""


def cut_contents(
    buf: bytes, pos: int, method: bytes, run_max: int, payload_max: int, body_max: int
) -> tuple[list[bytes], int]:
    """At most `run_max` contents: the first at `pos`, the others after a frame equal to `method`.

    Also returns where the last of them ends. Sizes and properties may differ.
    """
    channel = method[1:3]
    header_kind = bytes((HEADER,)) + channel
    body_kind = bytes((BODY,)) + channel
    contents: list[bytes] = []
    known = b""
    done = pos
    size = len(buf)
    last = size - SMALLEST_HEADER
    while pos <= last:
        kind, header_size, ids, body_size = HEADER_HEAD.unpack_from(buf, pos)
        if kind != header_kind or ids != CLASS_AND_WEIGHT or header_size > payload_max:
            break
        body_at = pos + OVERHEAD + header_size
        end = body_at
        if body_size:
            end += OVERHEAD + body_size
        if end > size or body_size > body_max or buf[end - 1] != END:
            break
        if body_size:
            mark, kind, frame_size = BODY_HEAD.unpack_from(buf, body_at - 1)
            if mark != END or kind != body_kind or frame_size != body_size:
                break
        properties = buf[pos + HEADER_HEAD.size : body_at - 1]
        if properties != known:
            try:
                check_properties(properties, 0, len(properties))
            except Malformed:
                break
            known = properties
        contents.append(buf[pos:end])
        done = end
        if len(contents) >= run_max or not buf.startswith(method, end):
            break
        pos = end + len(method)
    return contents, done


def cut_publishes(
    buf: bytes, pos: int, method: bytes, run_max: int, payload_max: int, body_max: int
) -> tuple[list[bytes], int, bool]:
    """The contents that follow the method frame at `pos` and each further frame equal to it, at
    most `run_max`, with payloads and bodies up to those sizes.

    Also returns where the last of them ends, and whether their header frames are equal.
    """
    start = pos + len(method)
    contents, end = cut_contents(buf, start, method, 1, payload_max, body_max)
    if not contents or run_max == 1:
        return contents, end, True
    prefix = buf[pos : prefix_end(buf, start, end)]
    if not buf.startswith(prefix, end):
        if not buf.startswith(method, end):
            return contents, end, True
        contents, end = cut_contents(buf, start, method, run_max, payload_max, body_max)
        return contents, end, False
    stride = end - pos
    count = count_even(buf, pos, prefix, stride, run_max)
    if count < EVEN_MIN and buf.startswith(method, pos + count * stride):
        contents, end = cut_contents(buf, start, method, run_max, payload_max, body_max)
        return contents, end, len(contents) == count
    return split_even(buf, pos, len(method), stride, count), pos + count * stride, True


def prefix_end(buf: bytes, content: int, end: int) -> int:
    """Where the body's octets begin in the content at `content` (its end, if it has none)."""
    after_header = frame_end(buf, content)
    return after_header if after_header == end else after_header + BODY_FRAME_HEAD


def count_even(buf: bytes, pos: int, prefix: bytes, stride: int, run_max: int) -> int:
    """How many messages from `pos` on begin with `prefix` and end in 0xCE, `stride` apart."""
    fits = min(run_max, (len(buf) - pos) // stride)
    head = struct.Struct(f"{len(prefix)}s{stride - len(prefix)}x")
    count = 0
    for (found,) in head.iter_unpack(memoryview(buf)[pos : pos + fits * stride]):
        if found != prefix:
            break
        count += 1
    ends = buf[pos + stride - 1 : pos + count * stride : stride]
    return count - len(ends.lstrip(END_OCTET))


def split_even(buf: bytes, pos: int, skip: int, stride: int, count: int) -> list[bytes]:
    """The rest of each of `count` messages after its first `skip` octets."""
    content = struct.Struct(f"{skip}x{stride - skip}s")
    messages = memoryview(buf)[pos : pos + count * stride]
    return [found for (found,) in content.iter_unpack(messages)]


def cut_acks(buf: bytes, pos: int) -> list[int]:
    """The tags of the basic.ack frames from `pos` on, as long as they are of one channel and not
    multiple. Each is ACK_SIZE octets."""
    head = buf[pos : pos + 11]
    fits = min(RUN_ACKS_MAX, (len(buf) - pos) // ACK_SIZE)
    tags: list[int] = []
    add = tags.append
    for found, tag, rest in ACK.iter_unpack(memoryview(buf)[pos : pos + fits * ACK_SIZE]):
        if found != head or rest != SINGLE:
            break
        add(tag)
    return tags


def cut_deliveries(
    buf: bytes,
    pos: int,
    method: bytes,
    tag_at: int,
    run_max: int,
    payload_max: int,
    body_max: int,
) -> tuple[list[int], list[bytes], int]:
    """Tags and contents of the deliveries from `pos` on that differ in tag and body only.

    The first one's method frame is `method`, its delivery tag `tag_at` octets into it. Also
    returns where the last of them ends.
    """
    start = pos + len(method)
    contents, end = cut_contents(buf, start, method, 1, payload_max, body_max)
    first: int = struct.unpack_from(">Q", method, tag_at)[0]
    if not contents or run_max == 1:
        return [first], contents, end
    stride = end - pos
    head = method[:tag_at]
    tail = buf[pos + tag_at + 8 : prefix_end(buf, start, end)]
    body = stride - len(head) - 8 - len(tail)
    fits = min(run_max, (len(buf) - pos) // stride)
    form = struct.Struct(f">{len(head)}sQ{len(tail)}s{body}x")
    tags: list[int] = []
    add = tags.append
    for found, tag, rest in form.iter_unpack(memoryview(buf)[pos : pos + fits * stride]):
        if found != head or rest != tail:
            break
        add(tag)
    ends = buf[pos + stride - 1 : pos + len(tags) * stride : stride]
    del tags[len(tags) - len(ends.lstrip(END_OCTET)) :]
    count = len(tags)
    return tags, split_even(buf, pos, len(method), stride, count), pos + count * stride
