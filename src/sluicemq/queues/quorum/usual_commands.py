"""The usual commands, which make up most entries, made into bytes and read in one step each.

Unusual and malformed commands are left to `command_codec.py`, which writes and reads all commands,
and reports what is wrong with malformed ones.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from sluicemq.kernel.address import ADDRESS_BYTES, ActorAddress, decode_address
from sluicemq.queues.command_codec import PERSISTENT, SAME_SIZE
from sluicemq.queues.quorum.commands import (
    UNSENT,
    Asked,
    ConsumerKey,
    Enqueue,
    FifoCommand,
    SettleDelivered,
)
from sluicemq.text import octets, text_of

ENQUEUE: Final = Struct(f"<{ADDRESS_BYTES}sQQQIIIHHBxxx")
"""The sender's address, and the head of an enqueue."""
ENQUEUE_BYTES: Final[int] = ENQUEUE.size
ENQUEUED: Final = Struct(f"<{ADDRESS_BYTES}sQQ8xIII2xH4x")
"""What the state needs of it."""
ASKED: Final = Struct(f"<{ADDRESS_BYTES}sQ")
SETTLE: Final = Struct(f"<{ADDRESS_BYTES}sIII")
"""The channel's address, and the head of a settle; behind it are the tag, and the ids."""
SETTLE_BYTES: Final[int] = SETTLE.size
ONE_RANGE: Final = Struct("<QQ")
ONE_RANGE_BYTES: Final[int] = ONE_RANGE.size
ASKED_BYTES: Final[int] = ASKED.size
WHOLE_ENQUEUE: Final = Struct(f"<HHI{ADDRESS_BYTES}sQQQIIIHHBxxx")
"""The same as `ENQUEUE` with the head of a command before it; likewise the next two."""
WHOLE_SETTLE: Final = Struct(f"<HHI{ADDRESS_BYTES}sIII")
WHOLE_ASKED: Final = Struct(f"<HHI{ADDRESS_BYTES}sQ")
ENQUEUE_KIND: Final = 11
SETTLE_KIND: Final = 13
ASKED_KIND: Final = 19
SAME_BODIES: Final = 8
"""All bodies of an enqueue have the same size."""
BODILESS: Final = 16
"""An enqueue has no contents any more, because all its messages have left the queue."""
BODILESS_HEAD: Final[bytes] = Struct("<HHI").pack(
    ENQUEUE_KIND, BODILESS | SAME_SIZE | SAME_BODIES, ENQUEUE_BYTES
)
"""The head of a command that enqueues what has left the queue."""
CONTENT_AT: Final = ADDRESS_BYTES + 28
"""Where an enqueue says how long each content is, and behind that how long each body is, and, from
`CHANNEL_AT` on, what contents have in common."""
SIZE_AT: Final = CONTENT_AT + 4
CHANNEL_AT: Final = SIZE_AT + 4
NO_CONTENT: Final = bytes(SIZE_AT - CONTENT_AT)
NO_ENVELOPE: Final = bytes(ENQUEUE_BYTES - CHANNEL_AT)
SEQ_MAX: Final = (1 << 64) - 1
USUAL_SEQ_MAX: Final = 1 << 60
"""Numbers up to here are machine words to compiled code."""

KNOWN_MAX: Final = 4096
ADDRESSES: Final[dict[bytes, ActorAddress]] = {}
"""Addresses that were read lately, at most KNOWN_MAX, by their bytes: those of a channel come again
and again. Equal ones are mostly one object, which tables find sooner."""
SETTLED: Final[dict[bytes, tuple[ConsumerKey, int]]] = {}
"""The same of the consumer and the outcome of settles, by their bytes up to the ids."""
RAW_ADDRESSES: Final[dict[ActorAddress, bytes]] = {}
"""The bytes of addresses that were written lately, at most KNOWN_MAX."""
RAW_TAGS: Final[dict[str, bytes]] = {}
"""The same of the tags of consumers."""


def known_address(raw: bytes) -> ActorAddress:
    """Return the address of which these are the bytes."""
    address = ADDRESSES.get(raw)
    if address is None:
        if len(ADDRESSES) >= KNOWN_MAX:
            ADDRESSES.clear()
        address = ADDRESSES[raw] = decode_address(raw, 0)
    return address


def raw_address(address: ActorAddress) -> bytes:
    """Return the bytes of an address."""
    raw = RAW_ADDRESSES.get(address)
    if raw is None:
        if len(RAW_ADDRESSES) >= KNOWN_MAX:
            RAW_ADDRESSES.clear()
        raw = RAW_ADDRESSES[address] = address.encode()
    return raw


def raw_tag(tag: str) -> bytes:
    """Return the bytes of a consumer's tag."""
    raw = RAW_TAGS.get(tag)
    if raw is None:
        if len(RAW_TAGS) >= KNOWN_MAX:
            RAW_TAGS.clear()
        raw = RAW_TAGS[tag] = octets(tag)
    return raw


def known_settled(raw: bytes) -> tuple[ConsumerKey, int] | None:
    """Return the consumer and the outcome of a settle that has these bytes before its one range of
    ids; None if there is none."""
    known = SETTLED.get(raw)
    if known is None:
        channel, count, outcome, tag_size = SETTLE.unpack_from(raw)
        if count != 1 or outcome > UNSENT or tag_size != len(raw) - SETTLE_BYTES:
            return None
        if len(SETTLED) >= KNOWN_MAX:
            SETTLED.clear()
        known = ConsumerKey(known_address(channel), text_of(raw[SETTLE_BYTES:])), outcome
        SETTLED[raw] = known
    return known


