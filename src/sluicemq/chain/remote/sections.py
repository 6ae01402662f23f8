"""The messages between the nodes of a channel and of its queue, in bytes (docs/cluster-wire.md).

A frame has sections, one after the other, in the order in which they were said:

    kind u8 | flags u8 | 0 u16 | length u32 | serial u64 | body, of `length` bytes

`serial` names the end that a section is about: one channel at one queue, in one life of the link
between their nodes. The channel's node gives it, in both directions. All numbers are little-endian.
"""

from __future__ import annotations

import json
import struct
from itertools import accumulate, pairwise
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.errors import SluiceError
from sluicemq.limits import DELIVERY_COST_BYTES
from sluicemq.model.traits import MessageTraits, message_traits
from sluicemq.queues.commands import LinkId
from sluicemq.text import octets, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTION: Final = Struct("<BBxxIQ")

OPEN, COMMAND, WINDOW, LIMIT = range(1, 5)
"""What a channel's node says: about whom, then commands, and what its client has taken."""

(
    CREDIT,
    CONFIRMS,
    REJECTED,
    DELIVER,
    GOT,
    CONSUMED,
    CANCELLED,
    INSPECTED,
    PURGED,
    DELETED,
    REFUSED,
    ENDED,
    FIGURES,
    LAG,
) = range(16, 30)
"""What a queue's node says."""

SAME_SIZE, PERSISTENT, REDELIVERED, HAS_MESSAGE, HAS_LINK = 1, 2, 4, 8, 16
"""Flags of messages on their way to a channel."""
BY_BROKER: Final = 1
IS_LOST: Final = 1
LAGS: Final = 1
MIXED: Final = 1

COUNT: Final = Struct("<I")
AMOUNT: Final = Struct("<Q")
LINK: Final = Struct("<QQ")
INSPECTION: Final = Struct("<QI")
CODE: Final = Struct("<H")
CONFIRM_ROW: Final = Struct("<QI")
REJECTION: Final = Struct("<QII")
DELIVER_HEAD: Final = Struct("<QIIIHHB")
FIGURES_ROW: Final = Struct("<QQQQQQI")
GOT_HEAD: Final = Struct("<QQQQHH")


class BrokenSection(SluiceError):
    """The bytes that came are not a message between the nodes of a channel and a queue."""


class OpenedEnd(NamedTuple):
    """What the sections with a new serial are about: a channel, by the name that users know, and
    the queue that it means."""

    vhost: str
    queue: str
    queue_id: int
    channel: str


class QueueFigures(NamedTuple):
    """The figures of one of a node's own queues, by its id, told to other nodes for users:
    messages, their bytes, and consumers."""

    queue_id: int = 0
    ready: int = 0
    unacked: int = 0
    persistent: int = 0
    ready_bytes: int = 0
    unacked_bytes: int = 0
    consumers: int = 0


class SectionCame:
    """A section as it came, about the end with that serial. Its body is in the frame, from `start`
    to before `end`; large ones are read from there."""

    __slots__ = ("end", "flags", "frame", "kind", "serial", "start")

    def __init__(
        self, serial: int, kind: int, flags: int, frame: bytes, start: int, end: int
    ) -> None:
        self.serial = serial
        self.kind = kind
        self.flags = flags
        self.frame = frame
        self.start = start
        self.end = end

    @property
    def body(self) -> bytes:
        """Return the body, which is cut out of the frame."""
        return self.frame[self.start : self.end]

    def by_itself(self) -> SectionCame:
        """Return the same section without the rest of its frame, to be kept for long."""
        body = self.body
        return SectionCame(self.serial, self.kind, self.flags, body, 0, len(body))


class MessagesOnWire(NamedTuple):
    """A delivery as it came. For the queue its messages are the contents of `run` from 0 on; run 0
    needs no acknowledgements. Each takes `cost_each` of the delivery window."""

    tag: str
    run: int
    cost_each: int
    contents: list[bytes]
    traits: MessageTraits
    redelivered: bool


class MessageOnWire(NamedTuple):
    """An answer to basic.get as it came. `content` is None when the queue is empty; `link` is None
    when the message needs no acknowledgement."""

    content: bytes | None
    run: int
    link: LinkId | None
    ready: int
    traits: MessageTraits
    redelivered: bool


def cost_on_wire(count: int, size_bytes: int) -> int:
    """Return what a batch of so many messages and bytes takes of the credit between two nodes."""
    return count + size_bytes // DELIVERY_COST_BYTES


def section(kind: int, serial: int, body: list[bytes], flags: int = 0) -> list[bytes]:
    """Return a section in parts."""
    return [SECTION.pack(kind, flags, sum(map(len, body)), serial), *body]


def sections(payload: bytes) -> Iterator[SectionCame]:
    """Yield the sections of a frame. Raises BrokenSection where they do not fit."""
    at, end = 0, len(payload)
    while at < end:
        if end - at < SECTION.size:
            raise BrokenSection("a section that ends in its head")
        kind, flags, length, serial = SECTION.unpack_from(payload, at)
        at += SECTION.size
        if end - at < length:
            raise BrokenSection("a section that is longer than its frame")
        yield SectionCame(serial, kind, flags, payload, at, at + length)
        at += length


