"""The usual commands, which make up most entries, read from bytes in one step each.

Unusual and malformed commands are left to `command_codec.py`, which reads all commands and reports
what is wrong with malformed ones.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from sluicemq.kernel.address import ActorAddress
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

ENQUEUE: Final = Struct("<IIQQQQIIIHHBxxx")
"""The sender's address, and the head of an enqueue."""
ASKED: Final = Struct("<IIQQ")
SETTLE: Final = Struct("<IIQIII")
"""The channel's address, and the head of a settle; behind it are the tag, and the ids."""
ONE_RANGE: Final = Struct("<QQ")
SEQ_MAX: Final = (1 << 64) - 1
SAME_BODIES: Final = 8
"""All bodies of an enqueue have the same size."""
BODILESS: Final = 16
"""An enqueue has no contents any more, because all its messages have left the queue."""


def usual_enqueue(data: bytes, at: int, end: int, flags: int) -> FifoCommand | None:
    """Return the enqueue in data[at:end] if its contents are alike, and its messages have no time
    to live; its bodies are skipped."""
    contents_at = at + ENQUEUE.size
    if contents_at > end or flags & ~(PERSISTENT | BODILESS) != SAME_SIZE | SAME_BODIES:
        return None
    node, incarnation, serial, first_seq, heard_seq, _, count, content, size, _, envelope, _ = (
        ENQUEUE.unpack_from(data, at)
    )
    if end - contents_at != envelope + count * content or (flags & BODILESS and content):
        return None
    if not count or not 0 < first_seq <= SEQ_MAX - count:
        return None
    sender = ActorAddress(node, incarnation, serial)
    return Enqueue(sender, first_seq, count, size, None, None, heard_seq)


def usual_settle(data: bytes, at: int, end: int, flags: int) -> FifoCommand | None:
    """Return the settle in data[at:end] if it has one range of ids."""
    tag_at = at + SETTLE.size
    if flags or tag_at > end:
        return None
    node, incarnation, serial, count, outcome, tag_size = SETTLE.unpack_from(data, at)
    ids_at = tag_at + tag_size
    if count != 1 or outcome > UNSENT or ids_at + ONE_RANGE.size != end:
        return None
    ids = ONE_RANGE.unpack_from(data, ids_at)
    if ids[0] >= ids[1]:
        return None
    key = ConsumerKey(ActorAddress(node, incarnation, serial), text_of(data[tag_at:ids_at]))
    return SettleDelivered(key, (ids,), outcome)


def usual_asked(data: bytes, at: int, end: int, flags: int) -> FifoCommand | None:
    """Return the beginning of a row in data[at:end]."""
    if flags or end - at != ASKED.size:
        return None
    node, incarnation, serial, number = ASKED.unpack_from(data, at)
    return Asked(ActorAddress(node, incarnation, serial), number)


USUAL: Final[dict[int, Callable[[bytes, int, int, int], FifoCommand | None]]] = {
    11: usual_enqueue,
    13: usual_settle,
    19: usual_asked,
}
"""The readers of usual commands, by the numbers of their types."""