# -- to bytes


def put_usual(parts: list[bytes], command: FifoCommand) -> bool:
    """Append the bytes of a command to `parts`, if it is a usual one. Returns whether it is."""
    if isinstance(command, Enqueue):
        return put_enqueue(parts, command)
    if isinstance(command, SettleDelivered):
        return put_settle(parts, command)
    if isinstance(command, Asked):
        asker = raw_address(command.asker)
        parts.append(WHOLE_ASKED.pack(ASKED_KIND, 0, ASKED_BYTES, asker, command.number))
        return True
    return False


def put_enqueue(parts: list[bytes], command: Enqueue) -> bool:
    """Append an enqueue of messages that are alike and have no time to live, or that have all left
    the queue."""
    batch = command.batch
    if command.sizes is not None or command.ttl_ms is not None:
        return False
    flags = SAME_SIZE | SAME_BODIES
    contents: list[bytes] = []
    content = channel_number = priority = 0
    envelope = b""
    if batch is None:
        flags |= BODILESS
    else:
        if not batch.same_size:
            return False
        contents = batch.contents
        content = len(contents[0])
        traits = batch.traits
        flags |= PERSISTENT * traits.persistent
        envelope = traits.envelope
        channel_number = traits.channel_number
        priority = batch.properties.priority
        assert len(contents) == command.count
    length = ENQUEUE_BYTES + len(envelope) + content * len(contents)
    parts.append(
        WHOLE_ENQUEUE.pack(
            ENQUEUE_KIND,
            flags,
            length,
            raw_address(command.sender),
            command.first_seq,
            command.heard_seq,
            0,
            command.count,
            content,
            command.size,
            channel_number,
            len(envelope),
            priority,
        )
    )
    if batch is not None:
        parts.append(envelope)
        parts.extend(contents)
    return True


def put_usual_bodiless(parts: list[bytes], data: bytes, at: int, flags: int) -> bool:
    """Append what `put_enqueue` writes of the enqueue that begins at `at`, behind its head, once
    its messages have left the queue, if it is a usual one. Returns whether it is."""
    if flags & ~(PERSISTENT | BODILESS) != SAME_SIZE | SAME_BODIES:
        return False
    parts.append(BODILESS_HEAD)
    parts.append(data[at : at + CONTENT_AT])
    parts.append(NO_CONTENT)
    parts.append(data[at + SIZE_AT : at + CHANNEL_AT])
    parts.append(NO_ENVELOPE)
    return True


def put_settle(parts: list[bytes], command: SettleDelivered) -> bool:
    """Append a settle that has one range of ids."""
    ids = command.ids
    if len(ids) != 1:
        return False
    start, end = ids[0]
    assert start < end, "a settle of nothing cannot be read"
    channel, tag = command.consumer
    raw = raw_tag(tag)
    size = len(raw)
    length = SETTLE_BYTES + size + ONE_RANGE_BYTES
    address = raw_address(channel)
    parts.append(WHOLE_SETTLE.pack(SETTLE_KIND, 0, length, address, 1, command.outcome, size))
    parts.append(raw)
    parts.append(ONE_RANGE.pack(start, end))
    return True


# -- and back


def usual_command(data: bytes, at: int, end: int, kind: int, flags: int) -> FifoCommand | None:
    """Return the command of that kind in data[at:end]; None if it is no usual one."""
    if kind == ENQUEUE_KIND:
        return usual_enqueue(data, at, end, flags)
    if kind == SETTLE_KIND:
        return usual_settle(data, at, end, flags)
    if kind == ASKED_KIND:
        return usual_asked(data, at, end, flags)
    return None


def usual_enqueue(data: bytes, at: int, end: int, flags: int) -> FifoCommand | None:
    """Return the enqueue in data[at:end] if its contents are alike, and its messages have no time
    to live; its bodies are skipped."""
    sender: bytes
    first_seq: int
    heard_seq: int
    count: int
    content: int
    size: int
    envelope: int
    contents_at: int = at + ENQUEUE_BYTES
    if contents_at > end or flags & ~(PERSISTENT | BODILESS) != SAME_SIZE | SAME_BODIES:
        return None
    sender, first_seq, heard_seq, count, content, size, envelope = ENQUEUED.unpack_from(data, at)
    if end - contents_at != envelope + count * content or (flags & BODILESS and content):
        return None
    if not count or not 0 < first_seq < USUAL_SEQ_MAX:
        return None
    return Enqueue(known_address(sender), first_seq, count, size, None, None, heard_seq)


def usual_settle(data: bytes, at: int, end: int, flags: int) -> FifoCommand | None:
    """Return the settle in data[at:end] if it has one range of ids."""
    start: int
    stop: int
    ids_at = end - ONE_RANGE_BYTES
    if flags or ids_at < at + SETTLE_BYTES:
        return None
    known = known_settled(data[at:ids_at])
    if known is None:
        return None
    start, stop = ONE_RANGE.unpack_from(data, ids_at)
    if start >= stop:
        return None
    return SettleDelivered(known[0], ((start, stop),), known[1])


def usual_asked(data: bytes, at: int, end: int, flags: int) -> FifoCommand | None:
    """Return the beginning of a row in data[at:end]."""
    if flags or end - at != ASKED_BYTES:
        return None
    asker: bytes
    number: int
    asker, number = ASKED.unpack_from(data, at)
    return Asked(known_address(asker), number)
