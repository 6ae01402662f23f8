"""Cutting whole runs of messages out of a buffer, in few Python statements a message.

Peers mostly send runs: the same method again and again, each content complete in the buffer with
its body in one frame. Two cutters share the work. One takes messages of the same size, alike in
everything but the body's octets: they have a constant stride, so `struct.iter_unpack` cuts heads
and contents, and one strided slice checks all end octets. The mixed one takes any sizes and
properties, message by message. A third one takes over where each message has a routing key of its
own: there the header frames have to be equal, and the method frames must be valid.

    | method frame | header frame | body frame's head | body | 0xCE | method frame | ...
    |<------------------- prefix -------------------->|
                   |<------------- content ------------------->|
    |<------------------------- stride ----------------------->|

A cutter never reports errors. Anything unusual or incomplete ends the run before it, and the
connection goes on frame by frame, which accepts the same streams and reports what is wrong with the
others.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from sluicemq.amqp.frames import BODY, END, END_OCTET, HEADER, OVERHEAD, frame_end
from sluicemq.amqp.methods import BasicDeliver, BasicPublish
from sluicemq.amqp.properties import check_properties, free_spans
from sluicemq.amqp.types import Malformed
from sluicemq.limits import RUN_ACKS_MAX

HEADER_HEAD: Final = struct.Struct(">3sI4sQ")
"""The beginning of a header frame: type and channel, size, class and weight, body size."""
BODY_HEAD: Final = struct.Struct(">B3sI")
"""The octet that ends the frame before a body frame, then the body frame's type and channel, and
its size."""
SMALLEST_HEADER: Final = 22
CLASS_AND_WEIGHT: Final = b"\x00\x3c\x00\x00"
BODY_FRAME_HEAD: Final = 7
PROPERTIES_AT: Final = 19
"""The offset of the properties in a header frame."""

EXCHANGE_AT: Final = 13
"""The offset of exchange and key in a frame of basic.publish; two octets follow them."""
SMALLEST_PUBLISH: Final = 17
PUBLISH_IDS: Final = b"\x00\x3c\x00\x28"
IDS_AT: Final = 7

TAG: Final = struct.Struct(">Q")
ACK_SIZE: Final = 21
ACK: Final = struct.Struct(">11sQ2s")
UNPACK_ACK: Final = ACK.unpack_from
SMALL_TAG: Final = b"\0\0\0\0"
"""The octets with which a delivery tag begins that is less than 2 ** 32."""
SINGLE: Final = b"\x00\xce"
"""The octets with which a basic.ack ends that is not multiple."""

TOGETHER: Final = 16
"""So many messages of a run of one size are cut by one step of `struct.iter_unpack`, into a tuple
that Python keeps to use again."""

SAME_SIZE_MIN: Final = 8
"""A run of one size that is shorter than this is given up for a mixed one, which may be longer."""


def cut_contents(
    buf: bytes,
    pos: int,
    method: bytes,
    run_max: int,
    payload_max: int,
    body_max: int,
    after_tag: bytes = b"",
) -> tuple[list[bytes], int]:
    """Return at most `run_max` contents: the first at `pos`, the others after a frame equal to
    `method`; with `after_tag`, after a frame that consists of `method`, any delivery tag, and
    `after_tag`.

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
        if after_tag:
            pos += TAG.size
            if not buf.startswith(after_tag, pos):
                break
            pos += len(after_tag)
    return contents, done


def read_publish(raw: bytes) -> BasicPublish | None:
    """Return the method in a frame of basic.publish; None when it is malformed."""
    key_at = EXCHANGE_AT + 1 + raw[EXCHANGE_AT] if len(raw) >= SMALLEST_PUBLISH else 0
    if not key_at < len(raw) - 2 or key_at + raw[key_at] + 3 != len(raw):
        return None
    try:
        exchange = raw[EXCHANGE_AT + 1 : key_at].decode()
        routing_key = raw[key_at + 1 : -2].decode()
    except UnicodeDecodeError:
        return None
    bits = raw[-2]
    return BasicPublish(exchange, routing_key, bits & 1 != 0, bits & 2 != 0)


