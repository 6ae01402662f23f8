"""The usual commands, which make up most entries, read from bytes in one step each.

Unusual and malformed commands are left to `command_codec.py`, which reads all commands and reports
what is wrong with malformed ones.
"""

from __future__ import annotations

from collections.abc import Callable
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
from sluicemq.text import text_of

ENQUEUE: Final = Struct(f"<{ADDRESS_BYTES}sQQQIIIHHBxxx")
"""The sender's address, and the head of an enqueue."""
ASKED: Final = Struct(f"<{ADDRESS_BYTES}sQ")
SETTLE: Final = Struct(f"<{ADDRESS_BYTES}sIII")
"""The channel's address, and the head of a settle; behind it are the tag, and the ids."""
ONE_RANGE: Final = Struct("<QQ")
SEQ_MAX: Final = (1 << 64) - 1
SAME_BODIES: Final = 8
"""All bodies of an enqueue have the same size."""
BODILESS: Final = 16
"""An enqueue has no contents any more, because all its messages have left the queue."""

KNOWN_MAX: Final = 4096
ADDRESSES: Final[dict[bytes, ActorAddress]] = {}
"""Addresses that were read lately, at most KNOWN_MAX, by their bytes: those of a channel come again
and again. Equal ones are mostly one object, which tables find sooner."""
KEYS: Final[dict[bytes, ConsumerKey]] = {}
"""The same of consumers, by the bytes of address and tag."""
RAW_ADDRESSES: Final[dict[ActorAddress, bytes]] = {}
"""The bytes of addresses that were written lately, at most KNOWN_MAX."""


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


def known_key(raw: bytes, tag: bytes) -> ConsumerKey:
    """Return the key of the consumer with these bytes of the channel's address, and of the tag."""
    key = KEYS.get(raw + tag)
    if key is None:
        if len(KEYS) >= KNOWN_MAX:
            KEYS.clear()
        key = KEYS[raw + tag] = ConsumerKey(known_address(raw), text_of(tag))
    return key


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
    contents_at: int = at + ENQUEUE.size
    if contents_at > end or flags & ~(PERSISTENT | BODILESS) != SAME_SIZE | SAME_BODIES:
        return None
    sender, first_seq, heard_seq, _, count, content, size, _, envelope, _ = ENQUEUE.unpack_from(
        data, at
    )
    if end - contents_at != envelope + count * content or (flags & BODILESS and content):
        return None
    if not count or not 0 < first_seq <= SEQ_MAX - count:
        return None
    return Enqueue(known_address(sender), first_seq, count, size, None, None, heard_seq)


def usual_settle(data: bytes, at: int, end: int, flags: int) -> FifoCommand | None:
    """Return the settle in data[at:end] if it has one range of ids."""
    channel: bytes
    count: int
    outcome: int
    tag_size: int
    start: int
    stop: int
    tag_at: int = at + SETTLE.size
    if flags or tag_at > end:
        return None
    channel, count, outcome, tag_size = SETTLE.unpack_from(data, at)
    ids_at = tag_at + tag_size
    if count != 1 or outcome > UNSENT or ids_at + ONE_RANGE.size != end:
        return None
    start, stop = ONE_RANGE.unpack_from(data, ids_at)
    if start >= stop:
        return None
    return SettleDelivered(known_key(channel, data[tag_at:ids_at]), ((start, stop),), outcome)


def usual_asked(data: bytes, at: int, end: int, flags: int) -> FifoCommand | None:
    """Return the beginning of a row in data[at:end]."""
    if flags or end - at != ASKED.size:
        return None
    asker: bytes
    number: int
    asker, number = ASKED.unpack_from(data, at)
    return Asked(known_address(asker), number)


USUAL: Final[dict[int, Callable[[bytes, int, int, int], FifoCommand | None]]] = {
    11: usual_enqueue,
    13: usual_settle,
    19: usual_asked,
}
"""The readers of usual commands, by the numbers of their types."""
