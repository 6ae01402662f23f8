"""From a Deliver to the bytes of its frames: constant head, tag, constant tail, raw content."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.frames import END_OCTET, LARGE_BYTES, fit, joined, on_channel
from sluicemq.amqp.numbering import NUMBER_SIZE, OCTETS, numbered
from sluicemq.limits import ENVELOPES_MAX
from sluicemq.model.batch import ENVELOPED, separate
from sluicemq.queues.effects import StampedDeliver
from sluicemq.text import octets

if TYPE_CHECKING:
    from sluicemq.model.traits import MessageTraits
    from sluicemq.queues.effects import Deliver, Got

PACK_TAG: Final = struct.Struct(">Q").pack
DELIVER: Final = b"\x00\x3c\x00\x3c"
GET_OK: Final = b"\x00\x3c\x00\x47"

NUMBERED_MIN: Final = 8
"""From so many messages of one length on they are `numbered`."""


def with_high_octets(before: bytes, first: int, count: int) -> list[bytes]:
    """Return, for each of `count` numbers from `first` on, `before` and all but the last of the
    eight octets of the number. For 256 numbers at a time it is the same object."""
    pieces: list[bytes] = []
    number, end = first, first + count
    while number < end:
        following = min((number | 255) + 1, end)
        pieces += [before + PACK_TAG(number)[:7]] * (following - number)
        number = following
    return pieces


def low_octets(first: int, count: int) -> list[bytes]:
    """Return the last octet of each of `count` numbers from `first` on."""
    start = first & 255
    octets = OCTETS if start + count <= 256 else OCTETS * (1 + (start + count) // 256)
    return octets[start : start + count]


def pieces_of(parts: list[bytes], contents: list[bytes]) -> list[bytes]:
    """Return `parts` as `joined` does; of them only the contents, which are as long as these or
    shorter, may be large."""
    is_small = max(map(len, contents)) < LARGE_BYTES
    return [b"".join(parts)] if is_small else joined(parts)


def short_string(text: str) -> bytes:
    """Return a short string as it stands on the wire: an octet with its length, then the text."""
    raw = octets(text)
    return bytes((len(raw),)) + raw


class DirectReply:
    """Sent to a channel: contents for its reply consumer, which are dropped unless its address is
    still `at`."""

    __slots__ = ("at", "contents", "redelivered", "same_size", "traits")

    def __init__(self, at: str, contents: list[bytes], traits: MessageTraits) -> None:
        self.at = at
        self.contents = contents
        self.traits = traits
        self.redelivered = False
        self.same_size = False

    def whole(self) -> list[bytes]:
        """Return the contents as the consumer gets them."""
        return self.contents


class DeliveryEncoder:
    """Encodes the deliveries of one consumer. It remembers, for each envelope (exchange and routing
    key), the octets before and behind the delivery tag."""

    __slots__ = ("frame_max", "known", "last_ends", "last_envelope", "number", "refit", "tag")

    def __init__(self, number: int, tag: str, frame_max: int, refit: bool) -> None:
        self.number = number
        self.tag = short_string(tag)
        self.frame_max = frame_max
        self.refit = refit
        self.known: dict[bytes, tuple[bytes, bytes, bytes]] = {}
        self.last_envelope = ENVELOPED
        self.last_ends = (b"", b"", b"")
        """What is known of the envelope that came last; ENVELOPED: none has come."""

    def ends(self, envelope: bytes) -> tuple[bytes, bytes, bytes]:
        """Return the octets of the method frame before the delivery tag, those behind it, and those
        behind it when the message is redelivered."""
        if envelope == self.last_envelope:
            return self.last_ends
        ends = self.known.get(envelope)
        if ends is None:
            ends = (
                self.head(len(envelope)),
                b"\x00" + envelope + b"\xce",
                b"\x01" + envelope + b"\xce",
            )
            if len(self.known) >= ENVELOPES_MAX:
                self.known.clear()
            self.known[envelope] = ends
        self.last_envelope = envelope
        self.last_ends = ends
        return ends

    def frames(self, deliver: Deliver | DirectReply, first_tag: int) -> list[bytes]:
        """Return all frames of a delivery, whose messages have consecutive tags from `first_tag`
        on, as pieces for the socket."""
        traits = deliver.traits
        if traits.envelope == ENVELOPED:
            return pieces_of(self.enveloped_frames(deliver, first_tag), deliver.contents)
        is_moved = traits.channel_number != self.number
        if isinstance(deliver, StampedDeliver) and not (is_moved or self.refit):
            return self.stamped_frames(deliver, first_tag)
        contents = deliver.whole()
        if is_moved:
            contents = [on_channel(content, self.number) for content in contents]
        if self.refit:
            contents = [fit(content, self.frame_max) for content in contents]
        head, fresh, again = self.ends(traits.envelope)
        tail = again if deliver.redelivered else fresh
        count = len(contents)
        if count >= NUMBERED_MIN and deliver.same_size and not self.refit:
            return self.alike_frames(head, tail, contents, first_tag)
        if count == 1:
            content = contents[0]
            if len(content) < LARGE_BYTES:
                return [head + first_tag.to_bytes(8, "big") + tail + content]
            return joined([head, PACK_TAG(first_tag), tail, content])
        parts = [tail] * (4 * count)
        parts[0::4] = with_high_octets(head, first_tag, count)
        parts[1::4] = low_octets(first_tag, count)
        parts[3::4] = contents
        return pieces_of(parts, contents)

    def stamped_frames(self, deliver: StampedDeliver, first_tag: int) -> list[bytes]:
        """Return all frames of a delivery of a stream, with consecutive tags from `first_tag` on,
        as pieces for the socket."""
        head, tail, _ = self.ends(deliver.traits.envelope)
        contents = deliver.contents
        count = len(contents)
        if count >= NUMBERED_MIN and len(contents[0]) < LARGE_BYTES:
            after_tag = tail + deliver.before
            before = b"".join((head, PACK_TAG(first_tag), after_tag, PACK_TAG(deliver.first)))
            at = len(head)
            numbers = [(at, first_tag), (at + NUMBER_SIZE + len(after_tag), deliver.first)]
            return [numbered(before, contents, numbers)]
        parts = [b""] * (5 * count)
        parts[0::5] = with_high_octets(head, first_tag, count)
        parts[1::5] = low_octets(first_tag, count)
        parts[2::5] = with_high_octets(tail + deliver.before, deliver.first, count)
        parts[3::5] = low_octets(deliver.first, count)
        parts[4::5] = contents
        return pieces_of(parts, contents[:1])

    def alike_frames(
        self, head: bytes, tail: bytes, contents: list[bytes], first_tag: int
    ) -> list[bytes]:
        """Return all frames of contents of one length, with consecutive tags from `first_tag` on,
        as pieces for the socket."""
        if len(contents[0]) >= LARGE_BYTES:
            tags = range(first_tag, first_tag + len(contents))
            pieces = [b""] * (2 * len(contents))
            pieces[0::2] = [b"".join((head, PACK_TAG(tag), tail)) for tag in tags]
            pieces[1::2] = contents
            return pieces
        before = b"".join((head, PACK_TAG(first_tag), tail))
        return [numbered(before, contents, [(len(head), first_tag)])]

    def enveloped_frames(self, deliver: Deliver | DirectReply, first_tag: int) -> list[bytes]:
        """Return the parts of all frames of a delivery whose contents begin with their envelopes,
        with consecutive tags from `first_tag` on. Envelopes are not remembered, because most come
        once."""
        flag = b"\x01" if deliver.redelivered else b"\x00"
        moved = deliver.traits.channel_number != self.number
        heads: dict[int, bytes] = {}
        """The octets before the delivery tag, by the length of the envelope."""
        tags = map(PACK_TAG, range(first_tag, first_tag + len(deliver.contents)))
        parts: list[bytes] = []
        for tag, enveloped in zip(tags, deliver.contents, strict=True):
            key_at = 1 + enveloped[0]
            size = key_at + 1 + enveloped[key_at]
            content = enveloped[size:]
            if moved:
                content = on_channel(content, self.number)
            if self.refit:
                content = fit(content, self.frame_max)
            head = heads.get(size)
            if head is None:
                head = heads[size] = self.head(size)
            parts.append(head)
            parts.append(tag)
            parts.append(flag)
            parts.append(enveloped[:size])
            parts.append(END_OCTET)
            parts.append(content)
        return parts

    def head(self, envelope_size: int) -> bytes:
        """Return the octets of the method frame before the delivery tag, for an envelope of that
        size."""
        size = 4 + len(self.tag) + 9 + envelope_size
        return struct.pack(">BHI", 1, self.number, size) + DELIVER + self.tag


def got_frames(got: Got, number: int, tag: int, frame_max: int) -> bytes:
    """Return the frames of basic.get-ok and its content for channel `number`, each of at most
    `frame_max` bytes (0: of any size)."""
    assert got.content is not None
    envelope, content = got.traits.envelope, got.content
    if envelope == ENVELOPED:
        envelope, content = separate(content)
    arguments = struct.pack(">QB", tag, got.redelivered) + envelope
    arguments += struct.pack(">I", got.ready)
    head = struct.pack(">BHI", 1, number, 4 + len(arguments))
    content = fit(on_channel(content, number), frame_max)
    return b"".join((head, GET_OK, arguments, b"\xce", content))