def cut_mixed_keys(
    buf: bytes, pos: int, content: bytes, methods: dict[bytes, BasicPublish], run_max: int
) -> tuple[list[bytes], list[BasicPublish], list[bytes], int]:
    """Cut at most `run_max` publishes from `pos` on, with any routing key, whose header frames
    equal that of `content`, the one before them.

    Returns their raw method frames, the methods in these, which are in `methods` then, their
    contents, and where the last of them ends.
    """
    raws: list[bytes] = []
    found: list[BasicPublish] = []
    contents: list[bytes] = []
    head = b"\x01" + content[1:3] + b"\0\0"
    """With the higher octets of the frame's size, which two short strings leave zero."""
    size = len(content)
    last = len(buf) - SMALLEST_PUBLISH - size
    if pos > last or not buf.startswith(head, pos):
        return raws, found, contents, pos
    look = content[: find_body(content, 0, size)]
    repeated = 0
    while pos <= last and len(contents) < run_max:
        at = pos + OVERHEAD + (buf[pos + 5] << 8 | buf[pos + 6])
        end = at + size
        if not buf.startswith(look, at) or end > len(buf) or buf[end - 1] != END:
            break
        raw = buf[pos:at]
        if raw[:5] != head:
            break
        method = methods.get(raw) or learn(raw, methods)
        if method is None:
            break
        if raws and raw == raws[-1]:
            repeated += 1
            if repeated == SAME_SIZE_MIN:
                break  # the other cutters do this better
        else:
            repeated = 0
        raws.append(raw)
        found.append(method)
        contents.append(buf[at:end])
        pos = end
    return raws, found, contents, pos


def learn(raw: bytes, methods: dict[bytes, BasicPublish]) -> BasicPublish | None:
    """Keep the method of a frame in `methods`, and return it; None when it is not a valid
    basic.publish."""
    if raw[-1] != END or not raw.startswith(PUBLISH_IDS, IDS_AT):
        return None
    method = read_publish(raw)
    if method is not None:
        methods[raw] = method
    return method


class Cutter:
    """Cuts messages of one length into the pieces that a format for `struct` names."""

    __slots__ = ("form", "many", "one")

    def __init__(self, form: str) -> None:
        self.form = form
        self.one = struct.Struct(form)
        self.many: struct.Struct | None = None
        """For TOGETHER messages; None: so many have not come yet."""

    def together(self) -> struct.Struct:
        """Return what cuts TOGETHER messages at once."""
        many = self.many
        if many is None:
            many = self.many = struct.Struct(self.form * TOGETHER)
        return many

    def pieces(self, buf: bytes, pos: int, count: int) -> list[bytes]:
        """Return all pieces of `count` messages from `pos` on."""
        found: list[bytes] = []
        end = pos + count * self.one.size
        view = memoryview(buf)
        if count >= TOGETHER:
            rest = end - count % TOGETHER * self.one.size
            for some in self.together().iter_unpack(view[pos:rest]):
                found += some
            pos = rest
        for some in self.one.iter_unpack(view[pos:end]):
            found += some
        return found

    def count(self, buf: bytes, pos: int, fits: int, look: tuple[bytes, ...]) -> int:
        """Return how many of the `fits` messages from `pos` on, up to the first that differs, have
        the pieces `look`."""
        count = 0
        size: int = self.one.size
        end = pos + fits * size
        view = memoryview(buf)
        if fits >= TOGETHER:
            looks = look * TOGETHER
            for some in self.together().iter_unpack(view[pos : end - fits % TOGETHER * size]):
                if some != looks:
                    break
                count += TOGETHER
        for some in self.one.iter_unpack(view[pos + count * size : end]):
            if some != look:
                break
            count += 1
        return count