def encode_open(opened: OpenedEnd) -> bytes:
    return json.dumps(opened).encode()


def decode_open(body: bytes) -> OpenedEnd:
    """Return what an opening is about. Raises BrokenSection."""
    try:
        vhost, queue, queue_id, channel = json.loads(body)
    except (ValueError, TypeError, RecursionError) as error:
        raise BrokenSection(f"an opening that does not parse: {error}") from error
    opened = OpenedEnd(vhost, queue, queue_id, channel)
    if tuple(map(type, opened)) != (str, str, int, str):
        raise BrokenSection("an opening with other values than it should have")
    return opened


def unpacked(layout: Struct, body: bytes) -> tuple[int, ...]:
    """Return the numbers that a body consists of. Raises BrokenSection."""
    try:
        return layout.unpack(body)
    except struct.error as error:
        raise BrokenSection(f"a section of {len(body)} bytes: {error}") from error


def rows(layout: Struct, body: bytes) -> Iterator[tuple[int, ...]]:
    """Return the rows that a body consists of. Raises BrokenSection."""
    if len(body) % layout.size:
        raise BrokenSection(f"rows of {len(body)} bytes")
    return layout.iter_unpack(body)


def encode_delivery(
    tag: str,
    run: int,
    cost_each: int,
    contents: list[bytes],
    traits: MessageTraits,
    redelivered: bool,
) -> tuple[int, list[bytes]]:
    """Return flags and body of a delivery."""
    sizes = [*map(len, contents)]
    is_same = len({*sizes}) == 1
    raw_tag = octets(tag)
    head = DELIVER_HEAD.pack(
        run,
        cost_each,
        len(contents),
        sizes[0] if is_same else 0,
        len(traits.envelope),
        traits.channel_number,
        len(raw_tag),
    )
    parts = [head, raw_tag, traits.envelope]
    if not is_same:
        parts.append(Struct(f"<{len(sizes)}I").pack(*sizes))
    flags = SAME_SIZE * is_same | PERSISTENT * traits.persistent | REDELIVERED * redelivered
    return flags, parts + contents


def decode_delivery(flags: int, data: bytes, start: int, end: int) -> MessagesOnWire:
    """Return the delivery that came as the octets of `data` from `start` to before `end`. Raises
    BrokenSection."""
    size_bytes = end - start
    try:
        run, cost_each, count, size, envelope_size, number, tag_size = DELIVER_HEAD.unpack_from(
            data, start
        )
        at = start + DELIVER_HEAD.size
        tag = text_of(data[at : at + tag_size])
        at += tag_size
        envelope = data[at : at + envelope_size]
        at += envelope_size
        if flags & SAME_SIZE:
            contents = [data[a : a + size] for a in range(at, end, size or 1)]
            last = at + count * size
        else:
            sizes = Struct(f"<{count}I")
            ends = [*accumulate(sizes.unpack_from(data, at), initial=at + sizes.size)]
            contents = [data[a:b] for a, b in pairwise(ends)]
            last = ends[-1]
    except struct.error as error:
        raise BrokenSection(f"a delivery of {size_bytes} bytes: {error}") from error
    if len(contents) != count or not count or not cost_each or last > end:
        raise BrokenSection("a delivery with other messages than it says")
    if flags & SAME_SIZE and last != end:
        raise BrokenSection("a delivery with other sizes than it says")
    traits = message_traits(envelope, number, bool(flags & PERSISTENT))
    return MessagesOnWire(tag, run, cost_each, contents, traits, bool(flags & REDELIVERED))


def encode_got(message: MessageOnWire) -> tuple[int, list[bytes]]:
    """Return flags and body of an answer to basic.get."""
    traits = message.traits
    link = message.link or LinkId(0, 0)
    head = GOT_HEAD.pack(
        message.run, *link, message.ready, len(traits.envelope), traits.channel_number
    )
    flags = PERSISTENT * traits.persistent | REDELIVERED * message.redelivered
    flags |= HAS_MESSAGE * (message.content is not None) | HAS_LINK * (message.link is not None)
    return flags, [head, traits.envelope, message.content or b""]


def decode_got(flags: int, body: bytes) -> MessageOnWire:
    """Return an answer to basic.get as it came. Raises BrokenSection."""
    if len(body) < GOT_HEAD.size:
        raise BrokenSection(f"an answer to basic.get of {len(body)} bytes")
    run, term, link, ready, envelope_size, number = GOT_HEAD.unpack_from(body)
    at = GOT_HEAD.size + envelope_size
    traits = message_traits(body[GOT_HEAD.size : at], number, bool(flags & PERSISTENT))
    return MessageOnWire(
        body[at:] if flags & HAS_MESSAGE else None,
        run,
        LinkId(term, link) if flags & HAS_LINK else None,
        ready,
        traits,
        bool(flags & REDELIVERED),
    )


def encode_refusal(code: int, text: str) -> list[bytes]:
    return [CODE.pack(code), octets(text)]


def decode_refusal(body: bytes) -> tuple[int, str]:
    """Return code and text of a refusal. Raises BrokenSection."""
    [code] = unpacked(CODE, body[: CODE.size])
    return code, text_of(body[CODE.size :])