class RunStencil:
    """The common look of a run of messages whose method frames have `size` octets and differ only
    in the spans `always`.

    The first octets of the last message are kept. When the next one begins with the same, only its
    length and its end octet 0xCE have to be checked. Where messages turn out to differ in octets
    that are free to change (a sequence in the headers, a message id), these are not compared any
    more: `fixed` are the pieces between them, with their places.
    """

    __slots__ = (
        "always",
        "body_size",
        "fixed",
        "heads",
        "look",
        "prefix",
        "size",
        "stride",
        "varying",
    )

    def __init__(self, size: int, always: Iterable[tuple[int, int]] = ()) -> None:
        self.size = size
        self.always = frozenset(always)
        self.prefix = b""
        self.stride = 0
        self.body_size = 0
        self.varying = self.always
        self.fixed: list[tuple[int, bytes]] = []
        self.look: tuple[bytes, ...] = ()
        """The pieces of `fixed`, which are the heads of a message."""
        self.heads: Cutter | None = None

    def knows(self, buf: bytes, pos: int, body_max: int) -> bool:
        """Tell whether the message at `pos` begins with the octets known to be good, and these
        announce a body of at most `body_max` bytes."""
        return self.prefix != b"" and self.body_size <= body_max and self.fits(buf, pos)

    def fits(self, buf: bytes, pos: int) -> bool:
        """Tell whether the first octets of the message at `pos` equal the known ones, except in the
        spans that vary."""
        if not self.varying:
            prefix = self.prefix
            return buf[pos : pos + len(prefix)] == prefix
        return all(buf.startswith(piece, pos + at) for at, piece in self.fixed)

    def is_begun(self, buf: bytes, pos: int) -> bool:
        """Tell whether the message at `pos` looks like the known one and is incomplete: nothing can
        be cut from there on."""
        return pos + self.stride > len(buf) and self.fits(buf, pos)

    def learn(self, buf: bytes, pos: int, end: int) -> None:
        """Keep the look of the valid message from `pos` to `end`."""
        body_at = find_body(buf, pos + self.size, end)
        self.prefix = buf[pos:body_at]
        self.stride = end - pos
        self.body_size = end - body_at
        self.vary(self.always)

    def vary(self, spans: frozenset[tuple[int, int]]) -> None:
        """Exclude `spans` of the first octets from comparison."""
        self.varying = spans
        self.fixed = []
        at = 0
        for start, end in [*sorted(spans), (len(self.prefix), 0)]:
            self.fixed.append((at, self.prefix[at:start]))
            at = end
        self.heads = None

    def loosen(self, buf: bytes, pos: int) -> bool:
        """Tell whether the message at `pos` differs from the known one only in octets that are free
        to change; those are not compared from then on."""
        known, before = self.prefix, self.varying
        properties = self.size + PROPERTIES_AT
        for at, piece in self.fixed:
            if at < properties and not buf.startswith(piece[: properties - at], pos + at):
                return False
        spans = free_spans(known[properties : frame_end(known, self.size) - 1])
        moved = {(properties + start, properties + end) for start, end in spans}
        self.vary(before | {s for s in moved if known[s[0] : s[1]] != buf[pos + s[0] : pos + s[1]]})
        if self.fits(buf, pos):
            return True
        self.vary(before)
        return False

    def count_same_size(self, buf: bytes, pos: int, run_max: int) -> int:
        """Return how many of the messages from `pos` on look like the known one, which is the
        first."""
        stride = self.stride
        heads = self.heads
        if heads is None:
            form, at = "", 0
            for start, piece in self.fixed:
                form += f"{start - at}x{len(piece)}s"
                at = start + len(piece)
            heads = self.heads = Cutter(f"{form}{stride - at}x")
            self.look = tuple(piece for _, piece in self.fixed)
        count = heads.count(buf, pos, min(run_max, (len(buf) - pos) // stride), self.look)
        return count_ends(buf, pos, stride, count)


class PublishStencil(RunStencil):
    """The common look of the publishes with one raw method frame."""

    __slots__ = ("contents", "method", "raw")

    def __init__(self, raw: bytes, method: BasicPublish) -> None:
        super().__init__(len(raw))
        self.raw = raw
        self.method = method
        self.contents = Cutter("")

    def cut(
        self,
        buf: bytes,
        pos: int,
        run_max: int,
        payload_max: int,
        body_max: int,
        is_known: bool = False,
    ) -> tuple[list[bytes], int, bool]:
        """Return the contents that follow the method frame at `pos` and each further frame equal to
        it, at most `run_max`, with payloads and bodies up to those sizes.

        Also returns where the last of them ends, and whether they are alike: their header frames
        are equal, except where `varying`. With no contents, the position is instead how many octets
        from `pos` on would make a message, 0 if that is not clear. The caller may have seen
        already that the stencil `knows` the first message.
        """
        raw = self.raw
        start = pos + len(raw)
        if not is_known and not self.knows(buf, pos, body_max):
            contents, end = cut_contents(buf, start, raw, 1, payload_max, body_max)
            if not contents:
                return contents, 0, True
            self.learn(buf, pos, end)
            self.contents = Cutter(f"{len(raw)}x{self.stride - len(raw)}s")
        end = pos + self.stride
        if end > len(buf):
            return [], self.stride, True
        if buf[end - 1] != END:
            return [], 0, True
        if end == len(buf):
            return [buf[start:end]], end, True
        count = 1
        if run_max > 1 and (self.fits(buf, end) or self.loosen(buf, end)):
            count = self.count_same_size(buf, pos, run_max)
            end = pos + count * self.stride
            contents = self.contents.pieces(buf, pos, count)
        else:
            contents = [buf[start:end]]
        few = count < min(SAME_SIZE_MIN, run_max)
        if few and buf.startswith(raw, end) and not self.is_begun(buf, end):
            contents, end = cut_contents(buf, start, raw, run_max, payload_max, body_max)
        return contents, end, len(contents) == count


class DeliverStencil(RunStencil):
    """The common look of deliveries whose method frames differ only in the delivery tag."""

    __slots__ = ("after_tag", "head", "method", "tags")

    def __init__(self, raw: bytes, tag_at: int, method: BasicDeliver) -> None:
        super().__init__(len(raw), [(tag_at, tag_at + TAG.size)])
        self.method = method
        self.head = raw[:tag_at]
        self.after_tag = raw[tag_at + TAG.size :]
        self.tags = struct.Struct("")

    def cut(
        self, buf: bytes, pos: int, run_max: int, payload_max: int, body_max: int
    ) -> tuple[list[int], list[bytes], int]:
        """Return the tags of at most `run_max` deliveries from `pos` on, their contents, and where
        the last of them ends.

        There are no contents when all have one stride: those are cut on demand. With no tags, the
        position is instead how many octets from `pos` on would make a message, 0 if that is not
        clear.
        """
        head = self.head
        start = pos + self.size
        if not self.knows(buf, pos, body_max):
            contents, end = cut_contents(buf, start, head, 1, payload_max, body_max)
            if not contents:
                return [], [], 0
            self.learn(buf, pos, end)
            after = self.stride - len(head) - TAG.size
            self.tags = struct.Struct(f">{len(head)}xQ{after}x")
        end = pos + self.stride
        if end > len(buf):
            return [], [], self.stride
        if buf[end - 1] != END:
            return [], [], 0
        count = 1
        if run_max > 1 and (self.fits(buf, end) or self.loosen(buf, end)):
            count = self.count_same_size(buf, pos, run_max)
            end = pos + count * self.stride
        few = count < min(SAME_SIZE_MIN, run_max)
        if few and buf.startswith(head, end) and not self.is_begun(buf, end):
            contents, end = cut_contents(
                buf, start, head, run_max, payload_max, body_max, self.after_tag
            )
            if len(contents) > count:
                return self.read_tags(buf, pos, contents), contents, end
        return [tag for (tag,) in self.tags.iter_unpack(memoryview(buf)[pos:end])], [], end

    def read_tags(self, buf: bytes, pos: int, contents: list[bytes]) -> list[int]:
        """Return the tags of the deliveries from `pos` on with these contents."""
        pos += len(self.head)
        tags: list[int] = []
        for content in contents:
            tags += TAG.unpack_from(buf, pos)
            pos += self.size + len(content)
        return tags


def find_body(buf: bytes, content: int, end: int) -> int:
    """Return where the body's octets begin in the content from `content` to `end`; `end` when there
    is no body."""
    after_header = frame_end(buf, content)
    return after_header if after_header == end else after_header + BODY_FRAME_HEAD


def count_ends(buf: bytes, pos: int, stride: int, count: int) -> int:
    """Return how many of `count` messages from `pos` on end in 0xCE, up to the first
    that does not."""
    ends = buf[pos + stride - 1 : pos + count * stride : stride]
    return count - len(ends.lstrip(END_OCTET))


def cut_acks(buf: bytes, pos: int) -> list[int]:
    """Return the tags of the basic.ack frames from `pos` on, as long as they are of one channel and
    not multiple. Each takes ACK_SIZE octets."""
    end = pos + ACK_SIZE
    head = buf[pos : pos + 11] if len(buf) >= end + 11 else b""
    if not head or buf[end : end + 11] != head:  # one alone
        if end > len(buf) or buf[end - 2] or buf[end - 1] != END:
            return []
        if buf[pos + 11 : pos + 15] == SMALL_TAG:
            at = pos + 15
            return [buf[at] << 24 | buf[at + 1] << 16 | buf[at + 2] << 8 | buf[at + 3]]
        return [UNPACK_ACK(buf, pos)[1]]
    fits = min(RUN_ACKS_MAX, (len(buf) - pos) // ACK_SIZE)
    tags: list[int] = []
    add = tags.append
    for found, tag, rest in ACK.iter_unpack(memoryview(buf)[pos : pos + fits * ACK_SIZE]):
        if found != head or rest != SINGLE:
            break
        add(tag)
    return tags
